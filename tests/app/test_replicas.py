"""Several services on one database: what one writes, the others find."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.app.house import House, house
from tests.index.servers import Server


@pytest.fixture
def replicas(server: Server, tmp_path: Path, bundle: Path) -> Iterator[tuple[House, House]]:
    """Two services that share a database, and a folder for the pictures."""
    place = server.place()
    with (
        house(tmp_path, bundle, database=place) as one,
        house(tmp_path, bundle, database=place) as other,
    ):
        yield one, other


def test_what_one_writes_the_other_finds(replicas: tuple[House, House]) -> None:
    one, other = replicas
    one.put("red-box", "red")
    other.put("blue-box", "blue")
    for service in replicas:
        assert service.best(text="a red box", target="text") == "red-box"
        assert service.best(text="a blue box", target="text") == "blue-box"
    hit = other.search(text="a red box", target="shape").json()["hits"][0]
    assert other.client.get(hit["matched"]["url"]).status_code == 200
    assert other.client.delete("/v1/items/red-box").json() == {"removed": 1}
    assert [hit["id"] for hit in one.search(text="a red box", target="text").json()["hits"]] == ["blue-box"]


def test_both_write_at_once(replicas: tuple[House, House]) -> None:
    def write(number: int) -> int:
        texts = {"texts": (None, f"box number {number}")}
        return replicas[number % 2].client.put(f"/v1/items/{number}", files=texts).status_code

    with ThreadPoolExecutor(4) as writers:
        assert set(writers.map(write, range(20))) == {200}
    for service in replicas:
        assert service.client.post("/v1/items/count", json={}).json()["count"] == 20
        assert len(service.search(text="box", target="text", limit=50).json()["hits"]) == 20


def test_the_address_is_told_to_nobody(replicas: tuple[House, House], server: Server) -> None:
    assert str(server.folder) not in replicas[0].client.get("/v1/info").text
    assert str(server.folder) not in repr(replicas[0].service.settings)
