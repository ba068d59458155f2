"""Indexes of the texts of items: of their words, and of what a text reader reads in them."""
