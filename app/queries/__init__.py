"""What is asked: the parts of a query, and their vectors."""
