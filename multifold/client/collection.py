"""What is asked about one collection: searches, items, embeddings, explanations and verdicts."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from PIL.Image import Image

from multifold.client.bodies import to_json
from multifold.client.calls import Call, Pages, ask, path_segment, send_form
from multifold.client.methods import paged_method, service_method, takes_fields
from multifold.client.transport import ServiceAddress
from multifold.errors import MultifoldError
from multifold.types import Kind, Side, Vectors, Verdict
from multifold.wire import items as item_wire
from multifold.wire import search as search_wire
from multifold.wire.administration import JobAnswer, JobStatus
from multifold.wire.files import Picture, file_text
from multifold.wire.insight import (
    ExplainAnswer,
    ExplainBody,
    ExplainOptions,
    TraverseAnswer,
    TraverseBody,
    TraverseOptions,
)
from multifold.wire.items import NewItem
from multifold.wire.search import QueryInput, Search

T = TypeVar("T")
SearchKind = TypeVar("SearchKind", bound=search_wire.SearchOptions)


@dataclass(frozen=True)
class BulkResult:
    """What became of each item, in their order, by id: written, or refused with the reason."""

    results: tuple[item_wire.ItemWriteAnswer | item_wire.Refusal, ...]
    ids: tuple[str | None, ...]
    written: int
    refused: int
    version: int


class CollectionMethods(ServiceAddress):
    """What is asked about one collection."""

    @service_method
    @takes_fields(Search)
    def search(self, search: Search) -> Call[search_wire.SearchAnswer]:
        """Find items by one text, picture, mesh, item, vector or mix; takes the fields of a `Search`."""
        with_file = search.image is not None or search.mesh is not None
        send = send_form if with_file else ask  # JSON would make a file a third larger
        return send(search_wire.SearchAnswer, "POST", f"{self._at}/search", self._seeing(search))

    @service_method
    def search_many(
        self, searches: Sequence[Search]
    ) -> Call[tuple[search_wire.SearchAnswer | item_wire.Refusal, ...]]:
        """Several searches at once, answered in their order."""
        body = search_wire.BatchSearchBody([to_json(self._seeing(search)) for search in searches])
        batch = ask(search_wire.BatchSearchAnswer, "POST", f"{self._at}/search/batch", body, each="answers")
        return batch.then(lambda found: tuple(_one_of(one.answer, one.error) for one in found.answers))

    @service_method
    @takes_fields(search_wire.SimilarBody)
    def similar(self, id: str, body: search_wire.SimilarBody) -> Call[search_wire.SearchAnswer]:
        """Items that are like this one."""
        return ask(search_wire.SearchAnswer, "POST", f"{self._item(id)}/similar", self._seeing(body))

    def _seeing(self, options: SearchKind) -> SearchKind:
        """A search which, if it asks for that, sees what this client has written."""
        if options.consistency != "session" or options.seen is not None:
            return options
        return replace(options, seen=self._written.get(self._at))

    @service_method
    @takes_fields(NewItem)
    def upsert(self, item: NewItem) -> Call[item_wire.ItemWriteAnswer]:
        """Write an item in place of its former self; takes the fields of a `NewItem`."""
        asked = send_form(item_wire.ItemWriteAnswer, "PUT", self._item(item.id), item, without=("id",))
        return asked.then(self._noted)

    @service_method
    def upsert_many(self, items: Sequence[NewItem]) -> Call[BulkResult]:
        """Write items; one that is refused does not keep the others out."""
        path = f"{self._at}/items"
        asked = ask(item_wire.BulkAnswer, "POST", path, _bulk(items), each="results")
        return asked.then(self._noted).then(_bulk_result)

    @service_method
    def upsert_later(self, items: Sequence[NewItem]) -> Call[JobStatus]:
        """Have items written after the answer; `wait` for the job to know what became of them."""
        return ask(JobAnswer, "POST", f"{self._at}/items/bulk", _bulk(items)).then(lambda answer: answer.job)

    @service_method
    @takes_fields(item_wire.ItemPatchBody)
    def update(self, id: str, body: item_wire.ItemPatchBody) -> Call[item_wire.ItemWriteAnswer]:
        """Change an item: `payload` is a JSON merge patch, `texts` take the place of its captions."""
        return ask(item_wire.ItemWriteAnswer, "PATCH", self._item(id), body).then(self._noted)

    @service_method
    def update_many(
        self,
        ids: Sequence[str] | None = None,
        *,
        filter: Mapping[str, Any] | None = None,
        payload: Mapping[str, Any],
    ) -> Call[int]:
        """Change the payload of these items, or of those that a filter lets through; gives how many."""
        body = item_wire.ItemChangeBody(payload, filter, ids)
        asked = ask(item_wire.ChangeAnswer, "POST", f"{self._at}/items/change", body)
        return asked.then(self._noted).then(lambda answer: answer.changed)

    @service_method
    def get(self, id: str, *, vectors: bool = False) -> Call[item_wire.StoredItem]:
        """An item with its payload and all its observations."""
        return ask(item_wire.StoredItem, "GET", self._item(id) + ("?vectors=true" if vectors else ""))

    @paged_method
    def items(
        self,
        filter: Mapping[str, Any] | None = None,
        page: int = 100,
        sort: str = "id",
        *,
        vectors: bool = False,
    ) -> Pages[item_wire.StoredItem]:
        """All items, or those that a filter lets through; read page by page.

        `sort` is id, newest, payload.KEY or -payload.KEY: by its numbers or texts, least or greatest first.
        """

        def one_page(after: str | None) -> Call[tuple[Sequence[item_wire.StoredItem], str | None]]:
            body = item_wire.ItemScrollBody(filter, sort, after, page, vectors)
            asked = ask(item_wire.ItemPage, "POST", f"{self._at}/items/scroll", body)
            return asked.then(lambda answer: (answer.items, answer.next))

        return Pages(one_page)

    @service_method
    @takes_fields(item_wire.ItemFilterBody)
    def count(self, body: item_wire.ItemFilterBody) -> Call[int]:
        """How many items there are, or how many of them a filter lets through."""
        asked = ask(item_wire.ItemCount, "POST", f"{self._at}/items/count", body)
        return asked.then(lambda answer: answer.count)

    @service_method
    @takes_fields(search_wire.FacetsBody)
    def facets(
        self, body: search_wire.FacetsBody
    ) -> Call[Mapping[str, tuple[search_wire.FacetValueCount, ...]]]:
        """The values of each key of the payload that most items have, or most of the best hits of a query."""
        asked = ask(search_wire.FacetsAnswer, "POST", f"{self._at}/facets", body)
        return asked.then(lambda answer: answer.facets)

    @service_method
    def ranges(
        self, keys: Sequence[str], filter: Mapping[str, Any] | None = None
    ) -> Call[Mapping[str, search_wire.NumberRange]]:
        """For each key of the payload that has numbers, the least and the greatest of them."""
        body = search_wire.FacetsBody(keys, filter, limit=1)
        asked = ask(search_wire.FacetsAnswer, "POST", f"{self._at}/facets", body)
        return asked.then(lambda answer: answer.ranges)

    @service_method
    def delete(self, id: str) -> Call[int]:
        """Remove an item; gives how many were removed, 0 or 1."""
        return ask(item_wire.RemovalAnswer, "DELETE", self._item(id)).then(lambda answer: answer.removed)

    @service_method
    def delete_many(
        self, ids: Sequence[str] | None = None, *, filter: Mapping[str, Any] | None = None
    ) -> Call[int]:
        """Remove the items of these ids, or those that a filter lets through; gives how many there were."""
        body = item_wire.ItemDeleteBody(filter, ids)
        asked = ask(item_wire.RemovalAnswer, "POST", f"{self._at}/items/delete", body)
        return asked.then(lambda answer: answer.removed)

    @service_method
    def embed(
        self,
        inputs: Sequence[Picture],
        modality: Side = "text",
        mesh_format: str | None = None,
        dimensions: int | None = None,
    ) -> Call[Vectors]:
        """Index vectors of texts, pictures or meshes; meshes need their format where GLB is not meant.

        `dimensions` is one of the `prefixes` of the model, for shorter vectors.
        """
        if isinstance(inputs, str):
            raise MultifoldError("inputs is a list; a single one goes into a list of its own")
        body = search_wire.EmbeddingsBody(
            [_embedding_input(one, modality) for one in inputs],
            modality=modality,
            encoding_format="base64",
            dimensions=dimensions,
            mesh_format=mesh_format,
        )
        return ask(search_wire.EmbeddingsAnswer, "POST", f"{self._at}/embeddings", body).then(_vectors)

    @service_method
    @takes_fields(TraverseOptions)
    def traverse(self, query: QueryInput, options: TraverseOptions) -> Call[TraverseAnswer]:
        """Walk from a text, picture, mesh or item to the root; the captions that are met on the way."""
        body = TraverseBody.of(query, **vars(options))
        return ask(TraverseAnswer, "POST", f"{self._at}/traverse", body)

    @service_method
    @takes_fields(ExplainOptions)
    def explain(self, query: QueryInput, options: ExplainOptions) -> Call[ExplainAnswer]:
        """Why an item matches: all its scores, and what in its best observation, or in that one, made it."""
        body = ExplainBody.of(query, **vars(options))
        return ask(ExplainAnswer, "POST", f"{self._at}/explain", body)

    @service_method
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
        shown = None if kind is None else search_wire.ShownObservation(kind, index)
        body = search_wire.FeedbackBody(query, item, verdict, shown, by)
        return ask(search_wire.FeedbackEntry, "POST", f"{self._at}/feedback", body)

    @paged_method
    def judgements(
        self, *, item: str | None = None, verdict: Verdict | None = None, page: int = 100
    ) -> Pages[search_wire.FeedbackEntry]:
        """All verdicts, or those on an item or of one kind; read page by page."""

        def one_page(after: str | None) -> Call[tuple[Sequence[search_wire.FeedbackEntry], str | None]]:
            params = {"item": item, "verdict": verdict, "limit": page, "after": after}
            asked = ask(search_wire.FeedbackPage, "GET", f"{self._at}/feedback", params=params)
            return asked.then(lambda answer: (answer.feedback, answer.next))

        return Pages(one_page)

    @service_method
    def withdraw(self, id: str) -> Call[int]:
        """Remove a verdict; gives how many were removed, 0 or 1."""
        asked = ask(item_wire.RemovalAnswer, "DELETE", f"{self._at}/feedback/{path_segment(id)}")
        return asked.then(lambda answer: answer.removed)

    @service_method
    def models(self) -> Call[tuple[search_wire.ServedModel, ...]]:
        """The bundles that are loaded."""
        return ask(search_wire.ModelsAnswer, "GET", f"{self._at}/models").then(lambda answer: answer.data)

    @service_method
    def picture(self, url: str) -> Call[bytes]:
        """The bytes of a view or photo, by the `url` of an observation."""
        if not url.startswith("/") or url.startswith("//"):
            raise MultifoldError(f"{url!r} is not the url of an observation; those begin with /v1/")
        return Call("GET", url, lambda response: response.content)

    @service_method
    def info(self) -> Call[Mapping[str, Any]]:
        """What runs there: its version, bundle, collection and limits."""
        return ask(dict, "GET", f"{self._at}/info")


def _bulk(items: Sequence[NewItem]) -> item_wire.BulkBody:
    return item_wire.BulkBody([to_json(item) for item in items])


def _bulk_result(answer: item_wire.BulkAnswer) -> BulkResult:
    results = tuple(_one_of(one.written, one.error) for one in answer.results)
    ids = tuple(one.id for one in answer.results)
    return BulkResult(results, ids, answer.written, answer.refused, answer.version)


def _one_of(answer: T | None, error: item_wire.Refusal | None) -> T | item_wire.Refusal:
    """The answer to one of several requests, or why there is none."""
    if answer is not None:
        return answer
    return error or item_wire.Refusal("bad_answer", "the service gave neither an answer nor a reason")


def _embedding_input(one: Picture, modality: Side) -> str:
    """One input of an embedding: words, or a file as data URI."""
    if modality == "text":
        if not isinstance(one, str):
            raise MultifoldError("an embedding of the modality 'text' is made of texts")
        return one
    if modality == "shape" and isinstance(one, Image):
        raise MultifoldError("a picture is no mesh; its modality is 'image'")
    return file_text(one)


def _vectors(answer: search_wire.EmbeddingsAnswer) -> Vectors:
    rows = [np.frombuffer(base64.b64decode(str(one.embedding)), np.dtype("<f4")) for one in answer.data]
    return np.stack(rows).astype(np.float32)
