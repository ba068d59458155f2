"""Recipes: their schema, how their files are found and read, and the recipes that are shipped (TOML)."""
