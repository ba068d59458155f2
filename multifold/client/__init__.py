"""The typed clients of the REST service."""

from multifold.client.client import AsyncClient, Client
from multifold.client.transport import ServiceError
from multifold.types import Examples
from multifold.wire.files import File
from multifold.wire.items import NewItem
from multifold.wire.search import MixPart, Search

__all__ = ["AsyncClient", "Client", "Examples", "File", "MixPart", "NewItem", "Search", "ServiceError"]
