"""The answers of the REST service as dataclasses, shared by the service and its client."""
