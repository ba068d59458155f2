"""What is asked about one collection: searches, items, embeddings, explanations and verdicts."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from multifold.client.calls import Call, CollectionAddress, Pages, ask, path_segment
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
from multifold.client.transport import PagedMethod, ServiceMethod
from multifold.errors import MultifoldError
from multifold.types import Kind, Pooling, Side, Target, Vectors, Verdict
from multifold.wire import items as item_wire
from multifold.wire import search as search_wire
from multifold.wire.administration import JobAnswer, JobStatus
from multifold.wire.insight import ExplainAnswer, TraverseAnswer

T = TypeVar("T")


@dataclass(frozen=True)
class BulkResult:
    """What became of each item, in their order, by id: written, or refused with the reason."""

    results: tuple[item_wire.ItemWriteAnswer | item_wire.Refusal, ...]
    ids: tuple[str | None, ...]
    written: int
    refused: int
    version: int


class CollectionMethods(CollectionAddress):
    """What is asked about one collection."""

    @ServiceMethod
    @takes_fields(Search)
    def search(self, search: Search) -> Call[search_wire.SearchAnswer]:
        """Find items by one text, picture, mesh, item, vector or mix; takes the fields of a `Search`."""
        form = search.form()
        content: dict[str, Any] = {"json": search.json()} if form is None else {"files": form}
        return ask(search_wire.SearchAnswer, "POST", f"{self._at}/search", **content)

    @ServiceMethod
    def search_many(
        self, searches: Sequence[Search]
    ) -> Call[tuple[search_wire.SearchAnswer | item_wire.Refusal, ...]]:
        """Several searches at once, answered in their order."""
        body = {"searches": [search.json() for search in searches]}
        batch = ask(search_wire.BatchSearchAnswer, "POST", f"{self._at}/search/batch", json=body)
        return batch.then(lambda found: tuple(_one_of(one.answer, one.error) for one in found.answers))

    @ServiceMethod
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
    ) -> Call[search_wire.SearchAnswer]:
        """Items that are like this one."""
        body = given(side=side, target=target, limit=limit, offset=offset, filter=filter, pool=pool)
        return ask(search_wire.SearchAnswer, "POST", f"{self._item(id)}/similar", json=body)

    @ServiceMethod
    @takes_fields(NewItem)
    def upsert(self, item: NewItem) -> Call[item_wire.ItemWriteAnswer]:
        """Write an item in place of its former self; takes the fields of a `NewItem`."""
        return ask(item_wire.ItemWriteAnswer, "PUT", self._item(item.id), files=item.form())

    @ServiceMethod
    def upsert_many(self, items: Sequence[NewItem]) -> Call[BulkResult]:
        """Write items; one that is refused does not keep the others out."""
        body = {"items": [item.json() for item in items]}
        return ask(item_wire.BulkAnswer, "POST", f"{self._at}/items", json=body).then(_bulk_result)

    @ServiceMethod
    def upsert_later(self, items: Sequence[NewItem]) -> Call[JobStatus]:
        """Have items written after the answer; `wait` for the job to know what became of them."""
        body = {"items": [item.json() for item in items]}
        return ask(JobAnswer, "POST", f"{self._at}/items/bulk", json=body).then(lambda answer: answer.job)

    @ServiceMethod
    def update(
        self, id: str, *, payload: Mapping[str, Any] | None = None, texts: Sequence[str] | None = None
    ) -> Call[item_wire.ItemWriteAnswer]:
        """Change an item: `payload` is a JSON merge patch, `texts` take the place of its captions."""
        refuse_single_text(texts)
        body = given(payload=payload, texts=None if texts is None else list(texts))
        return ask(item_wire.ItemWriteAnswer, "PATCH", self._item(id), json=body)

    @ServiceMethod
    def get(self, id: str) -> Call[item_wire.StoredItem]:
        """An item with its payload and all its observations."""
        return ask(item_wire.StoredItem, "GET", self._item(id))

    @PagedMethod
    def items(
        self, filter: Filter | None = None, page: int = 100, sort: str = "id"
    ) -> Pages[item_wire.StoredItem]:
        """All items, or those that a filter lets through; read page by page.

        `sort` is id, newest, payload.KEY or -payload.KEY: by a number, the least or the greatest first.
        """
        path, body = f"{self._at}/items/scroll", {"filter": filter, "limit": page, "sort": sort}

        def one_page(after: str | None) -> Call[tuple[Sequence[item_wire.StoredItem], str | None]]:
            asked = ask(item_wire.ItemPage, "POST", path, json={**body, "after": after})
            return asked.then(lambda answer: (answer.items, answer.next))

        return Pages(one_page)

    @ServiceMethod
    def count(self, filter: Filter | None = None) -> Call[int]:
        """How many items there are, or how many of them a filter lets through."""
        path = f"{self._at}/items/count"
        return ask(item_wire.ItemCount, "POST", path, json={"filter": filter}).then(
            lambda answer: answer.count
        )

    @ServiceMethod
    def facets(
        self,
        keys: Sequence[str],
        filter: Filter | None = None,
        limit: int = 20,
        *,
        query: Search | None = None,
        best: int | None = None,
    ) -> Call[Mapping[str, tuple[search_wire.FacetValueCount, ...]]]:
        """The values of each key of the payload that most items have, or most of the best hits of a query."""
        asked = None if query is None else query.json()
        body = given(keys=list(keys), filter=filter, limit=limit, query=asked, best=best)
        return ask(search_wire.FacetsAnswer, "POST", f"{self._at}/facets", json=body).then(
            lambda answer: answer.facets
        )

    @ServiceMethod
    def ranges(
        self, keys: Sequence[str], filter: Filter | None = None
    ) -> Call[Mapping[str, search_wire.NumberRange]]:
        """For each key of the payload that has numbers, the least and the greatest of them."""
        body = {"keys": list(keys), "filter": filter, "limit": 1}
        return ask(search_wire.FacetsAnswer, "POST", f"{self._at}/facets", json=body).then(
            lambda answer: answer.ranges
        )

    @ServiceMethod
    def delete(self, id: str) -> Call[int]:
        """Remove an item; gives how many were removed, 0 or 1."""
        return ask(item_wire.RemovalAnswer, "DELETE", self._item(id)).then(lambda answer: answer.removed)

    @ServiceMethod
    def delete_many(self, ids: Sequence[str] | None = None, *, filter: Filter | None = None) -> Call[int]:
        """Remove the items of these ids, or those that a filter lets through; gives how many there were."""
        body = {"filter": filter} if ids is None else {"ids": list(ids)}
        return ask(item_wire.RemovalAnswer, "POST", f"{self._at}/items/delete", json=body).then(
            lambda answer: answer.removed
        )

    @ServiceMethod
    def embed(
        self,
        inputs: Sequence[str | Picture | File],
        modality: Side = "text",
        mesh_format: str | None = None,
        dimensions: int | None = None,
    ) -> Call[Vectors]:
        """Index vectors of texts, pictures or meshes; meshes need their format where GLB is not meant.

        `dimensions` is one of the `prefixes` of the model, for shorter vectors.
        """
        if isinstance(inputs, str):
            raise MultifoldError("inputs is a list; a single one goes into a list of its own")
        data = [embedding_input(one, modality) for one in inputs]
        options = given(modality=modality, mesh_format=mesh_format, dimensions=dimensions)
        body = {"input": data, "encoding_format": "base64", **options}
        return ask(search_wire.EmbeddingsAnswer, "POST", f"{self._at}/embeddings", json=body).then(_vectors)

    @ServiceMethod
    def traverse(
        self, query: MixPart, *, widths: Sequence[float] = (), captions: str = "all", steps: int = 50
    ) -> Call[TraverseAnswer]:
        """Walk from a text, picture, mesh or item to the root; the captions that are met on the way."""
        body = {**query.query(), "widths": list(widths), "captions": captions, "steps": steps}
        return ask(TraverseAnswer, "POST", f"{self._at}/traverse", json=body)

    @ServiceMethod
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
    ) -> Call[ExplainAnswer]:
        """Why an item matches: all its scores, and what in its best observation, or in that one, made it."""
        body = given(kind=kind, index=index, method=method, token=token, item=item, maps=maps)
        return ask(ExplainAnswer, "POST", f"{self._at}/explain", json=query.query() | body)

    @ServiceMethod
    def judge(
        self,
        query: Search,
        item: str,
        verdict: Verdict,
        *,
        kind: Kind | None = None,
        index: int = 0,
        by: str | None = None,
    ) -> Call[search_wire.FeedbackEntry]:
        """Judge an item good or bad for a query; `kind` and `index` name the observation that was shown."""
        shown = None if kind is None else {"kind": kind, "index": index}
        body = {"query": query.json(), "item": item, "observation": shown, "verdict": verdict, "by": by}
        return ask(search_wire.FeedbackEntry, "POST", f"{self._at}/feedback", json=body)

    @PagedMethod
    def judgements(
        self, *, item: str | None = None, verdict: Verdict | None = None, page: int = 100
    ) -> Pages[search_wire.FeedbackEntry]:
        """All verdicts, or those on an item or of one kind; read page by page."""

        def one_page(after: str | None) -> Call[tuple[Sequence[search_wire.FeedbackEntry], str | None]]:
            params = given(item=item, verdict=verdict, limit=page, after=after)
            asked = ask(search_wire.FeedbackPage, "GET", f"{self._at}/feedback", params=params)
            return asked.then(lambda answer: (answer.feedback, answer.next))

        return Pages(one_page)

    @ServiceMethod
    def withdraw(self, id: str) -> Call[int]:
        """Remove a verdict; gives how many were removed, 0 or 1."""
        return ask(item_wire.RemovalAnswer, "DELETE", f"{self._at}/feedback/{path_segment(id)}").then(
            lambda answer: answer.removed
        )

    @ServiceMethod
    def models(self) -> Call[tuple[search_wire.ServedModel, ...]]:
        """The bundles that are loaded."""
        return ask(search_wire.ModelsAnswer, "GET", f"{self._at}/models").then(lambda answer: answer.data)

    @ServiceMethod
    def picture(self, url: str) -> Call[bytes]:
        """The bytes of a view or photo, by the `url` of an observation."""
        if not url.startswith("/") or url.startswith("//"):
            raise MultifoldError(f"{url!r} is not the url of an observation; those begin with /v1/")
        return Call("GET", url, lambda response: response.content)

    @ServiceMethod
    def info(self) -> Call[Mapping[str, Any]]:
        """What runs there: its version, bundle, collection and limits."""
        return ask(dict, "GET", f"{self._at}/info")


def _bulk_result(answer: item_wire.BulkAnswer) -> BulkResult:
    results = tuple(_one_of(one.written, one.error) for one in answer.results)
    ids = tuple(one.id for one in answer.results)
    return BulkResult(results, ids, answer.written, answer.refused, answer.version)


def _vectors(answer: search_wire.EmbeddingsAnswer) -> Vectors:
    rows = [np.frombuffer(base64.b64decode(str(one.embedding)), np.dtype("<f4")) for one in answer.data]
    return np.stack(rows).astype(np.float32)


def _one_of(answer: T | None, error: item_wire.Refusal | None) -> T | item_wire.Refusal:
    """The answer to one of several requests, or why there is none."""
    if answer is not None:
        return answer
    return error or item_wire.Refusal("bad_answer", "the service gave neither an answer nor a reason")
