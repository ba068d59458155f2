"""The engines of a collection, one for each side: they follow the store, and are asked a query."""
