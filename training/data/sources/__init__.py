"""Data sets as others keep them, each read into the one manifest."""
