"""The HTTP API: middleware, conversion, routes and wire types."""

from multifold.errors import needs_extra

with needs_extra("serve"):
    import fastapi  # noqa: F401 (every module of this package needs it)
