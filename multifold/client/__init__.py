"""The typed client of the REST service."""

from multifold.client.client import Client, ServiceError
from multifold.client.request_models import File, MixPart, NewItem, Search
from multifold.types import Examples

__all__ = ["Client", "Examples", "File", "MixPart", "NewItem", "Search", "ServiceError"]
