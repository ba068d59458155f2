"""A route of a collection has two addresses: one with a name, and a short one for the default collection."""

import pytest

from tests.app.answers import refused
from tests.app.house import House

NAMED = "/v1/collections/default"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/items/red-box", 200),
        ("GET", "/items/red-box/photos/7", 404),
        ("GET", "/items/red-box/photos/red", 404),
        ("POST", "/search", 415),
        ("GET", "/search", 405),
        ("PUT", "/facets", 405),
        ("GET", "/models/", 307),
        ("GET", "/nowhere", 404),
    ],
)
def test_both_addresses_answer_the_same(shop: House, method: str, path: str, status: int) -> None:
    named, short = (
        shop.client.request(method, f"{begin}{path}", headers={"x-request-id": "same"})
        for begin in (NAMED, "/v1")
    )
    assert (named.status_code, short.status_code) == (status, status)
    assert named.text.replace(NAMED, "/v1") == short.text
    for header in ("allow", "location"):
        assert named.headers.get(header, "").replace(NAMED, "/v1") == short.headers.get(header, "")


@pytest.mark.parametrize("begin", ["/v1", NAMED])
def test_an_id_may_look_like_an_address(shop: House, begin: str) -> None:
    for name in ("collections/other/items/red-box", "items/red-box"):
        refused(shop.client.get(f"{begin}/items/{name}"), 404, "not_found", repr(name))


def test_a_collection_that_is_not_there_is_named(shop: House) -> None:
    refused(shop.client.get("/v1/collections/other/models"), 404, "no_such_collection", "'other'")
