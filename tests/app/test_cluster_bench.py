"""The benchmark of services that share a database and Milvus, on a small collection."""

import argparse
from pathlib import Path

import pytest

from benches.service import cluster
from multifold.bundle.canary import open_encoder
from multifold.errors import MultifoldError
from tests.index.clusters import MilvusServer
from tests.index.servers import Server

FIGURES = len(cluster.COLUMNS)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "TOGETHER", 100)
    monkeypatch.setattr(cluster, "CHANGES", 5)
    monkeypatch.setattr(cluster, "FITTED", 16)


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    cluster.add_arguments(parser)
    return cluster.run(parser.parse_args(words))


def measured(capsys: pytest.CaptureFixture[str], *words: str) -> dict[tuple[str, ...], list[str]]:
    """The rows of loads by services, search and clients."""
    assert run("--items", "300", "--seconds", "0.5", *words) == 0
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    return {tuple(row[:3]): row[3:] for row in rows if len(row) == FIGURES and row[0].isdigit()}


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_one_service_alone(tmp_path: Path, bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--bundle", str(bundle), "--data", str(tmp_path / "data"), "--services", "1"]
    rows = measured(capsys, *place, "--clients", "1", "2")
    assert set(rows) == {("1", name, clients) for name in cluster.SEARCHES for clients in ("1", "2")}
    assert {row[-1] for row in rows.values()} == {"1.000", "–"}
    again = measured(capsys, *place, "--clients", "1", "--searches", "exact", "--parts", "search")
    assert set(again) == {("1", "exact", "1")}


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_two_services_share_it(
    bundle: Path, server: Server, milvus: MilvusServer, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["--bundle", str(bundle), "--database", server.place(), "--milvus", milvus.cluster.uri]
    rows = measured(capsys, *place, "--clients", "2")
    assert set(rows) == {(count, name, "2") for name in cluster.SEARCHES for count in "12"}
    assert {row[-1] for row in rows.values()} == {"1.000", "–"}


def test_services_do_not_share_a_folder(bundle: Path) -> None:
    with pytest.raises(MultifoldError, match="share a --database"):
        run("--bundle", str(bundle))


def test_items_are_the_same_whoever_asks(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "TOGETHER", 50)
    encoder = open_encoder(bundle)
    one, other = (cluster.PhotoWorld(encoder, 120) for _ in range(2))
    (first, *_), (again, *_) = one.items(50, 50), other.items(50, 50)
    assert first.id == again.id == "item-50"
    assert (first.observations[0].feature == again.observations[0].feature).all()
    assert one.truth(1.0) == other.truth(1.0)


def test_what_is_nearest_passes_the_filter(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one by one comparison finds it."""
    monkeypatch.setattr(cluster, "TOGETHER", 50)
    encoder = open_encoder(bundle)
    world = cluster.PhotoWorld(encoder, 120)
    items = [item for first, count in ((0, 50), (50, 50), (100, 20)) for item in world.items(first, count)]
    passing = [item for item in items if item.payload["place"] < 0.5]
    for query, nearest in list(zip(world.queries(), world.truth(0.5), strict=False))[:5]:
        scores = {
            item.id: float(encoder.vectors(item.observations[0].feature[None])[0] @ query) for item in passing
        }
        assert nearest == set(sorted(scores, key=scores.__getitem__)[-cluster.LIMIT :])
