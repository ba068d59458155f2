"""What an encoder knows about a match: explanations, traversals to the root and hierarchical metrics."""
