"""Forms that are none, or hold what they may not; and a storm of them between good requests."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.app.answers import refused
from tests.app.house import BOXES, House, box, encoded, glb, house, png, triangle_with

FORM = {"content-type": "multipart/form-data; boundary=x"}
MIB = 1 << 20
OBJ = b"v nan 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"
HEADER = encoded(np.zeros((8, 8, 3), np.uint8))
HUGE = HEADER[:16] + (60_000).to_bytes(4, "big") * 2 + HEADER[24:]  # as it says
GROWTH = 60 << 20


@pytest.fixture(autouse=True)
def good_afterwards(shop: House) -> Iterator[None]:
    """Whatever came before, the next good query is answered."""
    yield
    assert shop.best(text="a red box") == "red-box"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (png("red")[:-40], "damaged or cut short"),
        (HUGE, ""),
        (b"", "an empty file"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a picture"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a picture"),
    ],
)
def test_pictures_are_checked(shop: House, data: bytes, reason: str) -> None:
    refused(shop.client.post("/v1/search", files={"image": ("a.png", data)}), 422, "bad_image", reason)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.glb", b"this is a text file", "not a GLB"),
        ("a.glb", triangle_with(np.nan), "NaN"),
        ("a.glb", triangle_with(np.inf), "infinity"),
        ("a.glb", box("red")[:-100], ""),
        ("a.glb", np.random.default_rng(0).bytes(2 * MIB), ""),
        ("a.obj", OBJ, ""),
        ("a.obj", b"# nothing\n", "neither triangles nor points"),
        ("a.fbx", b"Kaydara FBX Binary", "fbx files are not read"),
        ("a.zip", b"PK\x03\x04", "archives are not opened"),
        ("a.stl", np.random.default_rng(0).bytes(4096), ""),
        ("a.ply", b"ply\nformat ascii 1.0\nelement vertex 99999999999\nend_header\n", ""),
    ],
)
def test_meshes_are_checked(shop: House, name: str, data: bytes, reason: str) -> None:
    refused(shop.client.post("/v1/search", files={"mesh": (name, data)}), 422, "bad_mesh", reason)


@pytest.mark.parametrize(
    ("parts", "status", "code", "reason"),
    [
        ([("limit", (None, "3"))], 422, "no_query", "exactly one of"),
        ([("image", ("a.png", b"x")), ("mesh", ("a.glb", b"x"))], 422, "several_queries", "image and mesh"),
        ([("image", ("a.png", b"x"))] * 2, 422, "several_queries", "image and image"),
        ([("text", ("a.txt", b"red"))], 422, "bad_text", "plain field"),
        ([("text", (None, "red")), ("limit", ("a.txt", b"3"))], 422, "bad_request", "'limit' "),
        ([("text", (None, "red")), ("limit", (None, ""))], 422, "bad_request", "'limit' "),
        ([("text", (None, "red")), ("colour", (None, "a"))], 422, "bad_request", "unknown field 'colour'"),
        ([("images", ("a.png", b"x"))], 422, "bad_request", "did you mean 'image'"),
        (
            [("quality", (None, "1"))],
            422,
            "bad_request",
            "the fields are text, image, mesh, mesh_format, collections, target",
        ),
        ([("text", (None, " "))], 422, "bad_text", "empty; send words"),
        ([("text", (None, "red")), ("filter", (None, "{"))], 422, "bad_filter", "not JSON"),
        ([("text", (None, "red")), ("filter", (None, "[]"))], 422, "bad_filter", "JSON object"),
        ([("text", (None, "red")), ("filter", (None, "[" * 90_000))], 422, "bad_filter", "not JSON"),
        ([("text", (None, "red")), ("examples", (None, "no JSON"))], 422, "bad_examples", "not JSON"),
        ([("image", (f"{n}.png", b"x")) for n in range(65)], 400, "bad_request", "Too many files"),
    ],
)
def test_a_search_that_is_none_is_refused(
    shop: House, parts: list[Any], status: int, code: str, reason: str
) -> None:
    refused(shop.client.post("/v1/search", files=parts), status, code, reason)


@pytest.mark.parametrize(
    ("body", "headers", "statuses"),
    [
        (b"", FORM, (422,)),
        (b"junk", FORM, (400,)),
        (b"--x\r\n", FORM, (400, 422)),
        (b"--x\r\nContent-Disposition: form-data\r\n\r\nx", FORM, (400, 422)),
        (b"x", {"content-type": "multipart/form-data"}, (400,)),
    ],
)
def test_what_is_no_form_is_refused(
    shop: House, body: bytes, headers: dict[str, str], statuses: tuple[int, ...]
) -> None:
    response = shop.client.post("/v1/search", content=body, headers=headers)
    assert response.status_code in statuses
    refused(response, response.status_code, response.json()["error"]["code"])


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "application/x-www-form-urlencoded", ""])
def test_another_kind_of_body_is_refused(shop: House, kind: str) -> None:
    def post(path: str) -> Any:  # noqa: ANN401
        return shop.client.post(path, content=b"text=a", headers={"content-type": kind})

    refused(post("/v1/search"), 415, "unsupported_media_type", "application/json or multipart/form-data")
    refused(post("/v1/facets"), 415, "unsupported_media_type", "send application/json")
    for path in ("/v1/search/form", "/v1/items/form"):
        refused(post(path), 415, "unsupported_media_type", "multipart/form-data")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe", b'{"text": "a"} x'])
def test_a_body_that_is_no_json_object_is_refused(shop: House, body: bytes) -> None:
    json = {"content-type": "application/json"}
    refused(shop.client.post("/v1/search", content=body, headers=json), 422, "bad_request")
    half = b'{"text": "\\ud800"}'
    refused(shop.client.post("/v1/search", content=half, headers=json), 422, "bad_request", "surrogate")
    refused(shop.client.post("/v1/search", content=b"[" * 100_000, headers=json), 400, "bad_request")
    broken = shop.client.post("/v1/search", content=b'{"text": red}', headers=json)
    refused(broken, 422, "bad_request", "the body is no JSON: Expecting value at character 9")


class TestItems:
    """Items that cannot be written; nothing of them is."""

    @pytest.mark.parametrize(
        ("parts", "code", "reason"),
        [
            ({"payload": (None, "{}")}, "bad_item", "it needs one"),
            ({"texts": (None, "")}, "bad_text", "empty"),
            ({"texts": (None, "x" * 2001)}, "bad_text", "most"),
            ({"texts": ("a.txt", b"red")}, "bad_text", "plain field"),
            ({"texts": (None, "a"), "payload": (None, "[]")}, "bad_payload", "JSON object"),
            ({"texts": (None, "a"), "payload": (None, "{")}, "bad_payload", "not JSON"),
            ({"texts": (None, "a"), "payload": (None, '{"a": NaN}')}, "bad_payload", "not JSON"),
            ({"texts": (None, "a"), "payload": (None, '{"a": 1e999}')}, "bad_payload", "not JSON"),
            ({"texts": (None, "a"), "payload": (None, '{"a": "\\ud800"}')}, "bad_payload", "not JSON"),
            ({"texts": (None, "a"), "payload": (None, '{"a":' + "[" * 90_000)}, "bad_payload", "not JSON"),
            ({"texts": (None, "a"), "payload": ("a.json", b"{}")}, "bad_request", "file where a plain field"),
            ({"text": (None, "a")}, "bad_request", "unknown field 'text'"),
            ({"images": ("a.png", b"junk")}, "bad_image", "not a picture"),
            ({"mesh": ("a.glb", b"junk")}, "bad_mesh", ""),
            ([("mesh", ("a.glb", b"x")), ("mesh", ("b.glb", b"x"))], "bad_mesh", "one mesh at most"),
        ],
    )
    def test_parts_are_checked(self, shop: House, parts: Any, code: str, reason: str) -> None:  # noqa: ANN401
        version = shop.service.collection.version
        refused(shop.client.put("/v1/items/bad", files=parts), 422, code, reason)
        assert shop.service.collection.version == version
        assert shop.client.get("/v1/items/bad").status_code == 404

    @pytest.mark.parametrize(
        ("name", "code"), [("x" * 513, "bad_item"), ("%2E", "bad_id"), ("%2E%2E", "bad_id")]
    )
    def test_ids_are_checked(self, shop: House, name: str, code: str) -> None:
        refused(shop.client.put(f"/v1/items/{name}", files={"texts": (None, "a")}), 422, code)

    @pytest.mark.parametrize("name", [" ", "\t", "", "a\nb", "a\x00", "a\u2028", "\u3000", "a\x7f", "\x85b"])
    def test_an_id_that_nobody_sees_is_refused(self, shop: House, name: str) -> None:
        response = shop.client.post("/v1/items", json={"items": [{"id": name, "texts": ["a box"]}]})
        assert response.json()["results"][0]["error"]["code"] == "bad_id"


def hostile_part(number: int, rng: random.Random) -> tuple[str, tuple[str, bytes]]:
    """One hostile upload."""
    noise = np.random.default_rng(number)
    cut = rng.randrange(40, 200)  # less would leave all of a picture but its end mark
    makers: list[Callable[[], tuple[str, str, bytes]]] = [
        lambda: ("image", "a.png", noise.bytes(2000)),
        lambda: ("image", "a.png", png("red")[:-cut]),
        lambda: ("image", "../../etc/passwd", HUGE),
        lambda: ("image", "a.gif", b"GIF89a" + noise.bytes(100)),
        lambda: ("mesh", "a.glb", noise.bytes(2000)),
        lambda: ("mesh", "a.glb", box("red")[:-cut]),
        lambda: ("mesh", "a.obj", b"f 1 2 999999999\n" + noise.bytes(50)),
        lambda: ("mesh", "a.glb", glb({"asset": {"version": "2.0"}, "nodes": [{"children": [0]}]})),
        lambda: ("mesh", "a.exe", b"MZ"),
        lambda: ("text", "a.txt", noise.bytes(50)),
    ]
    field, name, content = makers[number % len(makers)]()
    return field, (name, content)


def resident(shop: House) -> float:
    lines = shop.client.get("/metrics").text.splitlines()
    return next(float(one.rsplit(" ", 1)[1]) for one in lines if one.startswith("multifold_resident_bytes"))


@pytest.mark.parametrize("count", [40, pytest.param(600, marks=pytest.mark.slow)])
def test_a_storm_of_hostile_uploads_between_good_requests(tmp_path: Path, bundle: Path, count: int) -> None:
    rng, before = random.Random(7), 0.0
    with house(tmp_path, bundle) as victim:
        victim.fill()
        for number in range(count):
            response = victim.client.post("/v1/search", files=[hostile_part(number, rng)])
            assert response.status_code == 422, response.text
            if number % 4 == 0:
                colour = BOXES[number // 4 % len(BOXES)]
                assert victim.best(text=f"a {colour} box {number}") == f"{colour}-box"
            if number == count // 4:
                before = resident(victim)
        assert resident(victim) < before + GROWTH
        assert victim.client.get("/readyz").status_code == 200
