"""The query: its parts and encoding, folding of duplicates, explanations and traversals."""
