"""The typed REST client.

with Client("http://127.0.0.1:8000") as client:
    for hit in client.search(text="a red chair with four black legs").hits:
        print(hit.id, hit.score, hit.matched.url)
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from multifold.client import request_models, response_models
from multifold.client.administration import AdminClient, JobStatus, parse_job_answer
from multifold.client.request_models import (
    File,
    Filter,
    Lexical,
    MixPart,
    Modality,
    NewItem,
    Picture,
    Search,
    embedding_input,
    query_json,
    refuse_single_text,
)
from multifold.client.response_models import (
    BulkResult,
    FacetCount,
    ItemExplanation,
    NumberRange,
    Refusal,
    SearchResult,
    ServedModel,
    StoredItem,
    Traversal,
    WriteResult,
)
from multifold.client.transport import ServiceConnection, ServiceError, collection_path, path_segment
from multifold.errors import MultifoldError
from multifold.types import Kind, Pooling, Side, Target, Vectors

Verdict: TypeAlias = Literal["good", "bad"]


@dataclass(frozen=True)
class FeedbackEntry:
    """A verdict on an item for a query; `query` has its parts, as far as the service keeps them."""

    id: str
    item: str
    verdict: Verdict
    by: str | None
    given: str
    query: tuple[Mapping[str, Any], ...]


class FeedbackClient(ServiceConnection):
    """Says whether hits are what was meant."""

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
        """Say that an item is good or bad for a query; `kind` and `index` name the observation shown."""
        shown = None if kind is None else {"kind": kind, "index": index}
        body = {"query": query.json(), "item": item, "observation": shown, "verdict": verdict, "by": by}
        return self._ask(_parse_feedback, "POST", f"{self._at}/feedback", json=body)

    def judgements(
        self, *, item: str | None = None, verdict: Verdict | None = None, page: int = 100
    ) -> Iterator[FeedbackEntry]:
        """All verdicts, or those on an item or of one kind; read page by page."""
        chosen: dict[str, Any] = {"item": item, "verdict": verdict, "limit": page, "after": None}
        while True:
            params = {name: value for name, value in chosen.items() if value is not None}
            found, after = self._ask(_parse_feedback_page, "GET", f"{self._at}/feedback", params=params)
            yield from found
            if after is None:
                return
            chosen["after"] = after

    def withdraw(self, id: str) -> int:  # noqa: A002 (the service's word)
        """Have a verdict forgotten; gives how many there were, 0 or 1."""
        return self._ask(lambda raw: int(raw["removed"]), "DELETE", f"{self._at}/feedback/{path_segment(id)}")


def _parse_feedback(raw: Mapping[str, Any]) -> FeedbackEntry:
    return FeedbackEntry(raw["id"], raw["item"], raw["verdict"], raw["by"], raw["given"], tuple(raw["query"]))


def _parse_feedback_page(raw: Mapping[str, Any]) -> tuple[list[FeedbackEntry], str | None]:
    return [_parse_feedback(one) for one in raw["feedback"]], raw["next"]


__all__ = ["Client", "MixPart", "NewItem", "Search", "ServiceError"]


class Client(AdminClient, FeedbackClient):
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
    ) -> SearchResult:
        """Find items by one text, picture, mesh, item, vector or mix; bytes of a mesh need its format.

        With `fold` items that show the same are one hit; with `explain` each tells the score of its sides.
        """
        asked = Search(
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
        form = asked.form()
        sent: dict[str, Any] = {"json": asked.json()} if form is None else {"files": form}
        return self._ask(response_models.parse_search_result, "POST", f"{self._at}/search", **sent)

    def search_many(self, searches: Sequence[Search]) -> tuple[SearchResult | Refusal, ...]:
        """Several searches at once, answered in their order."""
        body = {"searches": [search.json() for search in searches]}
        return self._ask(response_models.parse_search_results, "POST", f"{self._at}/search/batch", json=body)

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
    ) -> SearchResult:
        """Items that are like this one."""
        asked = Search(id=id, side=side, target=target, limit=limit, offset=offset, filter=filter, pool=pool)
        body = asked.options | ({"side": side} if side else {})
        return self._ask(response_models.parse_search_result, "POST", f"{self._item(id)}/similar", json=body)

    def upsert(
        self,
        id: str,  # noqa: A002 (the service's word)
        *,
        texts: Sequence[str] = (),
        images: Sequence[Picture] = (),
        mesh: File | None = None,
        mesh_format: str | None = None,
        payload: Mapping[str, Any] | None = None,
    ) -> WriteResult:
        """Write an item in place of its former self."""
        refuse_single_text(texts)
        parts = [request_models.form_field("texts", text) for text in texts]
        parts += [request_models.image_part("images", image) for image in images]
        parts += request_models.mesh_parts(mesh, mesh_format)
        parts.append(request_models.form_field("payload", json.dumps(payload or {})))
        return self._ask(response_models.written, "PUT", self._item(id), files=parts)

    def upsert_many(self, items: Sequence[NewItem]) -> BulkResult:
        """Write items; one that is refused does not keep the others out."""
        return self._ask(
            response_models.parse_bulk_result,
            "POST",
            f"{self._at}/items",
            json={"items": [item.json() for item in items]},
        )

    def upsert_later(self, items: Sequence[NewItem]) -> JobStatus:
        """Have items written after the answer; `wait` for the job to know what became of them."""
        body = {"items": [item.json() for item in items]}
        return self._ask(parse_job_answer, "POST", f"{self._at}/items/bulk", json=body)

    def update(
        self,
        id: str,  # noqa: A002 (the service's word)
        *,
        payload: Mapping[str, Any] | None = None,
        texts: Sequence[str] | None = None,
    ) -> WriteResult:
        """Change an item: `payload` is a JSON merge patch, `texts` take the place of its captions."""
        refuse_single_text(texts)
        given = {"payload": payload, "texts": None if texts is None else list(texts)}
        body = {name: value for name, value in given.items() if value is not None}
        return self._ask(response_models.written, "PATCH", self._item(id), json=body)

    def get(self, id: str) -> StoredItem:  # noqa: A002 (the service's word)
        """An item with all that was seen and said of it."""
        return self._ask(response_models.parse_item, "GET", self._item(id))

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
            found, after = self._ask(
                response_models.parse_item_page, "POST", f"{self._at}/items/scroll", json=body
            )
            yield from found
            if after is None:
                return

    def count(self, filter: Filter | None = None) -> int:  # noqa: A002 (the service's word)
        """How many items there are, or how many of them a filter lets through."""
        return self._ask(
            lambda raw: int(raw["count"]), "POST", f"{self._at}/items/count", json={"filter": filter}
        )

    def facets(
        self,
        keys: Sequence[str],
        filter: Filter | None = None,  # noqa: A002 (the service's word)
        limit: int = 20,
        *,
        query: Search | None = None,
        best: int | None = None,
    ) -> Mapping[str, tuple[FacetCount, ...]]:
        """The values of each key of the payload that most items have, or most of the best hits of a query."""
        body: dict[str, Any] = {"keys": list(keys), "filter": filter, "limit": limit}
        body |= {} if query is None else {"query": query.json()}
        body |= {} if best is None else {"best": best}
        return self._ask(response_models.parse_facets, "POST", f"{self._at}/facets", json=body)

    def ranges(self, keys: Sequence[str], filter: Filter | None = None) -> Mapping[str, NumberRange]:  # noqa: A002
        """For each key of the payload that has numbers, the least and the greatest of them."""
        body = {"keys": list(keys), "filter": filter, "limit": 1}
        return self._ask(response_models.parse_ranges, "POST", f"{self._at}/facets", json=body)

    def delete(self, id: str) -> int:  # noqa: A002 (the service's word)
        """Remove an item; gives how many were removed, 0 or 1."""
        return self._ask(response_models.parse_removed, "DELETE", self._item(id))

    def delete_many(self, ids: Sequence[str] | None = None, *, filter: Filter | None = None) -> int:  # noqa: A002
        """Remove the items of these ids, or those that a filter lets through; gives how many there were."""
        body = {"filter": filter} if ids is None else {"ids": list(ids)}
        return self._ask(response_models.parse_removed, "POST", f"{self._at}/items/delete", json=body)

    def embed(
        self,
        inputs: Sequence[str | Picture | File],
        modality: Modality = "text",
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
        return self._ask(response_models.parse_vectors, "POST", f"{self._at}/embeddings", json=body)

    def traverse(
        self, clue: MixPart, *, widths: Sequence[float] = (), captions: str = "all", steps: int = 50
    ) -> Traversal:
        """Walk from a text, picture, mesh or item to the root; the captions that are met on the way."""
        body = {**query_json(clue), "widths": list(widths), "captions": captions, "steps": steps}
        return self._ask(response_models.parse_traversal, "POST", f"{self._at}/traverse", json=body)

    def explain(
        self,
        clue: MixPart,
        item: str,
        *,
        kind: Kind | None = None,
        index: int | None = None,
        method: str | None = None,
        token: int | None = None,
        maps: bool = True,
    ) -> ItemExplanation:
        """Why an item matches: all its scores, and what in its best observation, or in that one, made it."""
        said = {"kind": kind, "index": index, "method": method, "token": token}
        body = query_json(clue) | {name: value for name, value in said.items() if value is not None}
        body |= {"item": item, "maps": maps}
        return self._ask(response_models.parse_explanation, "POST", f"{self._at}/explain", json=body)

    def models(self) -> tuple[ServedModel, ...]:
        """The bundles that are loaded."""
        return self._ask(response_models.parse_models, "GET", f"{self._at}/models")

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
