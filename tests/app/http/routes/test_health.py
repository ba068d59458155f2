"""Alive, and ready: the encoder answers its canaries, and a known item is found."""

from pathlib import Path

import pytest

from index.collection import Collection
from index.engine_set.engine_set import EngineSet
from multifold.bundle.canary import CANARY_FILE
from tests.app.answers import refused
from tests.app.house import House, house


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_service_is_alive_and_ready(shop: House, path: str) -> None:
    assert shop.client.get(path).json() == {"status": "ok"}


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
            refused(ours.client.get("/readyz"), 503, "not_ready", "holds no canaries")
        finally:
            canaries.write_bytes(kept)
        assert ours.client.get("/readyz").status_code == 200


def test_a_search_that_loses_a_known_item_is_not_ready(
    tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with house(tmp_path, bundle) as ours:
        ours.client.put("/v1/items/a", files={"texts": (None, "a red box")})
        monkeypatch.setattr(Collection, "search_many", lambda _, requests: [[] for _ in requests])
        refused(ours.client.get("/readyz"), 503, "not_ready", "is not found")


def test_an_item_that_is_being_written_need_not_be_found_yet(
    tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow, answered = EngineSet.follow, list[int]()
    with house(tmp_path, bundle) as ours:

        def late(engines: EngineSet) -> None:
            answered.append(ours.client.get("/readyz").status_code)
            follow(engines)

        monkeypatch.setattr(EngineSet, "follow", late)
        assert ours.client.put("/v1/items/a", files={"texts": (None, "a red box")}).status_code == 200
        assert answered == [200]
