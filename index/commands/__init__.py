"""The command `multifold index` and its actions."""
