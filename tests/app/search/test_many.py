"""One search of several collections: hits are merged by evidence, and each collection is surer of its own."""

import asyncio
import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from app.errors import ApiError
from app.queries.parts import TextQueryPart
from app.search.cursors import write_cursor
from app.search.many import AskMember, search_several
from app.search.shares import EVIDENCE, WORDS
from multifold.client import Client
from multifold.errors import MultifoldError
from multifold.wire.items import ObservationInfo
from multifold.wire.search import (
    Search,
    SearchAnswer,
    SearchHit,
    SearchTimings,
    Understood,
    UnderstoodCondition,
)
from tests.app.answers import refused, uri
from tests.app.house import House, box, house, png
from tests.ports import free_ports

SHOWN = ObservationInfo("caption", 0, None, "a thing")
PARTS = ((TextQueryPart("a thing"), 1.0),)


def member(everything: float | None, **hits: tuple[float, float]) -> AskMember:
    """A collection with these scores and confidences, the best first."""

    async def ask(body: Search) -> SearchAnswer:
        assert (body.collections, body.min_confidence, body.min_score) == (None, None, None)
        every = [
            SearchHit(id=name, score=score, confidence=sure, modality="text", matched=SHOWN, payload={})
            for name, (score, sure) in hits.items()
        ]
        page = tuple(every[body.offset : body.offset + body.limit])
        return SearchAnswer(
            hits=page,
            took_ms=SearchTimings(0, 0, 0),
            version=7,
            bundle="b",
            everything=everything,
            matches_well=True,
        )

    return ask


def having(ask: AskMember, **words: int) -> AskMember:
    """The same collection: a hundred of its items have texts, and so many of these each word."""

    async def answer(body: Search) -> SearchAnswer:
        return replace(await ask(body), items_with_texts=100, items_with_words=words, chance=0.5)

    return answer


def merged(members: Mapping[str, AskMember], **options: Any) -> SearchAnswer:  # noqa: ANN401 (fields)
    body = Search(text="a thing", collections=[*members], **options)
    return asyncio.run(search_several(members, body, PARTS))


def test_hits_are_ordered_by_evidence_and_none_is_surer_than_one_before_it() -> None:
    members = {
        "a": member(4.0, a1=(5.0, 0.9), a2=(1.0, 0.1)),
        "b": member(4.0 + np.log(3), b1=(6.0, 0.8), b2=(2.0, 0.7)),
    }
    found = merged(members)
    assert [(hit.collection, hit.id) for hit in found.hits] == [
        ("b", "b1"),
        ("a", "a1"),
        ("b", "b2"),
        ("a", "a2"),
    ]
    # b has three quarters of all that is said
    assert [hit.confidence for hit in found.hits] == pytest.approx([0.6, 0.225, 0.225, 0.025])
    assert found.versions == {"a": 7, "b": 7}
    assert found.everything == pytest.approx(4 + np.log(4))


def test_pages_follow_one_another() -> None:
    scores = np.random.default_rng(0).normal(size=(3, 20))
    members = {
        f"c{n}": member(
            0.0, **{f"{n}-{place}": (score, 0.1) for place, score in enumerate(sorted(some, reverse=True))}
        )
        for n, some in enumerate(scores.tolist())
    }
    found, after = list[str](), None
    while True:
        page = merged(members, limit=7, after=after)
        found += [hit.id for hit in page.hits]
        if (after := page.next) is None:
            break
    assert len(found) == 60
    assert found == [hit.id for hit in merged(members, limit=60).hits]
    with pytest.raises(ApiError, match="belongs to another"):
        merged(dict([*members.items()][:2]), after=merged(members, limit=7).next)


def test_a_collection_that_has_shown_all_keeps_its_share() -> None:
    members = {"a": member(2.0, a1=(9.0, 0.8)), "b": member(2.0, b1=(5.0, 0.6), b2=(4.0, 0.5))}
    first = merged(members, limit=2)
    second = merged(members, limit=2, after=first.next)
    assert [hit.confidence for hit in (*first.hits, *second.hits)] == pytest.approx([0.4, 0.3, 0.25])
    assert second.next is None


def test_the_collection_whose_items_have_the_words_comes_first() -> None:
    """No chair of oak stands out of the others, and the one face with an oak behind it does."""
    members = {
        "chairs": having(member(1.0, c1=(0.9, 0.5), c2=(0.8, 0.1), c3=(-2.0, 0.1)), oak=80),
        "faces": having(member(7.0, f1=(6.5, 0.5), f2=(2.0, 0.4)), oak=1),
    }
    found = merged(members)
    assert [hit.id for hit in found.hits] == ["c1", "c2", "f1", "c3", "f2"]
    share = 1 / (1 + (2 / 81) ** WORDS * np.exp(6 * EVIDENCE))
    assert found.hits[0].confidence == pytest.approx(0.5 * share)
    # the likeliest collection keeps its scores, and those of the other are as it would have given them
    scores = [hit.score for hit in found.hits]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == pytest.approx(0.9)
    assert found.everything == pytest.approx(1 - np.log(share))
    pages, after = list[SearchHit](), None
    for _ in found.hits:
        page = merged(members, limit=1, after=after)
        pages += page.hits
        after = page.next
    assert [hit.id for hit in pages] == [hit.id for hit in found.hits]
    assert [hit.score for hit in pages] == pytest.approx(scores)


@pytest.mark.parametrize("place", [[0, "likely", 1.0], [0, 1e999, 1.0], [[0], None, 1.0], [-1], [0.5]])
def test_a_cursor_of_no_numbers_is_refused(place: list[object]) -> None:
    members = {"a": member(0.0, a1=(3.0, 0.9), a2=(1.0, 0.3))}
    text = base64.urlsafe_b64decode(f"{merged(members, limit=1).next}==")
    belongs, at, _ = json.loads(text)
    told = write_cursor(belongs, at, json.dumps({"a": place}))
    with pytest.raises(ApiError, match="'after'"):
        merged(members, limit=1, after=told)


def test_nothing_anywhere_is_an_empty_answer() -> None:
    found = merged({"a": member(None), "b": member(None)})
    assert (found.hits, found.everything, found.next) == ((), None, None)


def test_what_does_not_answer_is_named_and_if_none_does_it_is_an_error() -> None:
    async def fail(_: Search) -> SearchAnswer:
        raise MultifoldError("it is away")

    found = merged({"a": member(1.0, a1=(1.0, 0.5)), "b": fail, "empty": member(None)})
    assert [hit.id for hit in found.hits] == ["a1"]
    assert found.hits[0].confidence == pytest.approx(0.5)
    assert found.warnings == ("b did not answer: it is away",)
    with pytest.raises(MultifoldError, match="away"):
        merged({"b": fail})


def test_a_collection_that_lacks_what_is_asked_of_payloads_is_left_out() -> None:
    """'about 2 m' is a filter where things have sizes; where they have none, nothing is so high."""
    some = member(0.0, a1=(1.0, 0.5)), member(9.0, b1=(5.0, 0.5)), member(0.0, c1=(2.0, 0.5))

    def reading(ask: AskMember, *words: str) -> AskMember:
        async def answer(body: Search) -> SearchAnswer:
            read = Understood("a thing", tuple(UnderstoodCondition(one, {"n": 1}) for one in words))
            return replace(await ask(body), understood=read)

        return answer

    found = merged({"a": reading(some[0], "about 2 m"), "b": some[1], "c": reading(some[2], "about 2 m")})
    assert [hit.id for hit in found.hits] == ["c1", "a1"]
    assert found.warnings == ("b has nothing of which 'about 2 m' could be true",)
    parted = merged({"a": reading(some[0], "about 2 m"), "b": reading(some[1], "by us")})
    assert [hit.id for hit in parted.hits] == ["b1", "a1"]


def test_a_confidence_is_asked_of_the_merged_list() -> None:
    members = {"a": member(0.0, a1=(3.0, 0.9), a2=(1.0, 0.3)), "b": member(0.0, b1=(2.0, 0.5))}
    found = merged(members, min_confidence=0.25)
    assert [hit.id for hit in found.hits] == ["a1", "b1"]
    assert found.next is None
    # what a collection is less sure of counts for its chance all the same
    assert [hit.confidence for hit in merged(members, min_confidence=0.4).hits] == pytest.approx([0.45])
    assert [hit.id for hit in merged(members, min_score=1.5).hits] == ["a1", "b1"]


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory, bundle: Path) -> Iterator[tuple[House, House]]:
    """A service with two collections, and one that knows it as `far`, and another that is away as `gone`."""
    folder = tmp_path_factory.mktemp("shops")
    with house(folder / "first", bundle) as first:
        first.fill("red", "green")
        assert first.client.post("/v1/collections", json={"name": "more"}).is_success
        elsewhere = f"far={first.url}/v1/collections/more,gone=http://127.0.0.1:{free_ports(1)[0]}"
        item = {"id": "sea", "texts": ["a blue box"], "payload": {"n": 1}}
        assert first.client.post("/v1/collections/more/items", json={"items": [item]}).is_success
        with house(folder / "second", bundle, remotes=elsewhere) as second:
            second.fill("yellow")
            yield first, second


def ask(of: House, *collections: str, **asked: Any) -> httpx.Response:  # noqa: ANN401 (fields)
    return of.client.post("/v1/search", json={"collections": collections, "text": "a blue box"} | asked)


def test_collections_of_a_service_answer_together(shops: tuple[House, House]) -> None:
    first, _ = shops
    answer = ask(first, "main", "more", "main").json()
    assert {(hit["collection"], hit["id"]) for hit in answer["hits"]} == {
        ("more", "sea"),
        ("main", "red-box"),
        ("main", "green-box"),
    }
    assert (answer["hits"][0]["id"], [*answer["versions"]]) == ("sea", ["main", "more"])
    total = sum(hit["confidence"] for hit in answer["hits"])
    assert total <= 1 + 1e-6
    form = {"text": "a blue box", "collections": ["main", "more"]}
    sent = first.client.post(
        "/v1/search",
        files=[
            (name, (None, one))
            for name, some in form.items()
            for one in ([some] if isinstance(some, str) else some)
        ],
    )
    assert [hit["id"] for hit in sent.json()["hits"]] == [hit["id"] for hit in answer["hits"]]
    with Client(first.url) as client:
        assert client.search(text="a blue box", collections=["more", "main"]).hits[0].collection == "more"


def test_a_collection_of_another_service_answers_too(shops: tuple[House, House]) -> None:
    first, second = shops
    answer = ask(second, "main", "far", "gone").json()
    assert (answer["hits"][0]["collection"], answer["hits"][0]["id"]) == ("far", "sea")
    assert answer["hits"][0]["payload"] == {"n": 1}
    (warning,) = answer["warnings"]
    assert warning.startswith("gone did not answer")
    with Client(first.url) as client:
        client.collection("more").upsert("pale", images=[png("red")])
    found = ask(second, "far", text=None, image=None, mix=[{"text": "a red box"}]).json()
    seen = next(hit for hit in found["hits"] if hit["id"] == "pale")
    assert httpx.get(seen["matched"]["url"], trust_env=False).headers["content-type"].startswith("image/")


def test_an_alias_may_name_several_here_and_elsewhere(shops: tuple[House, House]) -> None:
    _, second = shops
    with Client(second.url) as client:
        assert client.set_alias("everything", ["main", "far"]) is None
        told = client.search(text="a blue box", collections=["main", "far"])
        everything = client.collection("everything")
        assert [hit.id for hit in everything.search(text="a blue box").hits] == [hit.id for hit in told.hits]
        named = client.search(text="a blue box", collections=["everything", "main"])
        assert [*(named.versions or {})] == ["far", "main"]
        (batched,) = everything.search_many([Search(text="a blue box", limit=2)])
        assert isinstance(batched, SearchAnswer)
        assert [*(batched.versions or {})] == ["far", "main"]
        assert client.aliases() == {"default": ("main",), "everything": ("far", "main")}
    listed = second.client.get("/v1/aliases").json()
    assert listed["several"] == {"everything": ["far", "main"]}
    for path, body in (("items/count", {}), ("facets", {"keys": ["n"]}), ("items/scroll", {})):
        answer = second.client.post(f"/v1/collections/everything/{path}", json=body)
        refused(answer, 404, "no_such_collection", "names several collections")
    one_of_it = second.client.put("/v1/aliases/again", json={"collections": ["everything"]})
    refused(one_of_it, 404, "no_such_collection", "'everything'")
    wrong: dict[str, Any]
    for wrong in ({}, {"collections": None}, {"collection": "main", "collections": ["main"]}):
        nothing_or_both = second.client.put("/v1/aliases/again", json=wrong)
        refused(nothing_or_both, 422, "bad_request", "exactly one of collection and collections")
    refused(second.client.put("/v1/aliases/again", json={"collections": []}), 422, "bad_request", "1 or more")
    assert second.client.delete("/v1/aliases/everything").is_success
    refused(ask(second, "everything"), 404, "no_such_collection", "everything")


def test_an_alias_of_several_counts_as_so_many(shops: tuple[House, House]) -> None:
    first, _ = shops
    aliases = [f"all-{number}" for number in range(2)]
    for alias, members in zip(aliases, (["main", "more"], ["more", "main"]), strict=True):
        answer = first.client.put(f"/v1/aliases/{alias}", json={"collections": members})
        assert (answer.json()["collection"], answer.json()["collections"]) == (None, members)
    most = first.client.get("/v1/info").json()["limits"]["batch_hits"]
    search = {"text": "a box", "limit": 1000, "collections": aliases}
    searches = [search] * (most // 2000)
    assert first.client.post("/v1/search/batch", json={"searches": searches}).is_success
    too_many = first.client.post("/v1/search/batch", json={"searches": [*searches, search]})
    refused(too_many, 422, "too_many", "hits")
    for alias in aliases:
        first.client.delete(f"/v1/aliases/{alias}")


def test_files_are_asked_elsewhere_too_and_no_path_is_read(
    shops: tuple[House, House], tmp_path: Path
) -> None:
    _, second = shops
    sent = {"image": uri(png("red")), "text": None}
    assert ask(second, "far", **sent).json()["warnings"] == []
    mesh = {"mesh": uri(box("red")), "mesh_format": "glb", "text": None}
    assert ask(second, "far", **mesh).json()["warnings"] == []
    mixed = [{"image": uri(png("red"))}, {"text": "a blue box"}]
    assert ask(second, "far", text=None, mix=mixed).json()["warnings"] == []
    files = {"mesh": ("red.glb", box("red"), "model/gltf-binary")}
    form = second.client.post("/v1/search", data={"collections": "far"}, files=files)
    assert form.json()["warnings"] == []
    (tmp_path / "ours.png").write_bytes(png("red"))
    refused(ask(second, "far", text=None, image=str(tmp_path / "ours.png")), 422, "bad_image")


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        ({"text": None, "id": "sea"}, "bad_query", "'id'"),
        ({"text": None, "mix": [{"vector": [1.0]}]}, "bad_query", "'vector'"),
        ({"target": "image"}, "needs_evidence", "evidence"),
        ({"error": 0.1}, "needs_evidence", "evidence"),
        ({"offset": 3}, "bad_query", "'after'"),
        ({"seen": 3}, "bad_query", "'seen'"),
        ({"duplicates": "fold"}, "bad_query", "folding"),
        ({"collections": []}, "bad_request", "'collections'"),
        ({"after": "bm9uZQ"}, "bad_cursor", "'after'"),
    ],
)
def test_what_one_collection_alone_can_answer_is_refused(
    shops: tuple[House, House], asked: dict[str, Any], code: str, said: str
) -> None:
    refused(ask(shops[0], "main", "more", **asked), 422, code, said)


def test_a_collection_that_nobody_knows_is_refused(shops: tuple[House, House]) -> None:
    refused(ask(shops[0], "main", "none"), 404, "no_such_collection", "none")
    body = {"keys": ["is"], "query": {"text": "a box", "collections": ["main"]}}
    refused(shops[0].client.post("/v1/facets", json=body), 422, "bad_query", "facets are of one")
