"""Errors have one shape, and a status that says whose fault they are."""

import os

import pytest

from app.errors import CODES, ERRORS, STATUSES, ApiError, refusal, status_and_code
from index.store.database import StoreError
from index.store.store import Store
from multifold.errors import MultifoldError
from multifold.wire.messages import BodyError
from tests.app.answers import refused
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


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/search"), ("POST", "/healthz"), ("PATCH", "/v1/search")]
)
def test_what_is_not_possible_is_said(shop: House, method: str, path: str) -> None:
    response = shop.client.request(method, path)
    refused(response, 405, "method_not_allowed", "is not possible")
    assert response.headers["allow"]


def test_a_full_disk_is_nobodys_fault_and_changes_nothing(
    shop: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    picture, version = {"images": png("green")}, shop.service.collection.version
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        response = shop.client.put("/v1/items/late", files=picture)
        refused(response, 503, "storage", "No space left on device")
        assert response.headers["retry-after"] == "1"
    assert shop.client.get("/v1/items/late").status_code == 404
    assert shop.service.collection.version == version
    assert shop.client.put("/v1/items/late", files=picture).status_code == 200
    assert shop.client.delete("/v1/items/late").status_code == 200


def test_a_store_that_fails_is_nobodys_fault(shop: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise StoreError("The store failed: database or disk is full.")

    monkeypatch.setattr(Store, "upsert", fails)
    refused(shop.put("late", "green"), 503, "storage", "disk is full")
    monkeypatch.undo()
    assert shop.client.get("/v1/items/late").status_code == 404
