"""Bad input gets a 4xx with a reason, in one shape, and the next good query is answered."""

import base64
import json
import os
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from index.store.database import StoreError
from index.store.store import Store
from tests.app.house import House, box, encoded, glb, png, triangle_with

JSON = {"content-type": "application/json"}
FORM = {"content-type": "multipart/form-data; boundary=x"}
MIB = 1 << 20
OBJ = "v nan 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"


@pytest.fixture(autouse=True)
def good_afterwards(shop: House) -> Iterator[None]:
    """Whatever came before, the next good query is answered."""
    yield
    assert shop.best(text="a red box") == "red-box"


def refused(response: httpx.Response, status: int, code: str, reason: str = "") -> None:
    assert response.status_code == status, response.text
    assert set(response.json()) == {"error"}
    error = response.json()["error"]
    assert set(error) == {"code", "message", "request_id"}
    assert error["code"] == code
    assert reason in error["message"]
    assert error["request_id"] == response.headers["x-request-id"]


def uri(data: bytes) -> str:
    return f"data:application/octet-stream;base64,{base64.b64encode(data).decode()}"


@pytest.mark.parametrize(
    ("asked", "code", "reason"),
    [
        ({}, "no_query", "exactly one of"),
        ({"target": "shape"}, "no_query", "exactly one of"),
        ({"text": None}, "no_query", "exactly one of"),
        ({"text": "a box", "image": "data:,"}, "several_queries", "not text and image"),
        ({"text": "", "mesh": ""}, "several_queries", "not text and mesh"),
        ({"text": ""}, "bad_text", "empty"),
        ({"text": " \n\t"}, "bad_text", "empty"),
        ({"text": "x" * 2001}, "bad_text", "2,001 characters; 2,000 are the most"),
        ({"text": 7}, "bad_request", "text: "),
        ({"text": ["a"]}, "bad_request", "text: "),
        ({"text": "a", "limit": 0}, "bad_request", "limit: "),
        ({"text": "a", "limit": 101}, "bad_request", "limit: "),
        ({"text": "a", "limit": "many"}, "bad_request", "limit: "),
        ({"text": "a", "limit": 10**400}, "bad_request", "limit: "),
        ({"text": "a", "target": "smell"}, "bad_request", "target: "),
        ({"text": "a", "pool": "median"}, "bad_request", "pool: "),
        ({"text": "a", "txet": "b"}, "bad_request", "txet: "),
        ({"image": "http://example.com/a.png"}, "bad_image", "data URI"),
        ({"image": "/etc/passwd"}, "bad_image", "data URI"),
        ({"image": "data:image/png,abc"}, "bad_image", "data URI"),
        ({"image": "data:image/png;base64,@@@"}, "bad_image", "base64"),
        ({"image": "data:image/png;base64,"}, "bad_image", "not a picture"),
        ({"mesh": "data:model/gltf-binary;base64,é"}, "bad_mesh", "base64"),
        ({"mesh": uri(b"hello")}, "bad_mesh", "cannot tell the format"),
        ({"mesh": uri(b"hello"), "mesh_format": "exe"}, "bad_mesh", ".exe"),
        ({"mesh": uri(b"hello"), "mesh_format": "../../x"}, "bad_mesh", "cannot tell the format"),
    ],
)
def test_json_is_checked(shop: House, asked: dict[str, object], code: str, reason: str) -> None:
    refused(shop.client.post("/v1/search", content=json.dumps(asked), headers=JSON), 422, code, reason)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe",
        b'{"text": "\\ud800"}',
        b'{"text": "a"} x',
    ],
)
def test_a_body_that_is_no_json_object_is_refused(shop: House, body: bytes) -> None:
    refused(shop.client.post("/v1/search", content=body, headers=JSON), 422, "bad_request")


def test_a_body_that_is_nested_too_deeply_is_refused(shop: House) -> None:
    refused(shop.client.post("/v1/search", content=b"[" * 100_000, headers=JSON), 400, "bad_request")


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "application/x-www-form-urlencoded", ""])
def test_another_kind_of_body_is_refused(shop: House, kind: str) -> None:
    response = shop.client.post("/v1/search", content=b"text=a", headers={"content-type": kind})
    refused(response, 415, "unsupported_media_type", "application/json or multipart/form-data")


def tall_png() -> bytes:
    return encoded(np.zeros((1, 1, 3), np.uint8))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (tall_png(), "smaller than"),
        (png("red")[:-40], "damaged or cut short"),
        (png("red")[:20], "picture"),
        (b"just text", "not a picture"),
        (b"", "not a picture"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a picture"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a picture"),
    ],
)
def test_pictures_are_checked(shop: House, data: bytes, reason: str) -> None:
    refused(shop.client.post("/v1/search", files={"image": ("a.png", data)}), 422, "bad_image", reason)


def test_a_picture_with_too_many_pixels_is_refused_unread(shop: House) -> None:
    header = encoded(np.zeros((8, 8, 3), np.uint8))
    huge = header[:16] + (60_000).to_bytes(4, "big") * 2 + header[24:]
    refused(shop.client.post("/v1/search", files={"image": ("a.png", huge)}), 422, "bad_image")


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.glb", b"this is a text file", "not a GLB"),
        ("a.glb", b"", ""),
        ("a.glb", glb({"asset": {"version": "2.0"}}), "neither triangles nor points"),
        ("a.glb", triangle_with(np.nan), "NaN"),
        ("a.glb", triangle_with(np.inf), "infinity"),
        ("a.glb", box("red")[:-100], ""),
        ("a.obj", OBJ.encode(), ""),
        ("a.obj", b"# nothing\n", "neither triangles nor points"),
        ("a.fbx", b"Kaydara FBX Binary", "fbx files are not read"),
        ("a.zip", b"PK\x03\x04", "archives are not opened"),
        ("a.stl", np.random.default_rng(0).bytes(4096), ""),
        ("a.ply", b"ply\nformat ascii 1.0\nelement vertex 99999999999\nend_header\n", ""),
    ],
)
def test_meshes_are_checked(shop: House, name: str, data: bytes, reason: str) -> None:
    refused(shop.client.post("/v1/search", files={"mesh": (name, data)}), 422, "bad_mesh", reason)


def test_20_megabytes_of_junk_are_too_large(shop: House) -> None:
    junk = np.random.default_rng(0).bytes(20 * MIB)
    refused(shop.client.post("/v1/search", files={"mesh": ("a.glb", junk)}), 413, "too_large", "16,777,216")


def test_20_megabytes_without_announced_length_are_too_large(shop: House) -> None:
    body = (b"x" * 65536 for _ in range(320))
    refused(shop.client.post("/v1/search", content=body, headers=JSON), 413, "too_large", "16,777,216")


def test_a_form_of_20_megabytes_without_announced_length_is_too_large(shop: House) -> None:
    head = b'--x\r\nContent-Disposition: form-data; name="mesh"; filename="a.glb"\r\n\r\n'
    body = (head if part == 0 else b"x" * 65536 for part in range(321))
    refused(shop.client.post("/v1/search", content=body, headers=FORM), 413, "too_large", "16,777,216")


def test_junk_below_the_limit_is_no_mesh(shop: House) -> None:
    junk = np.random.default_rng(0).bytes(2 * MIB)
    refused(shop.client.post("/v1/search", files={"mesh": ("a.glb", junk)}), 422, "bad_mesh")


class TestForms:
    """Forms that are none, or hold too much."""

    def test_none(self, shop: House) -> None:
        refused(shop.client.post("/v1/search", files={"limit": (None, "3")}), 422, "no_query")

    def test_two_kinds(self, shop: House) -> None:
        files = {"image": ("a.png", png("red")), "mesh": ("a.glb", box("red"))}
        refused(shop.client.post("/v1/search", files=files), 422, "several_queries", "image and mesh")

    def test_two_pictures(self, shop: House) -> None:
        files = [("image", ("a.png", png("red"))), ("image", ("b.png", png("red")))]
        refused(shop.client.post("/v1/search", files=files), 422, "several_queries", "image and image")

    def test_a_file_as_text(self, shop: House) -> None:
        refused(shop.client.post("/v1/search", files={"text": ("a.txt", b"red")}), 422, "bad_text")

    def test_a_file_as_limit(self, shop: House) -> None:
        response = shop.client.post("/v1/search", data={"text": "red"}, files={"limit": ("a.txt", b"3")})
        refused(response, 422, "bad_request", "limit: ")

    def test_too_many_files(self, shop: House) -> None:
        files = [("image", (f"{i}.png", b"x")) for i in range(65)]
        refused(shop.client.post("/v1/search", files=files), 400, "bad_request", "Too many files")

    @pytest.mark.parametrize(
        "body", [b"", b"junk", b"--x\r\n", b"--x\r\nContent-Disposition: form-data\r\n\r\nx"]
    )
    def test_no_form_at_all(self, shop: House, body: bytes) -> None:
        response = shop.client.post("/v1/search", content=body, headers=FORM)
        assert response.status_code in (400, 422)
        refused(response, response.status_code, response.json()["error"]["code"])

    def test_no_boundary(self, shop: House) -> None:
        response = shop.client.post(
            "/v1/search", content=b"x", headers={"content-type": "multipart/form-data"}
        )
        refused(response, 400, "bad_request")


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
        ],
    )
    def test_parts_are_checked(self, shop: House, parts: Any, code: str, reason: str) -> None:  # noqa: ANN401
        version = shop.service.collection.version
        refused(shop.client.put("/v1/items/bad", files=parts), 422, code, reason)
        assert shop.service.collection.version == version
        assert shop.client.get("/v1/items/bad").status_code == 404

    def test_an_id_that_is_too_long_is_refused(self, shop: House) -> None:
        refused(shop.client.put("/v1/items/" + "x" * 513, files={"texts": (None, "a")}), 422, "bad_item")

    @pytest.mark.parametrize("name", ["%2E", "%2E%2E"])
    def test_an_id_that_no_address_can_hold_is_refused(self, shop: House, name: str) -> None:
        refused(shop.client.put(f"/v1/items/{name}", files={"texts": (None, "a")}), 422, "bad_id")

    @pytest.mark.parametrize("name", [" ", "\t", "", "a\nb", "a\x00", "a\u2028", "\u3000", "a\x7f", "\x85b"])
    def test_an_id_that_nobody_sees_is_refused(self, shop: House, name: str) -> None:
        response = shop.client.post("/v1/items", json={"items": [{"id": name, "texts": ["a box"]}]})
        assert response.json()["results"][0]["error"]["code"] == "bad_id"

    def test_json_is_no_item(self, shop: House) -> None:
        refused(shop.client.put("/v1/items/a", json={}), 415, "unsupported_media_type")

    def test_two_meshes_are_one_too_many(self, shop: House) -> None:
        files = [("mesh", ("a.glb", box("red"))), ("mesh", ("b.glb", box("red")))]
        refused(shop.client.put("/v1/items/bad", files=files), 422, "bad_mesh", "one mesh at most")


@pytest.mark.parametrize(
    "path", ["/nothing", "/v1", "/v1/nothing", "/web/nothing.js", "/web/../main.py", "/redoc"]
)
def test_what_is_not_there_is_not_found(shop: House, path: str) -> None:
    refused(shop.client.get(path), 404, "not_found")


@pytest.mark.parametrize(
    "path", ["/v1/items/none", "/v1/items/red-box/views/6", "/v1/items/red-box/photos/1"]
)
def test_items_and_pictures_that_are_not_there_are_not_found(shop: House, path: str) -> None:
    refused(shop.client.get(path), 404, "not_found")


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/search"), ("POST", "/healthz"), ("PATCH", "/v1/search")]
)
def test_what_is_not_possible_is_said(shop: House, method: str, path: str) -> None:
    response = shop.client.request(method, path)
    refused(response, 405, "method_not_allowed", "is not possible")
    assert response.headers["allow"]


@pytest.mark.parametrize("view", ["x", "-1", "6"])
def test_a_view_that_is_not_there_is_not_found(shop: House, view: str) -> None:
    refused(shop.client.get(f"/v1/items/red-box/views/{view}"), 404, "not_found")


def test_a_request_keeps_the_id_that_its_sender_gave(shop: House) -> None:
    given = shop.client.get("/nothing", headers={"x-request-id": "trace-7"})
    refused(given, 404, "not_found")
    assert given.headers["x-request-id"] == "trace-7"
    made_up = shop.client.get("/healthz", headers={"x-request-id": "not an id"})
    assert made_up.headers["x-request-id"] != "not an id"


def test_a_full_disk_is_nobodys_fault_and_changes_nothing(
    shop: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    picture, before = {"images": png("green")}, shop.client.get("/v1/info").json()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        response = shop.client.put("/v1/items/late", files=picture)
        refused(response, 503, "storage", "No space left on device")
        assert response.headers["retry-after"] == "1"
    assert shop.client.get("/v1/items/late").status_code == 404
    assert shop.client.get("/v1/info").json() == before
    assert shop.client.put("/v1/items/late", files=picture).status_code == 200
    assert shop.client.delete("/v1/items/late").status_code == 200


def test_a_store_that_fails_is_nobodys_fault(shop: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise StoreError("The store failed: database or disk is full.")

    monkeypatch.setattr(Store, "upsert", fails)
    refused(shop.put("late", "green"), 503, "storage", "disk is full")
    monkeypatch.undo()
    assert shop.client.get("/v1/items/late").status_code == 404
