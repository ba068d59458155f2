"""The typed client of the REST service."""

from multifold.client.client import Client, ServiceError
from multifold.client.request_models import File, MixPart, NewItem, Search

__all__ = ["Client", "File", "MixPart", "NewItem", "Search", "ServiceError"]
