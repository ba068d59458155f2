"""Connections to a service: addresses, keys, and a sentence for every failure."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from multifold.client import AsyncClient, Client, ServiceError
from multifold.errors import MultifoldError
from tests.kernel.client.service import URL, Service, both

ERROR = {"code": "bad_image", "message": "the picture is cut short", "request_id": "r1"}
HITS: dict[str, Any] = {
    "hits": [],
    "took_ms": {"encode": 5, "search": 0.5, "total": 5.5},
    "version": 12,
    "bundle": "furniture",
}


def test_errors_of_the_service_keep_code_status_and_sentence() -> None:
    for error in both(Service({"error": ERROR}, 422), lambda client: client.search(image=b"x")):
        assert isinstance(error, ServiceError)
        assert (error.code, error.status, error.request_id) == ("bad_image", 422, "r1")
        assert str(error) == error.message == ERROR["message"]


@pytest.mark.parametrize(
    "answer", [b"<html>Bad Gateway</html>", b"", {"detail": "x"}, {"error": "x"}, ["error"]]
)
def test_errors_of_a_proxy_are_errors_too(answer: object) -> None:
    for error in both(Service(answer, 502), lambda client: client.get("x")):
        assert isinstance(error, ServiceError)
        assert (error.code, error.status) == ("http_502", 502)
        assert "502 Bad Gateway" in error.message


@pytest.mark.parametrize(
    "answer", [b"<html>hello</html>", {}, [], {"hits": 3}, {"hits": [{}]}, {**HITS, "took_ms": None}]
)
def test_another_kind_of_service_is_recognised(answer: object) -> None:
    for error in both(Service(answer), lambda client: client.search(text="a chair")):
        assert isinstance(error, ServiceError)
        assert (error.code, "a Multifold service" in error.message) == ("bad_answer", True)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (httpx.ConnectError("refused"), "unreachable"),
        (httpx.ReadTimeout("slow"), "timeout"),
        (httpx.RemoteProtocolError("gone"), "unreachable"),
    ],
)
def test_a_service_that_is_away_is_a_sentence(error: Exception, code: str) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise error

    with Client(URL, transport=httpx.MockTransport(fail)) as client:
        assert not client.ready()
        with pytest.raises(ServiceError, match=URL) as caught:
            client.search(text="a chair")
    assert (caught.value.code, caught.value.status) == (code, None)


def test_bad_addresses_are_sentences() -> None:
    for kind in (Client, AsyncClient):
        with pytest.raises(ServiceError, match="no address of a service"):
            kind("http://house:port")
    with Client("house") as client, pytest.raises(ServiceError, match="cannot be reached"):
        client.info()


def test_a_key_and_a_collection_can_be_others() -> None:
    service = Service({"count": 3})
    asks: tuple[Callable[[Any], Any], ...] = (
        lambda client: client.count(),
        lambda client: client.with_key("second").collection("shop").count(),
        lambda client: client.with_key(None).count(),
    )
    for ask in asks:
        assert both(service, ask, api_key="first") == [3, 3]
    sent = [(one.headers.get("authorization"), one.url.path) for one in service.asked]
    plain, shop = "/v1/items/count", "/v1/collections/shop/items/count"
    assert sent[::2] == sent[1::2] == [("Bearer first", plain), ("Bearer second", shop), (None, plain)]


def test_a_service_may_be_below_a_path() -> None:
    service = Service(HITS)
    with Client("http://house/multifold/", transport=httpx.MockTransport(service)) as client:
        client.search(text="a chair")
        client.picture("/v1/items/x/views/0")
    assert [one.url.path for one in service.asked] == [
        "/multifold/v1/search",
        "/multifold/v1/items/x/views/0",
    ]


@pytest.mark.parametrize("url", ["http://elsewhere/x", "//elsewhere/x", "x"])
def test_no_other_host_gets_the_key(url: str) -> None:
    service = Service(b"")
    with service.client(api_key="secret") as client:
        with pytest.raises(MultifoldError, match="not the url of an observation"):
            client.picture(url)
        assert not service.asked
        client.picture("/v1/items/x/photos/0")
    assert (service.asked[0].headers["authorization"], service.asked[0].url.host) == (
        "Bearer secret",
        "house",
    )


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
