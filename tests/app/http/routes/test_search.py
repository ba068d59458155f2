"""Searches in JSON and by form, several at once, pages of them, items that are alike, and facets."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from app.search import paging
from multifold.payload import owner_part
from tests import tiny
from tests.app.answers import refused, uri, write
from tests.app.house import BOXES, House, box, house, png

HIT = {"id", "collection", "score", "confidence", "modality", "matched", "payload"}
HIT |= {"sides", "words", "looks_like", "evidence", "duplicates"}
TOLD = {"calibrated_by", "matches_well", "warnings", "here", "error", "understood"}  # of all hits
OF_COLLECTION = {"version", "versions", "everything", "items_with_texts", "items_with_words", "bundle"}
ANSWER = {"hits", "took_ms", "next", "chance"} | OF_COLLECTION | TOLD
ITEMS = [f"{colour}-{number}" for colour in BOXES for number in range(3)]
BARE_OBJ = b"mtllib oak.mtl\nusemtl oak\nv 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"


def hits(shop: House, **asked: Any) -> list[dict[str, Any]]:  # noqa: ANN401 (any JSON)
    response = shop.search(**asked)
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["hits"]
    return found


def ids(found: list[dict[str, Any]]) -> list[str]:
    return [hit["id"] for hit in found]


@pytest.mark.parametrize("colour", BOXES)
def test_texts_pictures_and_meshes_find_their_colour(shop: House, colour: str) -> None:
    for target in ("shape", "image", "text"):
        assert shop.best(text=f"a {colour} box", target=target) == f"{colour}-box"
    assert shop.best(image=uri(png(colour), "image/png;charset=utf-8;name=a.png")) == f"{colour}-box"
    (hit, *_) = hits(shop, mesh=uri(box(colour), "model/gltf-binary"))
    assert hit["id"] == f"{colour}-box"
    assert hit["score"] == pytest.approx(1, abs=1e-5)


def test_an_answer_has_the_agreed_shape(shop: House) -> None:
    answer = shop.search(text="a red box", limit=2, pool="max").json()
    assert set(answer) == ANSWER
    assert set(answer["took_ms"]) == {"encode", "search", "total"}
    assert (answer["bundle"], answer["warnings"]) == ("tiny", [])
    assert answer["version"] == shop.service.collection.version
    assert (answer["items_with_texts"], answer["items_with_words"]) == (4, {"red": 1, "box": 4})
    assert [set(hit) for hit in answer["hits"]] == [HIT] * 2
    first = answer["hits"][0]
    assert (owner_part(first["payload"]), first["modality"]) == ({"is": "red"}, "shape")
    assert (first["matched"]["kind"], first["matched"]["text"]) == ("view", None)
    (caption,) = hits(shop, text="red thing", target="text", limit=1)
    matched = {"kind": "caption", "index": 1, "url": None, "text": "red thing", "vector": None}
    assert caption["matched"] == matched
    for target in ("shape", "image"):
        picture = shop.client.get(hits(shop, text="blue", target=target)[0]["matched"]["url"])
        assert picture.headers["content-type"] in ("image/webp", "image/png")


def test_hits_carry_the_fields_that_are_asked_for(shop: House) -> None:
    asked = {"text": "a red box", "target": "item", "limit": 1000}
    (whole, *_) = shop.search(**asked).json()["hits"]
    assert whole["words"]
    assert whole["evidence"]
    empty: dict[str, Any] = {"words": [], "looks_like": [], "evidence": [], "duplicates": []}
    for fields, carried in (
        ([], empty | {"payload": {}}),
        (["id", "score", "matched"], empty | {"payload": {}}),
        (["payload"], empty),
        (["payload.is", "payload.no.where"], empty | {"payload": {"is": "red"}}),
        (["payload.other", "words"], empty | {"payload": {}, "words": whole["words"]}),
    ):
        assert shop.search(**asked, fields=fields).json()["hits"][0] == whole | carried
    form = {"text": "a red box", "fields": ["payload.is"]}
    hit = shop.client.post("/v1/search/form", data=form, files={"limit": (None, "1")}).json()["hits"][0]
    assert (hit["payload"], hit["evidence"]) == ({"is": "red"}, [])
    first = shop.search(**asked | {"limit": 1}, fields=[]).json()
    assert len(shop.search(**asked, after=first["next"]).json()["hits"]) == 3


def test_what_is_lost_of_a_query_is_reported(shop: House) -> None:
    answer = shop.search(text="red " * 40).json()
    assert answer["warnings"] == ["text was cut at 12 tokens, which is all that this encoder reads"]
    assert answer["hits"][0]["id"] == "red-box"
    for _ in range(2):  # rendered, then cached
        answer = shop.client.post("/v1/search", files=[("mesh", ("bare.obj", BARE_OBJ))]).json()
        assert answer["warnings"] == ["drawn without 'oak.mtl', which does not lie beside it"]


class TestForms:
    """The same, as a form."""

    @pytest.mark.parametrize(
        ("part", "data"),
        [
            (("text", (None, "a green box")), {"limit": "1"}),
            (("image", ("any name.png", png("green"))), {"target": "image"}),
            (("image", (None, uri(png("green"), "image/png"))), {}),
            (("mesh", ("../../Box.GLB", box("green"))), {}),
            (("mesh", ("upload", box("green"))), {"filter": '{"is": {"in": ["green", "blue"]}}'}),
            (("image", ("a.png", png("red"))), {"examples": '{"good": ["green-box"]}', "diversity": "0.25"}),
        ],
    )
    def test_a_form_finds_what_json_finds(self, shop: House, part: Any, data: dict[str, str]) -> None:  # noqa: ANN401
        response = shop.client.post("/v1/search", files=[part], data=data)
        assert response.json()["hits"][0]["id"] == "green-box", response.text

    def test_a_form_has_pages(self, shop: House) -> None:
        form, files = {"target": "text", "limit": "2"}, {"image": png("red")}
        first = shop.client.post("/v1/search", data=form, files=files).json()
        after = form | {"after": first["next"]}
        second = shop.client.post("/v1/search", data=after, files=files).json()
        everything = shop.client.post("/v1/search", data=form | {"limit": "10"}, files=files).json()
        assert ids(first["hits"] + second["hits"]) == ids(everything["hits"])
        other = shop.client.post("/v1/search", data=after, files={"image": png("blue")})
        refused(other, 422, "bad_cursor", "another list or search")


def test_the_side_of_an_item_can_be_chosen(shop: House) -> None:
    by_text = hits(shop, id="red-box", side="text")[0]["score"]
    encoder, item = shop.service.encoder, shop.service.collection.get("red-box")
    assert item is not None
    features = np.stack([seen.feature for seen in item.observations if seen.kind == "caption"])
    given = encoder.vectors(features.mean(0, keepdims=True))[0].tolist()
    assert hits(shop, vector=given)[0]["score"] == pytest.approx(by_text, abs=1e-5)
    shop.client.put("/v1/items/words", files={"texts": (None, "white")})
    refused(shop.search(id="words", side="shape"), 422, "no_such_side", "no shape")
    assert ids(hits(shop, id="words", target="text"))[0] == "words"
    assert len(hits(shop, id="words")) == len(BOXES)
    shop.client.delete("/v1/items/words")


def test_the_score_of_a_mix_is_the_weighted_sum_of_scores(shop: House) -> None:
    parts: list[dict[str, Any]] = [{"text": "red"}, {"image": uri(png("blue"))}, {"id": "green-box"}]
    alone = [{hit["id"]: hit["score"] for hit in hits(shop, **part)} for part in parts]
    weights = (1.5, -0.5, 1.0)
    mix = [part | {"weight": weight} for part, weight in zip(parts, weights, strict=True)]
    assert 0 < shop.search(text="a red box").json()["chance"] <= 1
    assert shop.search(mix=mix).json()["chance"] is None  # nothing like it was measured
    for hit in hits(shop, mix=mix):
        expected = sum(weight * scores[hit["id"]] for weight, scores in zip(weights, alone, strict=True))
        assert hit["score"] == pytest.approx(expected, abs=1e-4)
        assert hit["confidence"] is None
    assert ids(hits(shop, mix=[{"text": "red", "weight": -1.0}]))[-1] == "red-box"


@pytest.mark.parametrize("target", ["shape", "any"])
def test_a_filter_lets_only_some_through(shop: House, target: str) -> None:
    wanted = {"or": [{"is": "blue"}, {"is": {"prefix": "gr"}}]}
    assert set(ids(hits(shop, text="red", filter=wanted, target=target))) == {"blue-box", "green-box"}
    assert hits(shop, text="red", filter={"is": "pink"}, target=target) == []
    assert len(hits(shop, text="red", filter={})) == len(BOXES)


def test_a_threshold_cuts(shop: House) -> None:
    everything = hits(shop, text="a red box")
    assert hits(shop, text="a red box", exact=True) == everything
    assert hits(shop, text="a red box", min_score=everything[1]["score"]) == everything[:2]
    assert hits(shop, text="a red box", min_score=1e9) == []


def test_words_find_what_the_vector_does_not(shop: House) -> None:
    assert hits(shop, text="blue", lexical="off")[0]["words"] == []
    first = hits(shop, text="blue yellow-box?", target="any", lexical="only")[0]
    assert (first["id"], first["words"]) == ("yellow-box", ["yellow-box"])
    mixed = hits(shop, mix=[{"text": "red"}, {"text": "blue-box", "weight": -1}], lexical="only")
    assert "blue-box" not in [hit["id"] for hit in mixed if hit["words"]]
    refused(shop.search(id="red-box", lexical="only"), 422, "no_words")


def test_scores_of_all_sides_are_given_on_request(shop: House) -> None:
    assert hits(shop, text="a red box")[0]["sides"] is None
    found = hits(shop, text="a red box", explain=True)
    assert set(found[0]["sides"]) == {"text", "image", "shape"}
    mix = [{"text": "a red box"}, {"id": "blue-box", "weight": -0.5}]
    like = shop.client.post("/v1/items/red-box/similar", json={"target": "shape", "explain": True}).json()
    for side, some in (("shape", found), ("image", hits(shop, mix=mix, target="image", explain=True))):
        for hit in some + (like["hits"] if side == "shape" else []):
            assert hit["sides"][side] == pytest.approx(hit["score"], abs=1e-5)


@pytest.mark.parametrize(
    ("asked", "status", "code", "reason"),
    [
        ({"text": " \n\t"}, 422, "bad_text", "empty"),
        ({"text": "x" * 2001}, 422, "bad_text", "2,001 characters; 2,000 are the most"),
        ({"image": "http://example.com/a.png"}, 422, "bad_image", "data URI"),
        ({"image": "/etc/passwd"}, 422, "bad_image", "data URI"),
        ({"image": "data:image/png,abc"}, 422, "bad_image", "data URI"),
        ({"image": "data:image/png;base64,@@@"}, 422, "bad_image", "base64"),
        ({"image": "data:image/png;base64,"}, 422, "bad_image", "an empty file"),
        ({"mesh": "data:model/gltf-binary;base64,é"}, 422, "bad_mesh", "base64"),
        ({"mesh": uri(b"hello")}, 422, "bad_mesh", "cannot tell the format"),
        ({"mesh": uri(b"hello"), "mesh_format": "exe"}, 422, "bad_mesh", ".exe"),
        ({"mesh": uri(b"hello"), "mesh_format": "../../x"}, 422, "bad_mesh", "cannot tell the format"),
        (
            {"mix": [{"text": "a"}, {"text": "b"}], "min_confidence": 0.5},
            422,
            "no_calibration",
            "use 'min_score'",
        ),
        ({"id": "red-box", "target": "item", "error": 0.1}, 422, "no_calibration", ""),
        ({"text": "a", "error": 0.0}, 422, "bad_request", "'error' "),
        ({"text": "a", "error": 0.1, "target": "text"}, 422, "needs_evidence", "target 'item'"),
        ({"text": "a", "error": 0.1, "target": "item", "lexical": "off"}, 422, "needs_evidence", ""),
        ({"text": "a", "error": 0.1, "target": "item", "diversity": 0.5}, 422, "needs_evidence", ""),
        ({"text": "a", "error": 0.1, "target": "item"}, 422, "no_promise", "needs 9 questions"),
        ({"text": "a", "filter": {"is": {"like": "x"}}}, 422, "bad_filter", "operator"),
        ({"text": "a", "filter": {"is": None}}, 422, "bad_filter", "exists"),
        ({"text": "a", "filter": {"or": []}}, 422, "bad_filter", "list of filters"),
        ({"id": "nobody"}, 404, "not_found", "nobody"),
        ({"id": "\0"}, 404, "not_found", ""),
        ({"vector": [1.0]}, 422, "bad_vector", "16"),
        ({"vector": []}, 422, "bad_vector", "16"),
        ({"vector": [1e30] * 16}, 422, "bad_query", ""),
        ({"vector": [1e300] * 16}, 422, "bad_query", ""),
        ({"mix": [{"text": "a", "weight": 0}]}, 422, "bad_query", "weights"),
        ({"text": "a", "target": "item", "examples": {"good": ["nobody"]}}, 404, "not_found", "nobody"),
        ({"text": "a", "target": "item", "examples": {"bad": ["no\0body"]}}, 404, "not_found", ""),
    ],
)
def test_what_cannot_be_searched_is_refused(
    shop: House, asked: dict[str, Any], status: int, code: str, reason: str
) -> None:
    refused(shop.search(**asked), status, code, reason)
    assert shop.best(text="a red box") == "red-box"


def test_words_of_a_mix_count_by_their_weight(shop: House) -> None:
    def heard(weight: float) -> dict[str, float]:
        mix = [{"id": "blue-box"}, {"text": "a red box", "weight": weight}]
        red = next(hit for hit in hits(shop, target="item", mix=mix) if hit["id"] == "red-box")
        return {leg["leg"]: leg["value"] for leg in red["evidence"] if leg["leg"] in ("words", "reader")}

    whole, half, little = heard(1), heard(0.5), heard(0.01)
    assert whole["words"] > 0.1
    assert half == pytest.approx({leg: value / 2 for leg, value in whole.items()}, rel=0.2)
    assert all(abs(value) < 0.05 * abs(whole[leg]) for leg, value in little.items())


class TestExamples:
    """Hits that were judged order a search anew."""

    def found(self, shop: House, **asked: Any) -> list[str]:  # noqa: ANN401 (any JSON)
        return ids(hits(shop, **{"target": "item"} | asked))

    def test_good_hits_stay_first_and_bad_ones_go_last(self, shop: House) -> None:
        plain = self.found(shop, text="a red box")
        good, bad = plain[-1], plain[0]
        judged = self.found(shop, text="a red box", examples={"good": [good], "bad": [bad]})
        assert (judged[0], judged[-1]) == (good, bad)
        assert sorted(judged) == sorted(plain)
        assert self.found(shop, text="a red box", examples={}, diversity=0) == plain
        assert hits(shop, text="red", examples={}, diversity=0)

    def test_the_answer_says_what_examples_added(self, shop: House) -> None:
        found = hits(shop, target="item", text="a red box", examples={"good": ["blue-box"]})
        legs = {leg["leg"]: leg["value"] for leg in found[0]["evidence"]}
        assert legs["examples"] > 5
        assert found[0]["score"] == pytest.approx(sum(legs.values()), abs=1e-3)
        sure = [hit["confidence"] for hit in found]
        assert sure == sorted(sure, reverse=True)

    def test_pages_facets_and_similar_items_know_examples(self, shop: House) -> None:
        asked: dict[str, Any] = {"text": "a red box", "examples": {"bad": ["red-box"]}, "diversity": 0.5}
        ranked = self.found(shop, **asked)
        assert [name for n in range(4) for name in self.found(shop, **asked, limit=1, offset=n)] == ranked
        assert ranked[-1] == "red-box"
        body = {"keys": ["is"], "query": {"target": "item", **asked}, "best": 3}
        facets = shop.client.post("/v1/facets", json=body).json()["facets"]
        assert "red" not in [one["value"] for one in facets["is"]]
        like = shop.client.post("/v1/items/red-box/similar", json={"examples": {"good": ["blue-box"]}})
        assert like.json()["hits"][0]["id"] == "blue-box"


class TestSimilar:
    """Items that are like one."""

    def post(self, shop: House, name: str, **asked: Any) -> httpx.Response:  # noqa: ANN401 (any JSON)
        return shop.client.post(f"/v1/items/{name}/similar", json=asked)

    def test_an_item_is_not_like_itself(self, shop: House) -> None:
        found = self.post(shop, "red-box").json()["hits"]
        assert set(ids(found)) == {f"{colour}-box" for colour in BOXES} - {"red-box"}
        assert ids(self.post(shop, "red-box", limit=1, offset=1).json()["hits"]) == ids(found)[1:2]
        assert self.post(shop, "red-box", filter={"is": "red"}).json()["hits"] == []

    def test_what_cannot_be_compared_is_refused(self, shop: House) -> None:
        refused(self.post(shop, "nobody"), 404, "not_found")
        refused(self.post(shop, "red-box", target="shape", min_confidence=0.1), 422, "no_calibration")


class TestBatches:
    """Several searches at once."""

    def test_each_is_answered_for_itself(self, shop: House) -> None:
        asked = [{"text": colour, "limit": 1} for colour in BOXES]
        wrong = [{"text": ""}, {"image": "data:image/png;base64,AAAA"}, {"nonsense": 1}, {"id": "nobody"}]
        wrong += [{"text": "red", "examples": {"good": ["nobody"]}}]
        response = shop.client.post("/v1/search/batch", json={"searches": [*asked, *wrong]})
        answers = response.json()["answers"]
        assert [ids(one["answer"]["hits"]) for one in answers[:4]] == [[f"{colour}-box"] for colour in BOXES]
        codes = [one["error"]["code"] for one in answers[4:]]
        assert codes == ["bad_text", "bad_image", "bad_request", "not_found", "not_found"]
        assert all(one["answer"] is None for one in answers[4:])

    def test_too_many_are_refused(self, shop: House) -> None:
        response = shop.client.post("/v1/search/batch", json={"searches": [{"text": "a"}] * 257})
        refused(response, 422, "too_many", "256 searches")

    def test_the_hits_of_all_searches_together_are_bounded(self, shop: House) -> None:
        most = shop.client.get("/v1/info").json()["limits"]["batch_hits"]
        asked = [{"text": "a", "limit": 1000}] * (most // 1000)
        assert shop.client.post("/v1/search/batch", json={"searches": asked}).status_code in (200, 207)
        response = shop.client.post("/v1/search/batch", json={"searches": [*asked, {"text": "a"}]})
        refused(response, 422, "too_many", f"{most} hits")


@pytest.fixture(scope="module")
def opened_store(own: House) -> House:
    write(own, *map(leaning, ITEMS))
    return own


@pytest.fixture
def store(opened_store: House) -> Iterator[House]:
    """A service with twelve items, whose captions lean to their colour by their number."""
    yield opened_store
    if opened_store.service.collection.ids() != sorted(ITEMS):
        opened_store.client.post("/v1/items/delete", json={"ids": opened_store.service.collection.ids()})
        write(opened_store, *map(leaning, ITEMS))


def leaning(name: str) -> dict[str, Any]:
    colour, _, number = name.partition("-")
    texts = [f"a {colour} box", *(["a yellow thing"] * int(number))]
    return {"id": name, "texts": texts, "payload": {"is": colour, "n": int(number)}}


class TestPages:
    """Cursors: the page after a hit, also while the collection changes."""

    ASKED: dict[str, Any] = {"text": "a red box", "target": "text", "limit": 4}  # noqa: RUF012 (it is only read)

    def read(self, store: House, path: str = "/v1/search", **asked: Any) -> dict[str, Any]:  # noqa: ANN401
        answer = store.client.post(path, json=asked)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def ids(self, store: House, path: str = "/v1/search", **asked: Any) -> list[str]:  # noqa: ANN401
        return ids(self.read(store, path, **asked)["hits"])

    def walk(self, store: House, path: str, **asked: Any) -> list[str]:  # noqa: ANN401 (any JSON)
        """All ids, page by page."""
        found: list[str] = []
        after: dict[str, str] = {}
        while True:
            answer = self.read(store, path, **asked, **after)
            found += ids(answer["hits"])
            if answer["next"] is None:
                return found
            after = {"after": answer["next"]}

    @pytest.mark.parametrize(
        ("path", "asked"),
        [
            ("/v1/search", {"text": "a red box", "target": "text"}),
            ("/v1/search", {"text": "a red box", "target": "item"}),
            ("/v1/search", {"id": "red-1", "target": "text"}),
            ("/v1/search", {"text": "a red box", "target": "text", "duplicates": "fold"}),
            ("/v1/search", {"mix": [{"text": "red"}, {"text": "blue", "weight": -0.5}], "target": "text"}),
            ("/v1/items/red-0/similar", {"target": "text"}),
        ],
    )
    def test_pages_are_the_ranking(self, store: House, path: str, asked: dict[str, Any]) -> None:
        ranked = self.ids(store, path, **asked, limit=50)
        assert len(ranked) == len(ITEMS) - ("similar" in path)
        assert self.walk(store, path, **asked, limit=5) == ranked
        pages = [self.ids(store, path, **asked, limit=5, offset=place) for place in (0, 5, 10, 15)]
        assert [name for page in pages for name in page] == ranked

    @pytest.mark.parametrize("path", ["/v1/search", "/v1/items/red-0/similar"])
    def test_pages_that_end_with_a_size_are_the_ranking(
        self, store: House, monkeypatch: pytest.MonkeyPatch, path: str
    ) -> None:
        asked = {"target": "text", "limit": 50} | ({"text": "a red box"} if path == "/v1/search" else {})
        ranked = self.ids(store, path, **asked)
        counted = {"keys": ["is"], "query": {"text": "a red box", "target": "text"}}
        whole = store.client.post("/v1/facets", json=counted).json()["facets"]
        monkeypatch.setattr(paging, "PAGE_BYTES", 60)
        assert len(self.ids(store, path, **asked)) < len(ranked)
        assert self.walk(store, path, **asked) == ranked
        assert store.client.post("/v1/facets", json=counted).json()["facets"] == whole

    def test_the_searches_of_a_batch_share_the_size_of_a_page(
        self, store: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: dict[str, Any] = {"text": "a red box", "target": "text", "limit": 50}
        ranked = self.ids(store, **asked)
        with monkeypatch.context() as short:
            short.setattr(paging, "PAGE_BYTES", 240)
            batch = store.client.post("/v1/search/batch", json={"searches": [asked] * 4}).json()["answers"]
        for one in batch:
            first = ids(one["answer"]["hits"])
            assert 1 <= len(first) < len(ranked)
            assert first + self.ids(store, **asked, after=one["answer"]["next"]) == ranked

    def test_changes_between_pages_neither_repeat_nor_skip(self, store: House) -> None:
        ranked, first = self.ids(store, **self.ASKED | {"limit": 50}), self.read(store, **self.ASKED)
        write(store, leaning("red-00"), leaning("red-000"))  # as good as the best
        assert self.ids(store, **self.ASKED, offset=4)[0] in ids(first["hits"])  # what an offset does
        rest = self.ids(store, **self.ASKED | {"limit": 50}, after=first["next"])
        assert [one for one in rest if one in ITEMS] == ranked[4:]

    def test_a_cursor_of_a_hit_that_is_gone_goes_on_at_its_place(self, store: House) -> None:
        ranked, first = self.ids(store, **self.ASKED | {"limit": 50}), self.read(store, **self.ASKED)
        store.client.delete(f"/v1/items/{ranked[3]}")
        assert self.ids(store, **self.ASKED, after=first["next"]) == ranked[5:9]

    def test_a_threshold_ends_the_pages(self, store: House) -> None:
        least = self.read(store, **self.ASKED)["hits"][2]["score"]
        answer = self.read(store, **self.ASKED, min_score=least)
        assert answer["next"] is None
        assert 3 <= len(answer["hits"]) <= 4

    @pytest.mark.parametrize(
        ("changes", "sentence"),
        [
            ({"text": "a blue box"}, "another list or search"),
            ({"filter": {"is": "red"}}, "another list or search"),
            ({"after": "nonsense"}, "is not the 'next'"),
            ({"after": "\u00e9"}, "is not the 'next'"),
            ({"after": "WzEsLTIsImEiXQ"}, "another list or search"),  # [1,-2,"a"]
            ({"after": "WzEsIjIiLCJhIl0"}, "another list or search"),  # [1,"2","a"]
        ],
    )
    def test_a_cursor_that_does_not_fit(self, shop: House, changes: dict[str, Any], sentence: str) -> None:
        asked = self.ASKED | {"limit": 1}
        after = self.read(shop, **asked)["next"]
        answer = shop.client.post("/v1/search", json={**asked, "after": after, **changes})
        refused(answer, 422, "bad_cursor", sentence)


class TestFacets:
    """Values and ranges of payload keys."""

    def count(self, store: House, **asked: Any) -> dict[str, Any]:  # noqa: ANN401 (any JSON)
        answer = store.client.post("/v1/facets", json=asked)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def test_of_the_hits_of_a_query(self, store: House) -> None:
        red = {"text": "a red box", "target": "text", "limit": 1, "offset": 1}
        found = self.count(store, keys=["is"], query=red, best=2)["facets"]
        assert found["is"] == [{"value": "red", "count": 2}]
        page = {"text": "a red box", "target": "text", "limit": 1}
        after = store.client.post("/v1/search", json=page).json()["next"]
        first = self.count(store, keys=["n"], query=page, best=1)
        assert self.count(store, keys=["n"], query={**page, "after": after}, best=1) == first
        narrow = {"text": "red", "target": "text", "filter": {"n": {"gte": 1}}}
        assert self.count(store, keys=["is", "n"], query=narrow, filter={"is": "red"}) == {
            "facets": {"is": [{"value": "red", "count": 2}], "n": [{"value": n, "count": 1} for n in (1, 2)]},
            "ranges": {"n": {"min": 1, "max": 2, "count": 2}},
        }


def test_hits_say_what_a_picture_looks_like_where_the_bundle_has_names(tmp_path: Path) -> None:
    bundle = tiny.build_with_looks(tmp_path / "bundle", 0.8, BOXES)
    with house(tmp_path / "data", bundle.folder) as shop:
        shop.fill()
        for hit in hits(shop, text="a red box", target="image"):
            assert hit["looks_like"] == [hit["id"].partition("-")[0]]
        assert not any(hit["looks_like"] for hit in hits(shop, text="a red box", target="text"))
        assert not any(hit["looks_like"] for hit in hits(shop, text="red", target="image", fields=["words"]))
        alike = shop.client.post("/v1/items/red-box/similar", json={"target": "shape"}).json()["hits"]
        assert {hit["id"]: hit["looks_like"] for hit in alike}["blue-box"] == ["blue"]
