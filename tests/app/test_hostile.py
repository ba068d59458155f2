"""Hostile requests between good ones: no crash, no wrong answer, nothing wedged, memory flat."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.openapi import openapi_document
from tests.app.house import BOXES, House, box, encoded, glb, house, png, triangle_with

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
DESCRIBED = json.loads(openapi_document())
SCHEMAS = DESCRIBED["components"]["schemas"]
POSTS = {
    "/v1/search": "SearchBody",
    "/v1/search/batch": "BatchSearchBody",
    "/v1/items": "BulkBody",
    "/v1/items/delete": "ItemDeleteBody",
    "/v1/items/scroll": "ItemScrollBody",
    "/v1/items/count": "ItemFilterBody",
    "/v1/items/red-box/similar": "SimilarBody",
    "/v1/facets": "FacetsBody",
    "/v1/embeddings": "EmbeddingsBody",
}
GROWTH = 60 << 20


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory, bundle: Path) -> Iterator[House]:
    """A service with four boxes that may be ruined."""
    with house(tmp_path_factory.mktemp("victim"), bundle) as opened:
        for colour in BOXES:
            assert opened.put(f"{colour}-box", colour).status_code == 200
        yield opened


def fits(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that nearly fit a schema: of the right type more often than not."""
    if "$ref" in schema:
        return body_of(schema["$ref"].rsplit("/", 1)[1])
    if "anyOf" in schema:
        return st.one_of(*map(fits, schema["anyOf"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "string": st.text(max_size=12) | st.sampled_from(["red", "red-box", "data:image/png;base64,AAAA"]),
        "integer": st.integers(-2, 200),
        "number": st.floats(-1e4, 1e4),
        "boolean": st.booleans(),
        "null": st.none(),
        "object": st.dictionaries(st.sampled_from(["is", "or", "not", "n"]), JSON, max_size=2),
    }
    if schema.get("type") == "array":
        return st.lists(fits(schema.get("items", {})), max_size=3)
    return kinds.get(schema.get("type", ""), JSON)


def body_of(name: str) -> st.SearchStrategy[Any]:
    """Bodies that nearly fit: some fields are left out, some hold anything."""
    fields = SCHEMAS[name].get("properties", {})
    return st.fixed_dictionaries({}, optional={key: fits(value) | JSON for key, value in fields.items()})


def sound(response: httpx.Response, path: str, method: str = "post") -> None:
    """A promised status, in the promised shape."""
    assert response.status_code < 500, response.text
    described = next(
        methods[method]
        for template, methods in DESCRIBED["paths"].items()
        if method in methods and template.replace("{item_id}", "red-box") == path
    )
    assert str(response.status_code) in described["responses"], (response.status_code, response.text)
    if response.status_code >= 400:
        assert set(response.json()["error"]) == {"code", "message", "request_id"}


@pytest.mark.parametrize("path", POSTS)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(data=st.data())
def test_whatever_the_body_holds_the_answer_is_one_that_was_promised(
    victim: House, path: str, data: st.DataObject
) -> None:
    body = data.draw(body_of(POSTS[path]) | JSON)
    if path == "/v1/items/delete":
        body = {**body, "filter": {"never": "there"}} if isinstance(body, dict) else body
        body = {key: value for key, value in body.items() if key != "ids"} if isinstance(body, dict) else body
    text = json.dumps(body).encode()
    sound(victim.client.post(path, content=text, headers={"content-type": "application/json"}), path)


def storm(number: int, rng: random.Random) -> dict[str, Any]:
    """One hostile upload."""
    noise = np.random.default_rng(number)
    cut = rng.randrange(40, 200)  # less would leave a picture whole but for its end mark
    header = encoded(np.zeros((8, 8, 3), np.uint8))
    huge = header[:16] + (60_000).to_bytes(4, "big") * 2 + header[24:]
    makers: list[Callable[[], tuple[str, str, bytes]]] = [
        lambda: ("image", "a.png", noise.bytes(2000)),
        lambda: ("image", "a.png", png("red")[:-cut]),
        lambda: ("image", "../../etc/passwd", huge),
        lambda: ("image", "a.png", encoded(np.zeros((1, 1, 3), np.uint8))),
        lambda: ("image", "a.gif", b"GIF89a" + noise.bytes(100)),
        lambda: ("mesh", "a.glb", noise.bytes(2000)),
        lambda: ("mesh", "a.glb", box("red")[:-cut]),
        lambda: ("mesh", "a.glb", triangle_with(float("nan"))),
        lambda: ("mesh", "a.obj", b"f 1 2 999999999\n" + noise.bytes(50)),
        lambda: ("mesh", "a.glb", glb({"asset": {"version": "2.0"}, "nodes": [{"children": [0]}]})),
        lambda: ("mesh", "a.exe", b"MZ"),
        lambda: ("text", "a.txt", noise.bytes(50)),
    ]
    field, name, content = makers[number % len(makers)]()
    return {"files": {field: (name, content)}}


def resident(shop: House) -> float:
    line = next(
        line
        for line in shop.client.get("/metrics").text.splitlines()
        if line.startswith("multifold_resident_bytes")
    )
    return float(line.rsplit(" ", 1)[1])


@pytest.mark.parametrize("count", [48, pytest.param(2000, marks=pytest.mark.slow)])
def test_a_storm_of_hostile_uploads_between_good_requests(victim: House, count: int) -> None:
    rng = random.Random(7)
    before = 0.0
    for number in range(count):
        response = victim.client.post("/v1/search", **storm(number, rng))
        assert response.status_code == 422, response.text
        if number % 4 == 0:
            colour = BOXES[number // 4 % len(BOXES)]
            assert victim.best(text=f"a {colour} box {number}") == f"{colour}-box"
        if number == count // 4:
            before = resident(victim)
    assert resident(victim) < before + GROWTH
    assert victim.client.get("/readyz").status_code == 200
