"""The routes of the API and of the search page, one module a resource."""
