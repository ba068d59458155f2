"""The HTTP API: middleware, parsing, routes, wire types and serialization."""

from multifold.errors import needs_extra

with needs_extra("serve"):
    import fastapi  # noqa: F401 (every module of this package needs it)
