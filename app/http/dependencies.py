"""What routes ask for: all collections, the one that a request names, and its address."""

from typing import Annotated

from fastapi import Depends, Path
from starlette.requests import Request

from app.collections.service import CollectionService
from app.runtime.collections import Collections
from index.names import DEFAULT
from multifold.types import Item


async def all_collections(request: Request) -> Collections:
    """The collections of the service that a request came to."""
    collections: Collections = request.app.state.collections
    return collections


CollectionsDep = Annotated[Collections, Depends(all_collections)]
CollectionName = Annotated[
    str,
    Path(
        description="its name or an alias", openapi_examples={DEFAULT: {"value": DEFAULT}}
    ),  # which /docs fills in
]


async def collection_name(collection: CollectionName) -> str:
    """The name of a collection, or an alias, in the path of a request."""
    return collection


async def named_collection(request: Request, collection: CollectionName) -> CollectionService:
    """The collection that a request names in its path."""
    return await (await all_collections(request)).find(collection)


CollectionDep = Annotated[CollectionService, Depends(named_collection)]


async def collection_address(request: Request, service: CollectionDep) -> str:
    return (await all_collections(request)).address(service)


async def named_item(service: CollectionDep, item_id: str) -> Item:
    """The item that a request names in its path."""
    return await service.run(lambda: service.item(item_id))


ItemDep = Annotated[Item, Depends(named_item)]
AddressDep = Annotated[str, Depends(collection_address)]
