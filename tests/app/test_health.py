"""Alive, ready, and what the service says of itself."""

from pathlib import Path

import pytest

from index.store.store import Store
from multifold.bundle.canary import CANARY_FILE
from tests.app.house import House, house


def test_alive(shop: House) -> None:
    assert shop.client.get("/healthz").json() == {"status": "ok"}


def test_ready(shop: House) -> None:
    assert shop.client.get("/readyz").json() == {"status": "ok"}


def test_info_says_what_runs_here(shop: House) -> None:
    info = shop.client.get("/v1/info").json()
    about = {"version", "bundle", "collection", "feedback", "fetches", "in_place", "limits", "folder", "keys"}
    assert set(info) == about
    assert info["bundle"]["name"] == "tiny"
    assert info["bundle"]["vector_id"] == shop.service.encoder.vector_id
    assert info["collection"]["items"] == 4
    assert info["collection"]["observations"] == {"caption": 8, "photo": 4, "view": 24}
    assert info["limits"]["body_bytes"] == 16 * 1024 * 1024
    assert info["limits"]["text_tokens"] == 12


@pytest.mark.parametrize("path", ["/healthz", "/nothing", "/", "/web/app.js", "/v1/items/red-box/views/0"])
def test_every_answer_has_safe_headers_and_an_id(shop: House, path: str) -> None:
    headers = shop.client.get(path).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert len(headers["x-request-id"]) == 32
    assert headers["x-request-id"] != shop.client.get(path).headers["x-request-id"]
    assert "access-control-allow-origin" not in headers


def test_an_empty_collection_is_ready_and_finds_nothing(tmp_path: Path, bundle: Path) -> None:
    with house(tmp_path, bundle) as empty:
        assert empty.client.get("/readyz").status_code == 200
        assert empty.search(text="a red box").json()["hits"] == []


def test_an_encoder_that_answers_otherwise_is_not_ready(tmp_path: Path, bundle: Path) -> None:
    with house(tmp_path, bundle) as ours:
        canaries = bundle / CANARY_FILE
        kept = canaries.read_bytes()
        try:
            canaries.write_bytes(b"something else")
            response = ours.client.get("/readyz")
            assert response.status_code == 503
            assert response.json()["error"]["code"] == "not_ready"
            assert "holds no canaries" in response.json()["error"]["message"]
        finally:
            canaries.write_bytes(kept)
        assert ours.client.get("/readyz").status_code == 200


def test_a_search_that_loses_a_known_item_is_not_ready(tmp_path: Path, bundle: Path) -> None:
    with house(tmp_path, bundle) as ours:
        ours.client.put("/v1/items/a", files={"texts": (None, "a red box")})
        ours.service.collection._derived._engines.clear()
        response = ours.client.get("/readyz")
        assert response.status_code == 503
        assert "is not found" in response.json()["error"]["message"]


def test_an_item_that_is_being_written_need_not_be_found_yet(
    tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with house(tmp_path, bundle) as ours:
        follow, answered = ours.service.collection._derived.follow, []

        def late(store: Store) -> None:
            answered.append(ours.client.get("/readyz").status_code)
            follow(store)

        monkeypatch.setattr(ours.service.collection._derived, "follow", late)
        assert ours.client.put("/v1/items/a", files={"texts": (None, "a red box")}).status_code == 200
        assert answered == [200]


def test_what_nobody_caught_is_a_500_without_secrets(shop: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the password is sesame")

    monkeypatch.setattr(type(shop.service.collection), "search_many", broken)
    response = shop.search(text="a red box")
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "internal"
    assert "sesame" not in response.text
    assert response.headers["x-content-type-options"] == "nosniff"
    monkeypatch.undo()
    assert shop.best(text="a red box") == "red-box"
