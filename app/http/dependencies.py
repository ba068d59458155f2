"""What routes ask for: the service, and the collection that a request names."""

from typing import Annotated

from fastapi import Depends, Path
from starlette.requests import Request

from app.runtime.runtime import CollectionRuntime, Runtime
from index.names import DEFAULT


def service_runtime(request: Request) -> Runtime:
    """The runtime of the service that a request came to."""
    runtime: Runtime = request.app.state.runtime
    return runtime


async def collection_runtime(request: Request) -> CollectionRuntime:
    """The runtime of the collection that a request names in its path, else of the default one."""
    return await service_runtime(request).collection(request.path_params.get("collection", DEFAULT))


def collection_name(collection: Annotated[str, Path(description="its name or an alias")]) -> str:
    """The path parameter of every route of a named collection."""
    return collection


CollectionDep = Annotated[CollectionRuntime, Depends(collection_runtime)]
ServiceDep = Annotated[Runtime, Depends(service_runtime)]
