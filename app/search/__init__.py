"""A search in six steps, pages, explanations, labels and proposed tags."""
