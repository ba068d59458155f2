"""The client says and reads what the wire format promises, and turns every failure into a sentence."""

import io
import json
from collections.abc import Callable
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from multifold.bundle.preprocess import decode
from multifold.client import Client, ServiceError
from multifold.errors import MultifoldError
from multifold.wire.items import ObservationInfo
from multifold.wire.search import SearchHit, SearchTimings

SEARCHED = {
    "hits": [
        {
            "id": "chair-1",
            "score": 1,
            "modality": "shape",
            "matched": {"kind": "view", "index": 3, "url": "/v1/items/chair-1/views/3?v=ab", "text": None},
            "payload": {"kind": "chair"},
        },
        {
            "id": "chair-2",
            "score": 0.25,
            "modality": "text",
            "matched": {"kind": "caption", "index": 0, "url": None, "text": "a red chair"},
            "payload": {},
            "confidence": 0.7,
        },
    ],
    "took_ms": {"encode": 5, "search": 0.5, "total": 5.5},
    "version": 12,
    "bundle": "furniture",
    "warnings": ["text was cut at 32 tokens"],
}


class Service:
    """A stand-in for the network: answers one thing, and keeps what it was asked."""

    def __init__(self, answer: object = None, status: int = 200) -> None:
        self.answer, self.status = answer, status
        self.asked: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.asked.append(request)
        if isinstance(self.answer, bytes):
            return httpx.Response(self.status, content=self.answer)
        return httpx.Response(self.status, json=self.answer)

    def client(self, **options: Any) -> Client:  # noqa: ANN401 (the client's own)
        return Client("http://house:8000", transport=httpx.MockTransport(self), **options)

    @property
    def parts(self) -> list[Message]:
        """The parts of the multipart form that was sent last."""
        request = self.asked[-1]
        head = f"content-type: {request.headers['content-type']}\r\n\r\n".encode()
        return [part for part in message_from_bytes(head + request.content).walk() if not part.is_multipart()]

    @property
    def form(self) -> list[tuple[str, str | None, bytes]]:
        """Name, file name and content of each part."""
        told = [(part.get_params(header="content-disposition") or [], part) for part in self.parts]
        return [(dict(p)["name"], dict(p).get("filename"), part.get_payload(decode=True)) for p, part in told]  # type: ignore[misc]


def test_a_text_goes_as_json_and_the_answer_comes_back_typed() -> None:
    service = Service(SEARCHED)
    with service.client() as client:
        result = client.search(text="a red chair", limit=5, pool="max", target="text")
    request = service.asked[0]
    assert (request.method, request.url.path) == ("POST", "/v1/search")
    assert json.loads(request.content) == {"text": "a red chair", "target": "text", "limit": 5, "pool": "max"}
    view = ObservationInfo("view", 3, "/v1/items/chair-1/views/3?v=ab")
    assert result.hits[0] == SearchHit(
        id="chair-1", score=1.0, modality="shape", matched=view, payload={"kind": "chair"}
    )
    assert result.hits[1].matched == ObservationInfo("caption", 0, None, "a red chair")
    assert result.took_ms == SearchTimings(5.0, 0.5, 5.5)
    assert (result.version, result.bundle, result.warnings) == (
        12,
        "furniture",
        ("text was cut at 32 tokens",),
    )


def test_a_picture_may_be_a_path_bytes_or_a_picture(tmp_path: Path) -> None:
    service, picture = Service(SEARCHED), Image.new("RGB", (9, 8), "red")
    path = tmp_path / "stuhl grün.png"
    picture.save(path)
    with service.client() as client:
        for given in (path, str(path), path.read_bytes()):
            client.search(image=given, limit=5)
            (name, file, content), limit = service.form
            assert (name, file is not None, content) == ("image", True, path.read_bytes())
            assert limit == ("limit", None, b"5")
            assert service.parts[0].get_content_type() in ("image/png", "application/octet-stream")
        client.search(image=picture.convert("CMYK"))
    sent = decode(service.form[0][2])
    np.testing.assert_array_equal(np.asarray(sent), np.asarray(picture))


def test_a_mesh_goes_as_a_file_with_its_format(tmp_path: Path) -> None:
    service = Service(SEARCHED)
    path = tmp_path / "chair.glb"
    path.write_bytes(b"glTF\x00\x01")
    with service.client() as client:
        client.search(mesh=path)
        assert service.form == [("mesh", "chair.glb", b"glTF\x00\x01")]
        client.search(mesh=b"solid", mesh_format="stl")
        assert service.form == [("mesh", "mesh", b"solid"), ("mesh_format", None, b"stl")]


@pytest.mark.parametrize("clues", [{}, {"text": "a", "image": b"b"}, {"image": b"b", "mesh": b"c"}])
def test_a_search_has_exactly_one_clue(clues: dict[str, Any]) -> None:
    service = Service(SEARCHED)
    with service.client() as client, pytest.raises(MultifoldError, match="exactly one"):
        client.search(**clues)
    assert not service.asked


def test_an_item_is_written_with_all_its_sides(tmp_path: Path) -> None:
    counts = {"caption": 2, "photo": 1, "view": 6}
    service = Service({"id": "a/b ü?", "version": 3, "observations": counts, "warnings": ["cut"]})
    path = tmp_path / "chair.obj"
    path.write_text("v 0 0 0\n")
    texts = ["ein roter Stuhl\r\nmit Lehne", "赤い椅子"]
    with service.client() as client:
        made = client.upsert("a/b ü?", texts=texts, images=[b"photo"], mesh=path, payload={"größe": 1})
    assert (made.id, made.version, made.observations, made.warnings) == ("a/b ü?", 3, counts, ("cut",))
    request = service.asked[0]
    assert (request.method, request.url.raw_path) == ("PUT", b"/v1/items/a%2Fb%20%C3%BC%3F")
    assert [(name, file) for name, file, _ in service.form] == [
        ("texts", None),
        ("texts", None),
        ("images", "images"),
        ("mesh", "chair.obj"),
        ("payload", None),
    ]
    assert texts[1].encode() in request.content
    assert json.loads(service.form[-1][2]) == {"größe": 1}


def test_an_item_of_texts_alone_still_goes_as_a_form() -> None:
    service = Service({"id": "x", "version": 1, "observations": {"caption": 1}})
    with service.client() as client:
        client.upsert("x", texts=["a chair"])
        assert service.asked[0].headers["content-type"].startswith("multipart/form-data")
        with pytest.raises(MultifoldError, match="a list of texts"):
            client.upsert("x", texts="a chair")


def test_items_are_read_looked_at_and_removed() -> None:
    seen = [{"kind": "caption", "index": 0, "url": None, "text": "a chair"}]
    service = Service({"id": "x", "payload": {"a": 1}, "observations": seen, "files": []})
    with service.client() as client:
        item = client.get("x")
        assert (item.id, item.payload, item.observations) == (
            "x",
            {"a": 1},
            (ObservationInfo("caption", 0, None, "a chair"),),
        )
        service.answer = {"removed": 1}
        assert client.delete("x") == 1
        service.answer = b"\x89PNG"
        assert client.picture("/v1/items/x/views/0?v=ab") == b"\x89PNG"
        service.answer = {"version": "0.1.0", "bundle": {"name": "furniture"}}
        assert client.info() == service.answer
    assert [(r.method, r.url.raw_path) for r in service.asked] == [
        ("GET", b"/v1/items/x"),
        ("DELETE", b"/v1/items/x"),
        ("GET", b"/v1/items/x/views/0?v=ab"),
        ("GET", b"/v1/info"),
    ]


@pytest.mark.parametrize("url", ["http://elsewhere/x", "//elsewhere/x", "x"])
def test_the_key_is_never_shown_to_another_house(url: str) -> None:
    service = Service(b"")
    with service.client(api_key="secret") as client:
        with pytest.raises(MultifoldError, match="not the url of an observation"):
            client.picture(url)
        assert not service.asked
        client.picture("/v1/items/x/photos/0")
    assert service.asked[0].headers["authorization"] == "Bearer secret"
    assert service.asked[0].url.host == "house"


def test_a_service_may_live_below_a_path() -> None:
    service = Service(SEARCHED)
    with Client("http://house/multifold/", transport=httpx.MockTransport(service)) as client:
        client.search(text="a chair")
        client.picture("/v1/items/x/views/0")
    assert [request.url.path for request in service.asked] == [
        "/multifold/v1/search",
        "/multifold/v1/items/x/views/0",
    ]


@pytest.mark.parametrize("id", ["...", ".x", "a b", "%2F", "/", "ü", "a?b#c", "x" * 512])
def test_every_id_is_one_segment_of_the_path(id: str) -> None:  # noqa: A002
    service = Service({"removed": 0})
    with service.client() as client:
        assert client.delete(id) == 0
    raw = service.asked[0].url.raw_path
    assert raw.startswith(b"/v1/items/")
    assert raw.count(b"/") == 3
    assert httpx.URL(f"http://house/{raw[10:].decode()}").path == f"/{id}"


@pytest.mark.parametrize("id", ["", ".", ".."])
def test_an_id_that_an_address_would_lose_is_refused(id: str) -> None:  # noqa: A002
    service = Service({"removed": 1})
    with service.client() as client, pytest.raises(MultifoldError, match="cannot hold the id"):
        client.delete(id)
    assert not service.asked


def test_errors_of_the_service_keep_code_status_and_sentence() -> None:
    error = {"code": "bad_image", "message": "the picture is cut short", "request_id": "r1"}
    with Service({"error": error}, 422).client() as client, pytest.raises(ServiceError) as caught:
        client.search(image=b"x")
    told = caught.value
    assert (told.code, told.status, told.request_id) == ("bad_image", 422, "r1")
    assert str(told) == told.message == "the picture is cut short"


@pytest.mark.parametrize(
    "answer", [b"<html>Bad Gateway</html>", b"", {"detail": "x"}, {"error": "x"}, ["error"]]
)
def test_errors_of_a_proxy_are_told_too(answer: object) -> None:
    with (
        Service(answer, 502).client() as client,
        pytest.raises(ServiceError, match="502 Bad Gateway") as caught,
    ):
        client.search(text="a chair")
    assert (caught.value.code, caught.value.status) == ("http_502", 502)


@pytest.mark.parametrize(
    "answer", [b"<html>hello</html>", {}, [], {"hits": 3}, {"hits": [{}]}, {**SEARCHED, "took_ms": None}]
)
def test_another_kind_of_service_is_recognised(answer: object) -> None:
    with Service(answer).client() as client, pytest.raises(ServiceError, match="Multifold service") as caught:
        client.search(text="a chair")
    assert caught.value.code == "bad_answer"


def failing(error: Exception) -> Callable[[httpx.Request], httpx.Response]:
    def answer(request: httpx.Request) -> httpx.Response:
        raise error

    return answer


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (httpx.ConnectError("refused"), "unreachable"),
        (httpx.ReadTimeout("slow"), "timeout"),
        (httpx.RemoteProtocolError("gone"), "unreachable"),
    ],
)
def test_a_service_that_is_away_is_a_sentence(error: Exception, code: str) -> None:
    client = Client("http://house:8000", transport=httpx.MockTransport(failing(error)))
    with client:
        assert not client.ready()
        with pytest.raises(ServiceError, match="http://house:8000") as caught:
            client.search(text="a chair")
    assert (caught.value.code, caught.value.status) == (code, None)


def test_ready_is_yes_or_no() -> None:
    service = Service({"status": "ok"})
    with service.client() as client:
        assert client.ready()
        service.status = 503
        assert not client.ready()
    assert service.asked[0].url.path == "/readyz"


def test_bad_addresses_and_missing_files_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="no address of a service"):
        Client("http://house:port")
    with Client("house") as client, pytest.raises(ServiceError, match="cannot be reached"):
        client.info()
    with Service().client() as client, pytest.raises(MultifoldError, match=r"cannot read .*gone\.png"):
        client.search(image=tmp_path / "gone.png")
    with Service().client() as client, pytest.raises(MultifoldError, match="8 or 16 bits"):
        client.search(image=Image.new("F", (8, 8)))


def test_a_picture_in_memory_arrives_as_it_is_seen() -> None:
    """Transparency becomes white before it travels, as it would on arrival."""
    service = Service(SEARCHED)
    glass = Image.new("RGBA", (8, 8), (255, 0, 0, 0))
    with service.client() as client:
        client.search(image=glass)
    assert Image.open(io.BytesIO(service.form[0][2])).getpixel((0, 0)) == (255, 255, 255)
