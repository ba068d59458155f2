"""What a search on a shared index sees: what is indexed, what its client wrote, or all that is stored."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.search import search as app_search
from index.cluster import cluster_engines
from multifold.client import Client
from tests.app.answers import refused
from tests.app.house import House, house
from tests.index.clusters import embedded
from tests.waiting import until

ASKED: dict[str, Any] = {"text": "a red box", "target": "text"}


@pytest.fixture
def shop(tmp_path: Path, bundle: Path) -> Iterator[House]:
    with house(tmp_path, bundle, milvus=embedded().cluster.uri) as opened:
        yield opened


@pytest.fixture
def nobody_feeds(shop: House, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """All that is written from now on is not indexed until this is undone."""
    monkeypatch.setattr(cluster_engines.ClusterEngineSet, "follow", lambda engines: engines.look())
    return monkeypatch


def found(shop: House, **how: Any) -> list[str]:  # noqa: ANN401 (any JSON)
    response = shop.search(**ASKED | how)
    assert response.status_code == 200, response.text
    return [hit["id"] for hit in response.json()["hits"]]


def test_a_search_takes_what_is_indexed_and_a_strong_one_all_that_is_stored(
    shop: House, nobody_feeds: pytest.MonkeyPatch
) -> None:
    shop.fill("red")
    assert found(shop) == []
    assert found(shop, consistency="bounded") == []
    until(lambda: shop.service.collection.behind() > 0)
    assert shop.client.get("/v1/info").json()["collection"]["behind"] > 0
    assert "multifold_behind_seconds" in shop.client.get("/metrics").text
    assert found(shop, consistency="strong") == ["red-box"]
    assert found(shop) == ["red-box"]
    until(lambda: shop.service.collection.behind() == 0)


def test_a_session_sees_what_it_wrote(shop: House, nobody_feeds: pytest.MonkeyPatch) -> None:
    nobody_feeds.setattr(app_search, "SEEN_SECONDS", 0.1)
    with Client(shop.url) as client:
        client.upsert("red-box", texts=["a red box"])
        answer = shop.search(**ASKED, consistency="session", seen=1)
        refused(answer, 503, "index_behind", "version 1")
        assert found(shop, consistency="session") == []  # it has written nothing
        nobody_feeds.undo()
        for search in (client.search(consistency="session", **ASKED), client.search(seen=1, **ASKED)):
            assert [hit.id for hit in search.hits] == ["red-box"]
        changed = client.update_many(["red-box"], payload={"price": 3})
        assert changed == 1
        hit = client.search(consistency="session", **ASKED).hits[0]
        assert hit.payload == {"price": 3}
        first = client.search(consistency="session", limit=1, **ASKED)
        client.upsert("blue-box", texts=["a blue box"])
        rest = client.search(consistency="session", limit=1, after=first.next, **ASKED)  # of the same search
        assert [hit.id for hit in (*first.hits, *rest.hits)] == ["red-box", "blue-box"]


def test_one_machine_sees_all_whatever_is_asked(tmp_path: Path, bundle: Path) -> None:
    with house(tmp_path, bundle, consistency="session") as shop:
        shop.fill("red")
        for consistency in ("bounded", "session", "strong"):
            assert found(shop, consistency=consistency, seen=1000) == ["red-box"]
