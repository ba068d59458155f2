"""All collections of a service, and what works on them beside the requests."""

from multifold.errors import needs_extra

with needs_extra("serve"):
    import prometheus_client  # noqa: F401 (with it come the others that this package needs)
