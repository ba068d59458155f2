"""The tools: each asks a service by its client, with the key of whoever calls."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from multifold.agents.answers import (
    AddedItem,
    ExplainedMatch,
    FoundItems,
    bound_payloads,
    explained_match,
    found_items,
)
from multifold.agents.pictures import read_file, shrink_picture
from multifold.client import AsyncClient
from multifold.errors import MultifoldError, needs_extra
from multifold.wire.search import QueryInput, SearchAnswer

with needs_extra("mcp"):
    from mcp.server.mcpserver import Context, Image
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import CallToolResult, TextContent
    from pydantic import Field

SHOWN_PICTURES = 6
ASKED_TEXT = (
    "what to look for, in words. Sizes, counts, makers and years may be said in them: 'a chair under 80 cm, "
    "by Kenney' is read as a filter, which the answer shows"
)
Collection = Annotated[str | None, Field(description="name of a collection; the default one without")]
Limit = Annotated[int, Field(ge=1, le=50, description="most items of the answer")]
Where = Annotated[
    dict[str, Any] | None,
    Field(description='a condition on the payload, such as {"colour": "red", "price": {"lt": 10}}'),
]
PayloadKeys = Annotated[
    list[str] | None, Field(description="keys of the payloads that are wanted, such as price; all without")
]
FoundOnce = Annotated[CallToolResult, FoundItems]
PictureName = Annotated[str | None, Field(description="a picture: a data URI, or a file's name")]
MeshName = Annotated[
    str | None, Field(description="a 3D model: a data URI, or a file's name, such as chair.glb")
]
NewMeshName = Annotated[
    str | None, Field(description="a 3D model: a data URI, an address, or a file's name, such as chair.glb")
]
MeshFormat = Annotated[
    str | None, Field(description="format of a mesh whose name does not tell it, such as glb")
]


@dataclass(frozen=True)
class AgentTools:
    """What an agent can do with a service. Files may be read from these folders, and from no others."""

    client: AsyncClient
    folders: Sequence[Path] = ()

    async def search(
        self,
        context: Context,
        text: Annotated[str | None, Field(description=ASKED_TEXT)] = None,
        image: PictureName = None,
        mesh: MeshName = None,
        mesh_format: MeshFormat = None,
        limit: Limit = 10,
        filter: Where = None,
        payload_keys: PayloadKeys = None,
        collection: Collection = None,
    ) -> FoundOnce:
        """Find things by a text, a picture or a 3D model: exactly one of them."""
        with _tool_errors():
            client = self._client(context, collection)
            answer = await client.search(
                text=text,
                image=self._file(image),
                mesh=self._file(mesh),
                mesh_format=mesh_format,
                limit=limit,
                filter=filter,
                fields=_fields(payload_keys),
            )
            return _told_once(answer)

    async def similar(
        self,
        context: Context,
        id: Annotated[str, Field(description="id of the item")],
        limit: Limit = 10,
        filter: Where = None,
        payload_keys: PayloadKeys = None,
        collection: Collection = None,
    ) -> FoundOnce:
        """Find items that are like an item."""
        with _tool_errors():
            client = self._client(context, collection)
            fields = _fields(payload_keys)
            return _told_once(await client.similar(id, limit=limit, filter=filter, fields=fields))

    async def look(
        self,
        context: Context,
        id: Annotated[str, Field(description="id of the item")],
        pictures: Annotated[int, Field(ge=0, le=SHOWN_PICTURES, description="most pictures to see")] = 1,
        large: Annotated[bool, Field(description="up to 1024 pixels a side instead of 256")] = False,
        collection: Collection = None,
    ) -> list[Any]:
        """See an item: its payload and captions, and its photos or the views of its 3D model."""
        with _tool_errors():
            client = self._client(context, collection)
            item = await client.get(id)
            urls = [one.url for one in item.observations if one.url is not None][:pictures]
            found = [await client.picture(url if large else f"{url}&small=true") for url in urls]
            images = [
                Image(data=shrink_picture(one), format="jpeg") if large else Image(data=one, format="webp")
                for one in found
            ]
            texts = [one.text for one in item.observations if one.text is not None]
            files = [asdict(one) for one in item.files]
            (payload,), warnings = bound_payloads([dict(item.payload)])
            about = {"id": item.id, "payload": payload, "captions": texts, "files": files}
            return [about | {"pictures": urls, "warnings": warnings}, *images]

    async def add(
        self,
        context: Context,
        id: Annotated[str, Field(description="id of the item; one that has it is replaced")],
        texts: Annotated[list[str], Field(description="captions")] = [],  # noqa: B006 (it is only read)
        images: Annotated[list[str], Field(description="photos: data URIs, addresses, or files")] = [],  # noqa: B006
        mesh: NewMeshName = None,
        mesh_format: MeshFormat = None,
        payload: Annotated[dict[str, Any] | None, Field(description="a JSON object of your own")] = None,
        collection: Collection = None,
    ) -> AddedItem:
        """Store an item, so that it can be found: captions, photos, a 3D model and a payload."""
        with _tool_errors():
            photos = [read_file(one, self.folders) for one in images]
            client = self._client(context, collection)
            written = await client.upsert(
                id,
                texts=texts,
                images=photos,
                mesh=self._file(mesh),
                mesh_format=mesh_format,
                payload=payload or {},
            )
            return AddedItem(id, dict(written.observations), list(written.warnings))

    async def explain(
        self,
        context: Context,
        item: Annotated[str, Field(description="id of the item")],
        text: Annotated[str | None, Field(description="the query, in words")] = None,
        image: PictureName = None,
        like: Annotated[str | None, Field(description="id of another item that is the query")] = None,
        collection: Collection = None,
    ) -> ExplainedMatch:
        """Why an item matches a text, a picture or another item: exactly one of them."""
        with _tool_errors():
            query = QueryInput(text=text, image=self._file(image), id=like)
            client = self._client(context, collection)
            return explained_match(await client.explain(query, item))

    def _client(self, context: Context, collection: str | None) -> AsyncClient:
        """The client of one call; a call over HTTP brings its own key."""
        request = context.request_context.request
        client = self.client if request is None else self.client.with_key(presented_key(request.headers))
        return client if collection is None else client.collection(collection)

    def _file(self, name: str | None) -> Any:  # noqa: ANN401 (a file or a picture)
        return None if name is None else read_file(name, self.folders)


def presented_key(headers: Any) -> str | None:  # noqa: ANN401 (headers of Starlette)
    """The key that a request came with, in either of its headers."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return (token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key")) or None


def _fields(payload_keys: Sequence[str] | None) -> list[str] | None:
    """What hits carry: of the payload these keys, or all."""
    return None if payload_keys is None else ["looks_like", *(f"payload.{key}" for key in payload_keys)]


def _told_once(answer: SearchAnswer) -> CallToolResult:
    """An answer as an object; the text beside it leaves out the payloads, which may be long."""
    found = found_items(answer)
    items = [{"id": one.id, "confidence": one.confidence, "matched": one.matched} for one in found.items]
    about = {"matches_well": found.matches_well, "understood": found.understood, "warnings": found.warnings}
    text = json.dumps({"items": items, **about})
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=asdict(found))


@contextmanager
def _tool_errors() -> Iterator[None]:
    """An agent reads the sentence of a failure, and can go on."""
    try:
        yield
    except (MultifoldError, OSError, ValueError) as error:  # a path may be none that a system takes
        raise ToolError(str(error)) from error
