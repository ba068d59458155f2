"""The typed REST client.

with Client("http://127.0.0.1:8000") as client:
    for hit in client.search(text="a red chair with four black legs").hits:
        print(hit.id, hit.score, hit.matched.url)
"""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from multifold.client.administration import AdminClient
from multifold.client.request_models import (
    File,
    Filter,
    Lexical,
    MixPart,
    NewItem,
    Picture,
    Search,
    embedding_input,
    form_field,
    image_part,
    mesh_parts,
    query_json,
    refuse_single_text,
)
from multifold.client.transport import ServiceError, collection_path, path_segment
from multifold.errors import MultifoldError
from multifold.types import Kind, Pooling, Side, Target, Vectors, Verdict
from multifold.wire.administration import JobAnswer, JobStatus
from multifold.wire.insight import ExplainAnswer, TraverseAnswer
from multifold.wire.items import (
    BulkAnswer,
    ItemCount,
    ItemPage,
    ItemWriteAnswer,
    Refusal,
    RemovalAnswer,
    StoredItem,
)
from multifold.wire.search import (
    BatchSearchAnswer,
    EmbeddingsAnswer,
    FacetsAnswer,
    FacetValueCount,
    FeedbackEntry,
    FeedbackPage,
    ModelsAnswer,
    NumberRange,
    SearchAnswer,
    ServedModel,
)

T = TypeVar("T")
__all__ = ["Client", "MixPart", "NewItem", "Search", "ServiceError"]


@dataclass(frozen=True)
class BulkResult:
    """What became of each item, in their order, by id: written, or refused with the reason."""

    results: tuple[ItemWriteAnswer | Refusal, ...]
    ids: tuple[str | None, ...]
    written: int
    refused: int
    version: int


class Client(AdminClient):
    """Talks to one service. Safe to share between threads; close it, or use it in a `with`.

    Items and searches are those of its default collection, or of the one that is named.
    """

    def __enter__(self) -> "Client":
        return self

    def collection(self, name: str) -> "Client":
        """The same service, asked about one collection, by its name or an alias. Shares the connections."""
        other = copy(self)
        other._at = collection_path(name)
        return other

    def search(
        self,
        *,
        text: str | None = None,
        image: Picture | None = None,
        mesh: File | None = None,
        mesh_format: str | None = None,
        id: str | None = None,  # noqa: A002 (the service's word)
        side: Side | None = None,
        vector: Sequence[float] | None = None,
        mix: Sequence[MixPart] | None = None,
        target: Target = "shape",
        limit: int = 10,
        offset: int = 0,
        filter: Filter | None = None,  # noqa: A002 (the service's word)
        pool: Pooling = "mean",
        min_score: float | None = None,
        min_confidence: float | None = None,
        exact: bool = False,
        lexical: Lexical | None = None,
        fold: bool = False,
        explain: bool = False,
    ) -> SearchAnswer:
        """Find items by one text, picture, mesh, item, vector or mix; bytes of a mesh need its format.

        With `fold` items that show the same are one hit; with `explain` each has the score of its sides.
        """
        search = Search(
            text=text,
            image=image,
            mesh=mesh,
            mesh_format=mesh_format,
            id=id,
            side=side,
            vector=vector,
            mix=mix,
            target=target,
            limit=limit,
            offset=offset,
            filter=filter,
            pool=pool,
            min_score=min_score,
            min_confidence=min_confidence,
            exact=exact,
            lexical=lexical,
            duplicates="fold" if fold else None,
            explain=explain,
        )
        form = search.form()
        content: dict[str, Any] = {"json": search.json()} if form is None else {"files": form}
        return self._ask(SearchAnswer, "POST", f"{self._at}/search", **content)

    def search_many(self, searches: Sequence[Search]) -> tuple[SearchAnswer | Refusal, ...]:
        """Several searches at once, answered in their order."""
        body = {"searches": [search.json() for search in searches]}
        batch = self._ask(BatchSearchAnswer, "POST", f"{self._at}/search/batch", json=body)
        return tuple(_one_of(one.answer, one.error) for one in batch.answers)

    def similar(
        self,
        id: str,  # noqa: A002 (the service's word)
        *,
        side: Side | None = None,
        target: Target = "shape",
        limit: int = 10,
        offset: int = 0,
        filter: Filter | None = None,  # noqa: A002 (the service's word)
        pool: Pooling = "mean",
    ) -> SearchAnswer:
        """Items that are like this one."""
        search = Search(id=id, target=target, limit=limit, offset=offset, filter=filter, pool=pool)
        body = search.options | ({"side": side} if side else {})
        return self._ask(SearchAnswer, "POST", f"{self._item(id)}/similar", json=body)

    def upsert(
        self,
        id: str,  # noqa: A002 (the service's word)
        *,
        texts: Sequence[str] = (),
        images: Sequence[Picture] = (),
        mesh: File | None = None,
        mesh_format: str | None = None,
        payload: Mapping[str, Any] | None = None,
    ) -> ItemWriteAnswer:
        """Write an item in place of its former self."""
        refuse_single_text(texts)
        parts = [form_field("texts", text) for text in texts]
        parts += [image_part("images", image) for image in images]
        parts += mesh_parts(mesh, mesh_format)
        parts.append(form_field("payload", json.dumps(payload or {})))
        return self._ask(ItemWriteAnswer, "PUT", self._item(id), files=parts)

    def upsert_many(self, items: Sequence[NewItem]) -> BulkResult:
        """Write items; one that is refused does not keep the others out."""
        body = {"items": [item.json() for item in items]}
        bulk = self._ask(BulkAnswer, "POST", f"{self._at}/items", json=body)
        results = tuple(_one_of(one.written, one.error) for one in bulk.results)
        ids = tuple(one.id for one in bulk.results)
        return BulkResult(results, ids, bulk.written, bulk.refused, bulk.version)

    def upsert_later(self, items: Sequence[NewItem]) -> JobStatus:
        """Have items written after the answer; `wait` for the job to know what became of them."""
        body = {"items": [item.json() for item in items]}
        return self._ask(JobAnswer, "POST", f"{self._at}/items/bulk", json=body).job

    def update(
        self,
        id: str,  # noqa: A002 (the service's word)
        *,
        payload: Mapping[str, Any] | None = None,
        texts: Sequence[str] | None = None,
    ) -> ItemWriteAnswer:
        """Change an item: `payload` is a JSON merge patch, `texts` take the place of its captions."""
        refuse_single_text(texts)
        given = {"payload": payload, "texts": None if texts is None else list(texts)}
        body = {name: value for name, value in given.items() if value is not None}
        return self._ask(ItemWriteAnswer, "PATCH", self._item(id), json=body)

    def get(self, id: str) -> StoredItem:  # noqa: A002 (the service's word)
        """An item with its payload and all its observations."""
        return self._ask(StoredItem, "GET", self._item(id))

    def items(
        self,
        filter: Filter | None = None,  # noqa: A002
        page: int = 100,
        sort: str = "id",
    ) -> Iterator[StoredItem]:
        """All items, or those that a filter lets through; read page by page.

        `sort` is id, newest, payload.KEY or -payload.KEY: by a number, the least or the greatest first.
        """
        after: str | None = None
        while True:
            body = {"filter": filter, "after": after, "limit": page, "sort": sort}
            answer = self._ask(ItemPage, "POST", f"{self._at}/items/scroll", json=body)
            yield from answer.items
            if (after := answer.next) is None:
                return

    def count(self, filter: Filter | None = None) -> int:  # noqa: A002 (the service's word)
        """How many items there are, or how many of them a filter lets through."""
        return self._ask(ItemCount, "POST", f"{self._at}/items/count", json={"filter": filter}).count

    def facets(
        self,
        keys: Sequence[str],
        filter: Filter | None = None,  # noqa: A002 (the service's word)
        limit: int = 20,
        *,
        query: Search | None = None,
        best: int | None = None,
    ) -> Mapping[str, tuple[FacetValueCount, ...]]:
        """The values of each key of the payload that most items have, or most of the best hits of a query."""
        body: dict[str, Any] = {"keys": list(keys), "filter": filter, "limit": limit}
        body |= {} if query is None else {"query": query.json()}
        body |= {} if best is None else {"best": best}
        return self._ask(FacetsAnswer, "POST", f"{self._at}/facets", json=body).facets

    def ranges(self, keys: Sequence[str], filter: Filter | None = None) -> Mapping[str, NumberRange]:  # noqa: A002
        """For each key of the payload that has numbers, the least and the greatest of them."""
        body = {"keys": list(keys), "filter": filter, "limit": 1}
        return self._ask(FacetsAnswer, "POST", f"{self._at}/facets", json=body).ranges

    def delete(self, id: str) -> int:  # noqa: A002 (the service's word)
        """Remove an item; gives how many were removed, 0 or 1."""
        return self._ask(RemovalAnswer, "DELETE", self._item(id)).removed

    def delete_many(self, ids: Sequence[str] | None = None, *, filter: Filter | None = None) -> int:  # noqa: A002
        """Remove the items of these ids, or those that a filter lets through; gives how many there were."""
        body = {"filter": filter} if ids is None else {"ids": list(ids)}
        return self._ask(RemovalAnswer, "POST", f"{self._at}/items/delete", json=body).removed

    def embed(
        self,
        inputs: Sequence[str | Picture | File],
        modality: Side = "text",
        mesh_format: str | None = None,
    ) -> Vectors:
        """Index vectors of texts, pictures or meshes; meshes need their format where GLB is not meant."""
        if isinstance(inputs, str):
            raise MultifoldError("inputs is a list; a single one goes into a list of its own")
        body = {
            "input": [embedding_input(one, modality) for one in inputs],
            "modality": modality,
            "encoding_format": "base64",
            "mesh_format": mesh_format,
        }
        answer = self._ask(EmbeddingsAnswer, "POST", f"{self._at}/embeddings", json=body)
        rows = [np.frombuffer(base64.b64decode(str(one.embedding)), np.dtype("<f4")) for one in answer.data]
        return np.stack(rows).astype(np.float32)

    def traverse(
        self, query: MixPart, *, widths: Sequence[float] = (), captions: str = "all", steps: int = 50
    ) -> TraverseAnswer:
        """Walk from a text, picture, mesh or item to the root; the captions that are met on the way."""
        body = {**query_json(query), "widths": list(widths), "captions": captions, "steps": steps}
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
        options = {"kind": kind, "index": index, "method": method, "token": token}
        body = query_json(query) | {name: value for name, value in options.items() if value is not None}
        body |= {"item": item, "maps": maps}
        return self._ask(ExplainAnswer, "POST", f"{self._at}/explain", json=body)

    def judge(
        self,
        query: Search,
        item: str,
        verdict: Verdict,
        *,
        kind: Kind | None = None,
        index: int = 0,
        by: str | None = None,
    ) -> FeedbackEntry:
        """Judge an item good or bad for a query; `kind` and `index` name the observation that was shown."""
        shown = None if kind is None else {"kind": kind, "index": index}
        body = {"query": query.json(), "item": item, "observation": shown, "verdict": verdict, "by": by}
        return self._ask(FeedbackEntry, "POST", f"{self._at}/feedback", json=body)

    def judgements(
        self, *, item: str | None = None, verdict: Verdict | None = None, page: int = 100
    ) -> Iterator[FeedbackEntry]:
        """All verdicts, or those on an item or of one kind; read page by page."""
        chosen: dict[str, Any] = {"item": item, "verdict": verdict, "limit": page, "after": None}
        while True:
            params = {name: value for name, value in chosen.items() if value is not None}
            answer = self._ask(FeedbackPage, "GET", f"{self._at}/feedback", params=params)
            yield from answer.feedback
            if answer.next is None:
                return
            chosen["after"] = answer.next

    def withdraw(self, id: str) -> int:  # noqa: A002 (the service's word)
        """Remove a verdict; gives how many were removed, 0 or 1."""
        return self._ask(RemovalAnswer, "DELETE", f"{self._at}/feedback/{path_segment(id)}").removed

    def models(self) -> tuple[ServedModel, ...]:
        """The bundles that are loaded."""
        return self._ask(ModelsAnswer, "GET", f"{self._at}/models").data

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
            self._send("GET", "/readyz")
        except ServiceError:
            return False
        return True

    def _item(self, id: str) -> str:  # noqa: A002 (the service's word)
        return f"{self._at}/items/{path_segment(id)}"


def _one_of(answer: T | None, error: Refusal | None) -> T | Refusal:
    """The answer to one of several requests, or why there is none."""
    if answer is not None:
        return answer
    return error or Refusal("bad_answer", "the service gave neither an answer nor a reason")
