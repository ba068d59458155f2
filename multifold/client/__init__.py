"""The typed clients of the REST service."""

from multifold.client.client import AsyncClient, Client, ServiceError
from multifold.client.request_models import File, MixPart, NewItem, Search
from multifold.types import Examples

__all__ = ["AsyncClient", "Client", "Examples", "File", "MixPart", "NewItem", "Search", "ServiceError"]
