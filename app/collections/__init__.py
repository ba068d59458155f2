"""One collection at work, without HTTP and event loop: service, changes, confidence."""

from multifold.errors import needs_extra

with needs_extra("serve"):
    import prometheus_client  # noqa: F401 (with it come the others that this package needs)
