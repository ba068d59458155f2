"""Errors have one shape, and a status that says whose fault they are."""

import os
from collections.abc import Callable

import pytest

from app.errors import CODES, ERRORS, STATUSES, ApiError, refusal, status_and_code
from index.maintenance.archive import ArchiveWriter
from index.store.database import StoreError
from index.store.store import Store
from multifold.errors import MultifoldError
from multifold.wire.messages import BodyError
from tests.app.answers import refused, uri
from tests.app.house import House, png


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ApiError(404, "not_found", "nothing"), 404, "not_found"),
        (BodyError("no_query", "nothing"), 422, "no_query"),
        (StoreError("nothing"), 503, "storage"),
        (MultifoldError("nothing"), 422, "refused"),
    ],
)
def test_every_error_has_a_status_and_a_code(error: MultifoldError, status: int, code: str) -> None:
    assert status_and_code(error) == (status, code)
    assert (refusal(error).code, refusal(error).message) == (code, "nothing")


def test_every_code_is_described() -> None:
    assert {code for _, code in ERRORS.values()} | {code for code, _ in STATUSES.values()} <= set(CODES)


@pytest.mark.parametrize(
    "path",
    [
        *("/nothing", "/v1", "/v1/nothing", "/web/nothing.js", "/web/../main.py", "/redoc"),
        *("/v1/items/none", "/v1/items/red-box/photos/1", "/v1/items/red-box/views/6"),
        *("/v1/items/red-box/views/x", "/v1/items/red-box/views/-1"),
    ],
)
def test_what_is_not_there_is_not_found(shop: House, path: str) -> None:
    refused(shop.client.get(path), 404, "not_found")


def test_what_is_not_possible_is_said(shop: House) -> None:
    for method, path in (("GET", "/v1/search"), ("POST", "/healthz"), ("PATCH", "/v1/search")):
        response = shop.client.request(method, path)
        refused(response, 405, "method_not_allowed", "is not possible")
        assert response.headers["allow"]


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def fails(*_: object) -> None:
    raise StoreError("The store failed: No space left in the database.")


@pytest.mark.parametrize(
    ("where", "what", "does"),
    [(os, "fsync", full), (Store, "upsert", fails), (ArchiveWriter, "add_bytes", full)],
)
def test_a_full_disk_is_nobodys_fault_and_changes_nothing(
    shop: House, monkeypatch: pytest.MonkeyPatch, where: object, what: str, does: Callable[..., None]
) -> None:
    picture, version = png("green"), shop.service.collection.version
    items = [{"id": f"late-{n}", "images": [uri(picture)]} for n in range(3)]
    with monkeypatch.context() as patched:
        patched.setattr(where, what, does)
        if where is ArchiveWriter:
            answers = [shop.client.post("/v1/snapshots")]
        else:
            answers = [
                shop.client.put("/v1/items/late", files={"images": picture}),
                shop.client.post("/v1/items", json={"items": items}),
            ]
            mixed = shop.client.post("/v1/items", json={"items": [*items, {"id": "no texts"}]})
            assert mixed.status_code == 422  # one of them was refused for what it is
            assert [one["error"]["code"] for one in mixed.json()["results"]] == ["storage"] * 3 + ["bad_item"]
        for response in answers:
            refused(response, 503, "storage", "No space left")
            assert response.headers["retry-after"] == "1"
    assert shop.client.get("/v1/items/late").status_code == 404
    assert shop.service.collection.version == version
    assert shop.client.put("/v1/items/late", files={"images": picture}).status_code == 200
    assert shop.client.delete("/v1/items/late").status_code == 200
