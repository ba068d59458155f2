"""Texts, pictures and meshes find what they should, whichever way they are sent."""

import base64
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from multifold.client import Client
from tests.app.house import BOXES, House, box, encoded, png

HIT = {
    "id",
    "score",
    "confidence",
    "chance",
    "modality",
    "matched",
    "payload",
    "sides",
    "words",
    "evidence",
    "duplicates",
}


def uri(data: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


@pytest.mark.parametrize("target", ["shape", "image", "text"])
@pytest.mark.parametrize("colour", BOXES)
def test_words_find_their_colour_on_every_side(shop: House, colour: str, target: str) -> None:
    assert shop.best(text=f"a {colour} box", target=target) == f"{colour}-box"


@pytest.mark.parametrize("colour", BOXES)
def test_a_picture_finds_its_colour(shop: House, colour: str) -> None:
    assert shop.best(image=uri(png(colour), "image/png")) == f"{colour}-box"


@pytest.mark.parametrize("colour", BOXES)
def test_a_mesh_finds_itself(shop: House, colour: str) -> None:
    response = shop.search(mesh=uri(box(colour), "model/gltf-binary"))
    hit = response.json()["hits"][0]
    assert hit["id"] == f"{colour}-box"
    assert hit["score"] == pytest.approx(1, abs=1e-5)


def test_an_answer_has_the_agreed_shape(shop: House) -> None:
    response = shop.search(text="a red box", target="shape", limit=2, pool="max")
    answer = response.json()
    assert response.status_code == 200
    assert set(answer) == {
        "hits",
        "took_ms",
        "version",
        "bundle",
        "calibrated_by",
        "matches_well",
        "next",
        "warnings",
    }
    assert set(answer["took_ms"]) == {"encode", "search", "total"}
    assert answer["bundle"] == "tiny"
    assert answer["warnings"] == []
    assert answer["version"] == shop.service.collection.version
    assert [set(hit) for hit in answer["hits"]] == [HIT] * 2
    first = answer["hits"][0]
    assert first["payload"] == {"is": "red"}
    assert first["modality"] == "shape"
    assert set(first["matched"]) == {"kind", "index", "url", "text"}
    assert first["matched"]["kind"] == "view"
    assert first["matched"]["text"] is None


def test_the_matched_caption_is_the_nearest_one(shop: House) -> None:
    hit = shop.search(text="red thing", target="text", limit=1).json()["hits"][0]
    assert hit["matched"] == {"kind": "caption", "index": 1, "url": None, "text": "red thing"}


def test_the_matched_picture_can_be_fetched(shop: House) -> None:
    for target in ("shape", "image"):
        url = shop.search(text="blue", target=target).json()["hits"][0]["matched"]["url"]
        picture = shop.client.get(url)
        assert picture.status_code == 200
        assert picture.headers["content-type"] in ("image/webp", "image/png")


@pytest.mark.parametrize("pool", ["mean", "max"])
def test_scores_fall_and_the_limit_holds(shop: House, pool: str) -> None:
    hits = shop.search(text="a yellow box", pool=pool, limit=3).json()["hits"]
    scores = [hit["score"] for hit in hits]
    assert len(hits) == 3
    assert scores == sorted(scores, reverse=True)


def test_a_cut_text_is_reported(shop: House) -> None:
    answer = shop.search(text="red " * 40).json()
    assert answer["warnings"] == ["text was cut at 12 tokens, which is all that this encoder reads"]
    assert answer["hits"][0]["id"] == "red-box"


def test_many_ask_at_once_and_each_gets_their_own_answer(shop: House) -> None:
    def asked(number: int) -> tuple[str, str]:
        colour = BOXES[number % len(BOXES)]
        ways = (
            {"text": colour},
            {"image": uri(png(colour), "image/png")},
            {"mesh": uri(box(colour), "model/gltf-binary")},
        )
        return colour, shop.best(**ways[number % len(ways)])

    with ThreadPoolExecutor(8) as people:
        for colour, found in people.map(asked, range(48)):
            assert found == f"{colour}-box"


class TestMultipart:
    """The same, as a form."""

    def test_words(self, shop: House) -> None:
        response = shop.client.post("/v1/search", files={"text": (None, "a green box"), "limit": (None, "1")})
        assert [hit["id"] for hit in response.json()["hits"]] == ["green-box"]

    def test_a_picture(self, shop: House) -> None:
        response = shop.client.post(
            "/v1/search", files={"image": ("any name.png", png("blue"))}, data={"target": "image"}
        )
        assert response.json()["hits"][0]["id"] == "blue-box"

    def test_a_mesh_by_file_name(self, shop: House) -> None:
        response = shop.client.post("/v1/search", files={"mesh": ("../../Box.GLB", box("yellow"))})
        assert response.json()["hits"][0]["id"] == "yellow-box"

    def test_a_mesh_by_its_first_bytes(self, shop: House) -> None:
        response = shop.client.post("/v1/search", files={"mesh": ("upload", box("red"))})
        assert response.json()["hits"][0]["id"] == "red-box"

    def test_a_mesh_by_stated_format(self, shop: House) -> None:
        corners = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
        response = shop.client.post(
            "/v1/search", files={"mesh": ("m", corners.encode())}, data={"mesh_format": "obj"}
        )
        assert response.status_code == 200
        assert len(response.json()["hits"]) == len(BOXES)

    def test_a_picture_as_data_uri(self, shop: House) -> None:
        response = shop.client.post("/v1/search", files={"image": (None, uri(png("red"), "image/png"))})
        assert response.json()["hits"][0]["id"] == "red-box"


def test_pictures_of_every_colour_model_are_taken(shop: House) -> None:
    grey = np.full((20, 30), 40, np.uint8)
    clear = np.zeros((20, 30, 4), np.uint8)
    for pixels in (grey, clear):
        assert shop.search(image=uri(encoded(pixels), "image/png")).status_code == 200


def test_the_parameters_of_a_data_uri_are_no_obstacle(shop: House) -> None:
    assert shop.best(image=uri(png("blue"), "image/png;charset=utf-8;name=a.png")) == "blue-box"


def test_words_find_what_the_vector_does_not(shop: House) -> None:
    far = shop.search(text="blue", lexical="off").json()["hits"]
    assert far[0]["words"] == []
    asked = {"text": "blue yellow-box?", "target": "any"}
    first = shop.search(**asked, lexical="only").json()["hits"][0]
    assert (first["id"], first["words"]) == ("yellow-box", ["yellow-box"])
    mixed = shop.search(mix=[{"text": "red"}, {"text": "blue-box", "weight": -1}], lexical="only").json()[
        "hits"
    ]
    assert "blue-box" not in [hit["id"] for hit in mixed if hit["words"]]
    refused = shop.search(id="red-box", lexical="only")
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "no_words")


def test_scores_of_all_sides_are_told_on_request(shop: House) -> None:
    def hits(**asked: Any) -> list[dict[str, Any]]:  # noqa: ANN401 (any JSON)
        found: list[dict[str, Any]] = shop.search(limit=2, **asked).json()["hits"]
        return found

    assert hits(text="a red box")[0]["sides"] is None
    first, second = hits(text="a red box", target="shape", explain=True)
    assert set(first["sides"]) == {"text", "image", "shape"}
    for hit in (first, second):
        assert hit["sides"]["shape"] == pytest.approx(hit["score"], abs=1e-5)
    mix = [{"text": "a red box"}, {"id": "blue-box", "weight": -0.5}]
    for hit in hits(mix=mix, target="image", explain=True):
        assert hit["sides"]["image"] == pytest.approx(hit["score"], abs=1e-5)
    asked = {"target": "shape", "explain": True, "limit": 2}
    near = shop.client.post("/v1/items/red-box/similar", json=asked).json()["hits"]
    for hit in near:
        assert hit["id"] != "red-box"
        assert hit["sides"]["shape"] == pytest.approx(hit["score"], abs=1e-5)
    with Client(shop.url) as client:
        told = client.search(text="a red box", explain=True).hits[0].sides
    assert told == pytest.approx(first["sides"])
