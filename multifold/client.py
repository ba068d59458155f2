"""The typed REST client.

with Client("http://127.0.0.1:8000") as client:
    for hit in client.search(text="a red chair with four black legs").hits:
        print(hit.id, hit.score, hit.matched.url)
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any

from multifold import answers, insights, uploads
from multifold.answers import BulkResult, Facet, Model, Range, Refused, SearchResult, Stored, Written
from multifold.asking import (
    Clue,
    Filter,
    Lexical,
    Modality,
    NewItem,
    Search,
    clue_json,
    embeddable,
    refuse_text,
)
from multifold.errors import MultifoldError
from multifold.insights import Explanation, Walk
from multifold.judging import Judging
from multifold.types import Kind, Pool, Side, Target, Vectors
from multifold.upkeep import Job, Upkeep, job_of
from multifold.uploads import File, Picture
from multifold.wire import ServiceError, address_of, segment

__all__ = ["Client", "Clue", "NewItem", "Search", "ServiceError"]


class Client(Upkeep, Judging):
    """Talks to one service. Safe to share between threads; close it, or use it in a `with`.

    Items and searches are those of its default collection, or of the one that is named.
    """

    def __enter__(self) -> "Client":
        return self

    def collection(self, name: str) -> "Client":
        """The same service, asked about one collection, by its name or an alias. Shares the connections."""
        other = copy(self)
        other._at = address_of(name)
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
        mix: Sequence[Clue] | None = None,
        target: Target = "shape",
        limit: int = 10,
        offset: int = 0,
        filter: Filter | None = None,  # noqa: A002 (the service's word)
        pool: Pool = "mean",
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
        return self._ask(answers.search_result, "POST", f"{self._at}/search", **sent)

    def search_many(self, searches: Sequence[Search]) -> tuple[SearchResult | Refused, ...]:
        """Several searches at once, answered in their order."""
        body = {"searches": [search.json() for search in searches]}
        return self._ask(answers.search_results, "POST", f"{self._at}/search/batch", json=body)

    def similar(
        self,
        id: str,  # noqa: A002 (the service's word)
        *,
        side: Side | None = None,
        target: Target = "shape",
        limit: int = 10,
        offset: int = 0,
        filter: Filter | None = None,  # noqa: A002 (the service's word)
        pool: Pool = "mean",
    ) -> SearchResult:
        """Items that are like this one."""
        asked = Search(id=id, side=side, target=target, limit=limit, offset=offset, filter=filter, pool=pool)
        body = asked.options | ({"side": side} if side else {})
        return self._ask(answers.search_result, "POST", f"{self._item(id)}/similar", json=body)

    def upsert(
        self,
        id: str,  # noqa: A002 (the service's word)
        *,
        texts: Sequence[str] = (),
        images: Sequence[Picture] = (),
        mesh: File | None = None,
        mesh_format: str | None = None,
        payload: Mapping[str, Any] | None = None,
    ) -> Written:
        """Write an item in place of its former self."""
        refuse_text(texts)
        parts = [uploads.field("texts", text) for text in texts]
        parts += [uploads.image("images", image) for image in images]
        parts += uploads.mesh(mesh, mesh_format)
        parts.append(uploads.field("payload", json.dumps(payload or {})))
        return self._ask(answers.written, "PUT", self._item(id), files=parts)

    def upsert_many(self, items: Sequence[NewItem]) -> BulkResult:
        """Write items; one that is refused does not keep the others out."""
        return self._ask(
            answers.bulk_result, "POST", f"{self._at}/items", json={"items": [item.json() for item in items]}
        )

    def upsert_later(self, items: Sequence[NewItem]) -> Job:
        """Have items written after the answer; `wait` for the job to know what became of them."""
        body = {"items": [item.json() for item in items]}
        return self._ask(job_of, "POST", f"{self._at}/items/bulk", json=body)

    def update(
        self,
        id: str,  # noqa: A002 (the service's word)
        *,
        payload: Mapping[str, Any] | None = None,
        texts: Sequence[str] | None = None,
    ) -> Written:
        """Change an item: `payload` is a JSON merge patch, `texts` take the place of its captions."""
        refuse_text(texts)
        given = {"payload": payload, "texts": None if texts is None else list(texts)}
        body = {name: value for name, value in given.items() if value is not None}
        return self._ask(answers.written, "PATCH", self._item(id), json=body)

    def get(self, id: str) -> Stored:  # noqa: A002 (the service's word)
        """An item with all that was seen and said of it."""
        return self._ask(answers.stored, "GET", self._item(id))

    def items(
        self,
        filter: Filter | None = None,  # noqa: A002
        page: int = 100,
        sort: str = "id",
    ) -> Iterator[Stored]:
        """All items, or those that a filter lets through; read page by page.

        `sort` is id, newest, payload.KEY or -payload.KEY: by a number, the least or the greatest first.
        """
        after: str | None = None
        while True:
            body = {"filter": filter, "after": after, "limit": page, "sort": sort}
            found, after = self._ask(answers.page, "POST", f"{self._at}/items/scroll", json=body)
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
    ) -> Mapping[str, tuple[Facet, ...]]:
        """The values of each key of the payload that most items have, or most of the best hits of a query."""
        body: dict[str, Any] = {"keys": list(keys), "filter": filter, "limit": limit}
        body |= {} if query is None else {"query": query.json()}
        body |= {} if best is None else {"best": best}
        return self._ask(answers.facets, "POST", f"{self._at}/facets", json=body)

    def ranges(self, keys: Sequence[str], filter: Filter | None = None) -> Mapping[str, Range]:  # noqa: A002
        """For each key of the payload that has numbers, the least and the greatest of them."""
        body = {"keys": list(keys), "filter": filter, "limit": 1}
        return self._ask(answers.ranges, "POST", f"{self._at}/facets", json=body)

    def delete(self, id: str) -> int:  # noqa: A002 (the service's word)
        """Remove an item; gives how many were removed, 0 or 1."""
        return self._ask(answers.removed, "DELETE", self._item(id))

    def delete_many(self, ids: Sequence[str] | None = None, *, filter: Filter | None = None) -> int:  # noqa: A002
        """Remove the items of these ids, or those that a filter lets through; gives how many there were."""
        body = {"filter": filter} if ids is None else {"ids": list(ids)}
        return self._ask(answers.removed, "POST", f"{self._at}/items/delete", json=body)

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
            "input": [embeddable(one, modality) for one in inputs],
            "modality": modality,
            "encoding_format": "base64",
            "mesh_format": mesh_format,
        }
        return self._ask(answers.vectors, "POST", f"{self._at}/embeddings", json=body)

    def traverse(
        self, clue: Clue, *, widths: Sequence[float] = (), captions: str = "all", steps: int = 50
    ) -> Walk:
        """Walk from a text, picture, mesh or item to the root; the captions that are met on the way."""
        body = {**clue_json(clue), "widths": list(widths), "captions": captions, "steps": steps}
        return self._ask(insights.walk, "POST", f"{self._at}/traverse", json=body)

    def explain(
        self,
        clue: Clue,
        item: str,
        *,
        kind: Kind | None = None,
        index: int | None = None,
        method: str | None = None,
        token: int | None = None,
        maps: bool = True,
    ) -> Explanation:
        """Why an item matches: all its scores, and what in its best observation, or in that one, made it."""
        said = {"kind": kind, "index": index, "method": method, "token": token}
        body = clue_json(clue) | {name: value for name, value in said.items() if value is not None}
        body |= {"item": item, "maps": maps}
        return self._ask(insights.explanation, "POST", f"{self._at}/explain", json=body)

    def models(self) -> tuple[Model, ...]:
        """The bundles that are loaded."""
        return self._ask(answers.models, "GET", f"{self._at}/models")

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
        return f"{self._at}/items/{segment(id)}"
