"""The typed clients of the REST service."""

from multifold.client.client import AsyncClient, Client, ServiceError
from multifold.client.request_models import File, MixPart, NewItem, Search

__all__ = ["AsyncClient", "Client", "File", "MixPart", "NewItem", "Search", "ServiceError"]
