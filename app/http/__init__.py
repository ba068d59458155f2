"""The HTTP API: middleware, parsing, routes, wire types and serialization."""
