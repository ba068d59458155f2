"""The key that a user of the page enters: kept in a cookie that no script and no other page can use."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.app.house import House, house, png
from tests.waiting import PATIENCE

READ, WRITE = "read-key-0123456789", "write-key-0123456789"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory, bundle: Path) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("locked"), bundle, keys=f"read:{READ},write:{WRITE}") as opened:
        opened.client.put(
            "/v1/items/a", files={"images": ("p.png", png("red"))}, headers={"x-api-key": WRITE}
        )
        yield opened


@pytest.fixture
def visitor(locked: House) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=locked.url, trust_env=False, timeout=PATIENCE) as client:
        yield client


def test_a_key_is_kept_in_a_cookie_until_it_is_left(visitor: httpx.Client) -> None:
    assert visitor.get("/v1/items/a/photos/0").status_code == 401
    entered = visitor.post("/v1/session", json={"key": READ})
    assert entered.json() == {"key": "read-1", "scope": "read"}
    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "expires" not in cookie
    assert visitor.get("/v1/items/a/photos/0").status_code == 200
    assert visitor.delete("/v1/items/a").status_code == 403  # the key may read
    assert visitor.delete("/v1/session").status_code == 200
    assert visitor.get("/v1/items/a/photos/0").status_code == 401


def test_an_unknown_key_is_refused(visitor: httpx.Client) -> None:
    assert visitor.post("/v1/session", json={"key": "guessed-key-012345"}).status_code == 401
    assert not visitor.cookies
    assert visitor.get("/v1/info").status_code == 401


def test_no_other_page_can_use_it(visitor: httpx.Client) -> None:
    visitor.post("/v1/session", json={"key": WRITE})
    patch = {"payload": {"tags": ["x"]}}
    for headers in (
        {"origin": "http://127.0.0.1:1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ):
        assert visitor.patch("/v1/items/a", json=patch, headers=headers).status_code == 401
        assert visitor.post("/v1/session", json={"key": READ}, headers=headers).status_code == 403
    assert (
        visitor.patch(
            "/v1/items/a", json=patch, headers={"origin": str(visitor.base_url).rstrip("/")}
        ).status_code
        == 200
    )


def test_the_page_is_told_whether_keys_are_wanted(visitor: httpx.Client, shop: House) -> None:
    assert visitor.get("/v1/info", headers={"x-api-key": READ}).json()["keys"] is True
    assert shop.client.get("/v1/info").json()["keys"] is False
