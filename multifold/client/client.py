"""The typed REST client.

with Client("http://127.0.0.1:8000") as client:
    for hit in client.search(text="a red chair with four black legs").hits:
        print(hit.id, hit.score, hit.matched.url)
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from multifold.client.administration import AdminClient
from multifold.client.request_models import (
    File,
    Filter,
    MixPart,
    NewItem,
    Picture,
    Search,
    embedding_input,
    given,
    refuse_single_text,
    takes_fields,
)
from multifold.client.transport import ServiceError, collection_path, path_segment
from multifold.errors import MultifoldError
from multifold.types import Examples, Kind, Pooling, Side, Target, Vectors, Verdict
from multifold.wire import items as item_wire
from multifold.wire import search as search_wire
from multifold.wire.administration import JobAnswer, JobStatus
from multifold.wire.insight import ExplainAnswer, TraverseAnswer

T = TypeVar("T")
__all__ = ["Client", "Examples", "MixPart", "NewItem", "Search", "ServiceError"]


@dataclass(frozen=True)
class BulkResult:
    """What became of each item, in their order, by id: written, or refused with the reason."""

    results: tuple[item_wire.ItemWriteAnswer | item_wire.Refusal, ...]
    ids: tuple[str | None, ...]
    written: int
    refused: int
    version: int


class Client(AdminClient):
    """Talks to one service about one collection. Safe to share between threads; close it, or use a `with`."""

    def __enter__(self) -> "Client":
        return self

    def collection(self, name: str) -> "Client":
        """The same service, asked about one collection, by its name or an alias. Shares the connections."""
        other = copy(self)
        other._at = collection_path(name)
        return other

    @takes_fields(Search)
    def search(self, search: Search) -> search_wire.SearchAnswer:
        """Find items by one text, picture, mesh, item, vector or mix; takes the fields of a `Search`."""
        form = search.form()
        content: dict[str, Any] = {"json": search.json()} if form is None else {"files": form}
        return self._ask(search_wire.SearchAnswer, "POST", f"{self._at}/search", **content)

    def search_many(
        self, searches: Sequence[Search]
    ) -> tuple[search_wire.SearchAnswer | item_wire.Refusal, ...]:
        """Several searches at once, answered in their order."""
        body = {"searches": [search.json() for search in searches]}
        batch = self._ask(search_wire.BatchSearchAnswer, "POST", f"{self._at}/search/batch", json=body)
        return tuple(_one_of(one.answer, one.error) for one in batch.answers)

    def similar(
        self,
        id: str,
        *,
        side: Side | None = None,
        target: Target = "item",
        limit: int = 10,
        offset: int = 0,
        filter: Filter | None = None,
        pool: Pooling = "mean",
    ) -> search_wire.SearchAnswer:
        """Items that are like this one."""
        body = given(side=side, target=target, limit=limit, offset=offset, filter=filter, pool=pool)
        return self._ask(search_wire.SearchAnswer, "POST", f"{self._item(id)}/similar", json=body)

    @takes_fields(NewItem)
    def upsert(self, item: NewItem) -> item_wire.ItemWriteAnswer:
        """Write an item in place of its former self; takes the fields of a `NewItem`."""
        return self._ask(item_wire.ItemWriteAnswer, "PUT", self._item(item.id), files=item.form())

    def upsert_many(self, items: Sequence[NewItem]) -> BulkResult:
        """Write items; one that is refused does not keep the others out."""
        body = {"items": [item.json() for item in items]}
        bulk = self._ask(item_wire.BulkAnswer, "POST", f"{self._at}/items", json=body)
        results = tuple(_one_of(one.written, one.error) for one in bulk.results)
        ids = tuple(one.id for one in bulk.results)
        return BulkResult(results, ids, bulk.written, bulk.refused, bulk.version)

    def upsert_later(self, items: Sequence[NewItem]) -> JobStatus:
        """Have items written after the answer; `wait` for the job to know what became of them."""
        body = {"items": [item.json() for item in items]}
        return self._ask(JobAnswer, "POST", f"{self._at}/items/bulk", json=body).job

    def update(
        self, id: str, *, payload: Mapping[str, Any] | None = None, texts: Sequence[str] | None = None
    ) -> item_wire.ItemWriteAnswer:
        """Change an item: `payload` is a JSON merge patch, `texts` take the place of its captions."""
        refuse_single_text(texts)
        body = given(payload=payload, texts=None if texts is None else list(texts))
        return self._ask(item_wire.ItemWriteAnswer, "PATCH", self._item(id), json=body)

    def get(self, id: str) -> item_wire.StoredItem:
        """An item with its payload and all its observations."""
        return self._ask(item_wire.StoredItem, "GET", self._item(id))

    def items(
        self, filter: Filter | None = None, page: int = 100, sort: str = "id"
    ) -> Iterator[item_wire.StoredItem]:
        """All items, or those that a filter lets through; read page by page.

        `sort` is id, newest, payload.KEY or -payload.KEY: by a number, the least or the greatest first.
        """
        after: str | None = None
        while True:
            body = {"filter": filter, "after": after, "limit": page, "sort": sort}
            answer = self._ask(item_wire.ItemPage, "POST", f"{self._at}/items/scroll", json=body)
            yield from answer.items
            if (after := answer.next) is None:
                return

    def count(self, filter: Filter | None = None) -> int:
        """How many items there are, or how many of them a filter lets through."""
        return self._ask(
            item_wire.ItemCount, "POST", f"{self._at}/items/count", json={"filter": filter}
        ).count

    def facets(
        self,
        keys: Sequence[str],
        filter: Filter | None = None,
        limit: int = 20,
        *,
        query: Search | None = None,
        best: int | None = None,
    ) -> Mapping[str, tuple[search_wire.FacetValueCount, ...]]:
        """The values of each key of the payload that most items have, or most of the best hits of a query."""
        asked = None if query is None else query.json()
        body = given(keys=list(keys), filter=filter, limit=limit, query=asked, best=best)
        return self._ask(search_wire.FacetsAnswer, "POST", f"{self._at}/facets", json=body).facets

    def ranges(
        self, keys: Sequence[str], filter: Filter | None = None
    ) -> Mapping[str, search_wire.NumberRange]:
        """For each key of the payload that has numbers, the least and the greatest of them."""
        body = {"keys": list(keys), "filter": filter, "limit": 1}
        return self._ask(search_wire.FacetsAnswer, "POST", f"{self._at}/facets", json=body).ranges

    def delete(self, id: str) -> int:
        """Remove an item; gives how many were removed, 0 or 1."""
        return self._ask(item_wire.RemovalAnswer, "DELETE", self._item(id)).removed

    def delete_many(self, ids: Sequence[str] | None = None, *, filter: Filter | None = None) -> int:
        """Remove the items of these ids, or those that a filter lets through; gives how many there were."""
        body = {"filter": filter} if ids is None else {"ids": list(ids)}
        return self._ask(item_wire.RemovalAnswer, "POST", f"{self._at}/items/delete", json=body).removed

    def embed(
        self,
        inputs: Sequence[str | Picture | File],
        modality: Side = "text",
        mesh_format: str | None = None,
        dimensions: int | None = None,
    ) -> Vectors:
        """Index vectors of texts, pictures or meshes; meshes need their format where GLB is not meant.

        `dimensions` is one of the `prefixes` of the model, for shorter vectors.
        """
        if isinstance(inputs, str):
            raise MultifoldError("inputs is a list; a single one goes into a list of its own")
        data = [embedding_input(one, modality) for one in inputs]
        options = given(modality=modality, mesh_format=mesh_format, dimensions=dimensions)
        body = {"input": data, "encoding_format": "base64", **options}
        answer = self._ask(search_wire.EmbeddingsAnswer, "POST", f"{self._at}/embeddings", json=body)
        rows = [np.frombuffer(base64.b64decode(str(one.embedding)), np.dtype("<f4")) for one in answer.data]
        return np.stack(rows).astype(np.float32)

    def traverse(
        self, query: MixPart, *, widths: Sequence[float] = (), captions: str = "all", steps: int = 50
    ) -> TraverseAnswer:
        """Walk from a text, picture, mesh or item to the root; the captions that are met on the way."""
        body = {**query.query(), "widths": list(widths), "captions": captions, "steps": steps}
        return self._ask(TraverseAnswer, "POST", f"{self._at}/traverse", json=body)

    def explain(
        self,
        query: MixPart,
        item: str,
        *,
        kind: Kind | None = None,
        index: int | None = None,
        method: str | None = None,
        token: int | None = None,
        maps: bool = True,
    ) -> ExplainAnswer:
        """Why an item matches: all its scores, and what in its best observation, or in that one, made it."""
        body = given(kind=kind, index=index, method=method, token=token, item=item, maps=maps)
        return self._ask(ExplainAnswer, "POST", f"{self._at}/explain", json=query.query() | body)

    def judge(
        self,
        query: Search,
        item: str,
        verdict: Verdict,
        *,
        kind: Kind | None = None,
        index: int = 0,
        by: str | None = None,
    ) -> search_wire.FeedbackEntry:
        """Judge an item good or bad for a query; `kind` and `index` name the observation that was shown."""
        shown = None if kind is None else {"kind": kind, "index": index}
        body = {"query": query.json(), "item": item, "observation": shown, "verdict": verdict, "by": by}
        return self._ask(search_wire.FeedbackEntry, "POST", f"{self._at}/feedback", json=body)

    def judgements(
        self, *, item: str | None = None, verdict: Verdict | None = None, page: int = 100
    ) -> Iterator[search_wire.FeedbackEntry]:
        """All verdicts, or those on an item or of one kind; read page by page."""
        after: str | None = None
        while True:
            params = given(item=item, verdict=verdict, limit=page, after=after)
            answer = self._ask(search_wire.FeedbackPage, "GET", f"{self._at}/feedback", params=params)
            yield from answer.feedback
            if (after := answer.next) is None:
                return

    def withdraw(self, id: str) -> int:
        """Remove a verdict; gives how many were removed, 0 or 1."""
        return self._ask(item_wire.RemovalAnswer, "DELETE", f"{self._at}/feedback/{path_segment(id)}").removed

    def models(self) -> tuple[search_wire.ServedModel, ...]:
        """The bundles that are loaded."""
        return self._ask(search_wire.ModelsAnswer, "GET", f"{self._at}/models").data

    def picture(self, url: str) -> bytes:
        """The bytes of a view or photo, by the `url` of an observation."""
        if not url.startswith("/") or url.startswith("//"):
            raise MultifoldError(f"{url!r} is not the url of an observation; those begin with /v1/")
        return self._send("GET", url).content

    def info(self) -> Mapping[str, Any]:
        """What runs there: its version, bundle, collection and limits."""
        return self._ask(dict, "GET", f"{self._at}/info")

    def ready(self) -> bool:
        """Whether the service answers queries now."""
        try:
            return bool(self._send("GET", "/readyz").json()["status"] == "ok")
        except ServiceError:
            return False

    def _item(self, item: str) -> str:
        return f"{self._at}/items/{path_segment(item)}"


def _one_of(answer: T | None, error: item_wire.Refusal | None) -> T | item_wire.Refusal:
    """The answer to one of several requests, or why there is none."""
    if answer is not None:
        return answer
    return error or item_wire.Refusal("bad_answer", "the service gave neither an answer nor a reason")
