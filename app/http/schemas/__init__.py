"""The wire types of `/v1`, one module a resource."""
