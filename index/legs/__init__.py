"""The legs of a search: each is one way in which a query speaks for an item."""
