"""The engine on a real Milvus server, and what happens when that goes away."""

import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index.cluster import milvus_engine
from index.cluster.contracts import ClusterError
from index.cluster.milvus_connection import GRAPH, MilvusConnection
from index.cluster.milvus_engine import MilvusEngine
from index.cluster.payload_fields import condition_of, tokens_of
from index.collection import Collection
from index.contracts import MILVUS_TYPES, NO_ROW
from index.store.filters import parse_filter
from index.store.item_rows import facts_of
from multifold.types import Item, Vectors
from tests.index.clusters import MilvusServer, milvus_of
from tests.index.engines.test_engines import compare, exactly
from tests.index.filtering import lets_through
from tests.index.servers import Server
from tests.index.spaces import SPACE, Sphere
from tests.index.things import answers, brute, caption, feature, query, thing, view
from tests.waiting import until

pytestmark = pytest.mark.slow

ASKED = query(feature(1, 2, -1), limit=50)


def test_against_a_dict(milvus: MilvusServer) -> None:
    link = MilvusConnection(milvus.cluster)
    for metric in ("ip", "l2"):
        compare(partial(milvus_of, link=link), metric, exactly, examples=2)


def test_a_graph_narrows_and_its_limits_are_met(milvus: MilvusServer) -> None:
    """20,000 rows: more than one call may carry or find, and a graph over them."""
    rng, count, dim = np.random.default_rng(0), 20_000, 32
    rows = rng.standard_normal((count, dim)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    ids = np.arange(count) * 3
    ended = set(rng.choice(ids, 500, replace=False).tolist())
    engine = MilvusEngine(
        dim,
        "ip",
        MilvusConnection(milvus.cluster),
        "rows",
        lambda some: np.array([int(n) not in ended for n in some]),
    )
    engine.put(ids, rows)
    engine.put(ids, rows)  # as one does who was stopped halfway
    assert engine.count() == count
    assert MilvusConnection(milvus.cluster).find("rows") == GRAPH
    queries = rows[:8] + 0.05 * rng.standard_normal((8, dim)).astype(np.float32)
    living = np.array([int(n) not in ended for n in ids])
    for allowed in (None, ids[::2], ids[:18_000], ids[:2000], ids[5:30]):
        chosen = living if allowed is None else living & np.isin(ids, allowed)
        scores = np.where(chosen, queries @ rows.T, -np.inf)
        true = np.sort(scores, axis=1)[:, -10:]
        found, answer = engine.search(queries, 10, allowed)
        assert np.isin(answer, ids[chosen]).all()
        assert np.mean(found >= true[:, :1] - 1e-6) > 0.95
        exact, _ = engine.search(queries, 10, allowed, exact=True)
        assert exact == pytest.approx(true[:, ::-1], abs=1e-6)
    everything, answer = engine.search(queries[:1], count)
    assert np.count_nonzero(answer != NO_ROW) == living.sum()
    assert (np.diff(everything[0][: living.sum()]) <= 0).all()
    engine.drop()


def hard(count: int, seed: int) -> tuple[Vectors, Vectors]:
    """Rows of unit length, and queries that lie apart from them, as captions lie apart from pictures."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((count, 64)).astype(np.float32)
    gap = np.zeros(64, np.float32)
    gap[:8] = 3
    queries = rows[:256] + 0.7 * rng.standard_normal((256, 64)).astype(np.float32) + gap
    return tuple(one / np.linalg.norm(one, axis=1, keepdims=True) for one in (rows, queries))


def test_a_graph_looks_as_far_as_the_recall_needs_that_is_wanted(milvus: MilvusServer) -> None:
    rows, queries = hard(20_000, 0)
    engine = MilvusEngine(64, "ip", MilvusConnection(milvus.cluster), "hard")
    engine.put(np.arange(len(rows)), rows)
    true = np.sort(queries @ rows.T, axis=1)[:, -10:]
    efforts = []
    for target in (0.7, 0.99):
        assert engine.measurable()
        measured = engine.measure(queries[:128], target, lambda: False)
        assert (measured.rows, measured.probes) == (20_000, 128)
        assert min(one.recall for one in measured.settings) >= target
        engine.measured = measured
        found, _ = engine.search(queries[128:], 10)
        assert np.mean(found >= true[128:, :1] - 1e-6) > target - 0.03
        efforts.append(measured.settings[0].effort)
    assert efforts[0] <= efforts[1]
    engine.drop()


@pytest.mark.parametrize("kind", [kind for kind in MILVUS_TYPES if kind != "DISKANN"])  # it builds none
def test_a_type_of_index_is_wanted(milvus: MilvusServer, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, queries = hard(6000, 2)
    link, name = MilvusConnection(milvus.cluster), f"wanted_{kind}"
    engine = MilvusEngine(64, "ip", link, name, wanted=kind)
    engine.put(np.arange(len(rows)), rows)
    assert link.find(name) == kind
    assert engine.measurable() == (kind != "FLAT")
    if engine.measurable():
        engine.measured = engine.measure(queries[:128], 0.99, lambda: False)
        assert engine.measured.type == f"{kind} in Milvus"
        assert min(one.recall for one in engine.measured.settings) >= 0.99
    for allowed in (None, np.arange(0, 6000, 3)):
        scores = queries[128:144] @ (rows if allowed is None else rows[allowed]).T
        true = np.sort(scores, axis=1)[:, -10:]
        found, ids = engine.search(queries[128:144], 10, allowed)
        assert np.mean(found >= true[:, :1] - 1e-6) > 0.95
        assert allowed is None or np.isin(ids, allowed).all()
        with monkeypatch.context() as watched:
            if kind != "IVF_SQ8":  # codes say too little
                watched.setattr(MilvusConnection, "query", lambda *_, **__: pytest.fail("rows are fetched"))
            exact, _ = engine.search(queries[128:144], 10, allowed, exact=True)
        assert exact == pytest.approx(true[:, ::-1], abs=1e-6)
    engine.drop()


def test_filters_are_fields(milvus: MilvusServer, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, queries = hard(20_000, 3)
    payloads = [{"n": n % 1000, "tags": [f"t{n % 7}", f"u{n % 11}"]} for n in range(len(rows))]
    engine = MilvusEngine(64, "ip", MilvusConnection(milvus.cluster), "filtered")
    engine.put(np.arange(len(rows)), rows, [tokens_of(facts_of(payload)) for payload in payloads])
    asked, search = list[str](), MilvusConnection.search

    def heard(link: MilvusConnection, *arguments: Any, **how: Any) -> Any:  # noqa: ANN401
        asked.append(how["filter"])
        return search(link, *arguments, **how)

    monkeypatch.setattr(MilvusConnection, "search", heard)
    monkeypatch.setattr(milvus_engine, "LISTED", 0)
    for where in (
        {"tags": "t3"},
        {"n": {"gte": 100, "lt": 190}},
        {"tags": {"in": ["t1", "u2"]}, "not": {"tags": {"in": ["t3", "u3", "u4"]}}},
        {"or": [{"n": {"lt": 30}}, {"tags": "t5", "n": {"gt": 800}}]},
    ):
        passing = np.array([lets_through(where, payload) for payload in payloads])
        allowed, narrowed = np.flatnonzero(passing), engine.narrowed(condition_of(parse_filter(where)))
        true = np.sort(queries[:16] @ rows[allowed].T, axis=1)[:, -10:]
        found, ids = narrowed.search(queries[:16], 10, allowed)
        assert np.mean(found >= true[:, :1] - 1e-6) > 0.95
        assert passing[ids].all()
        exact, _ = narrowed.search(queries[:16], 10, allowed, exact=True)
        assert exact == pytest.approx(true[:, ::-1], abs=1e-6)
    assert not any("row in" in one for one in asked)
    assert any("array_contains_any" in one for one in asked)
    engine.drop()


def test_the_threads_of_an_exact_search_see_what_their_caller_sees(milvus: MilvusServer) -> None:
    """The version of a reader is that of its thread."""
    rows, queries = hard(6000, 2)
    readers = list[int]()
    link = MilvusConnection(milvus.cluster)
    engine = MilvusEngine(64, "ip", link, "read", as_of=lambda: readers.append(threading.get_ident()))
    engine.put(np.arange(len(rows)), rows)
    exact, _ = engine.search(queries[:4], 10, exact=True)
    assert exact == pytest.approx(np.sort(queries[:4] @ rows.T, axis=1)[:, -10:][:, ::-1], abs=1e-6)
    assert set(readers) == {threading.get_ident()}
    engine.drop()


@pytest.mark.parametrize("count", [600, 3000])
def test_vectors_that_are_known_are_not_sent_again(
    milvus: MilvusServer, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    rows, queries = hard(count, 4)
    engine = MilvusEngine(64, "ip", MilvusConnection(milvus.cluster), f"known_{count}")
    engine.put(np.arange(count), rows)
    true = np.sort(queries[:4] @ rows.T, axis=1)[:, -10:][:, ::-1]
    assert engine.search(queries[:4], 10)[0] == pytest.approx(true, abs=1e-6)
    asked = list[list[str]]()
    query, search = MilvusConnection.query, MilvusConnection.search

    def noted_query(*arguments: Any, **how: Any) -> Any:  # noqa: ANN401
        asked.append(arguments[3])
        return query(*arguments, **how)

    def noted_search(*arguments: Any, **how: Any) -> Any:  # noqa: ANN401
        asked.append(how["output_fields"])
        return search(*arguments, **how)

    monkeypatch.setattr(MilvusConnection, "query", noted_query)
    monkeypatch.setattr(MilvusConnection, "search", noted_search)
    assert engine.search(queries[:4], 10)[0] == pytest.approx(true, abs=1e-6)
    assert asked
    assert not any("vector" in fields for fields in asked)
    engine.drop()


def test_a_row_that_is_removed_while_it_is_searched_for_is_no_hit(
    milvus: MilvusServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, queries = hard(3000, 5)
    engine = MilvusEngine(64, "ip", MilvusConnection(milvus.cluster), "removed")
    engine.put(np.arange(len(rows)), rows)
    scores, ids = engine.search(queries[:1], 11)
    search = MilvusConnection.search

    def removing(*arguments: Any, **how: Any) -> Any:  # noqa: ANN401
        found = search(*arguments, **how)
        engine.remove(ids[0, :1])
        return found

    monkeypatch.setattr(MilvusConnection, "search", removing)
    left, others = engine.search(queries[:1], 10)
    assert others.tolist() == ids[:, 1:].tolist()
    assert left == pytest.approx(scores[:, 1:])
    engine.drop()


@pytest.mark.parametrize("kind", ["HNSW", "DISKANN"])
def test_no_graph_of_vectors_that_differ_in_length(milvus: MilvusServer, kind: str) -> None:
    link, name = MilvusConnection(milvus.cluster), f"lengths_{kind}"
    engine = MilvusEngine(4, "ip", link, name, wanted=kind)
    engine.put(np.arange(3), np.diag([1.0, 2.0, 3.0, 4.0]).astype(np.float32)[:3])
    assert link.find(name) == "FLAT"
    engine.drop()


def test_what_one_measures_all_are_told(milvus: MilvusServer, tmp_path: Path, server: Server) -> None:
    rows, queries = hard(5000, 1)
    place, space = server.place(), Sphere(64)

    def opened() -> Collection:
        return Collection.open(tmp_path, space, database=place, cluster=milvus.cluster)

    with opened() as one:
        for start in range(0, len(rows), 1000):
            some = range(start, start + 1000)
            one.upsert([Item(f"i{n}", (view(0, rows[n]), caption(0, queries[n % 256]))) for n in some])
        reports = one.engines.settle()
        assert set(reports) == {
            (side, kind) for side in ("shape", "text") for kind in ("observation", "pooled")
        }
        for (report,) in reports.values():
            assert (report.type, report.rows, report.target) == ("HNSW in Milvus", 5000, 0.99)
            assert report.recall >= 0.99
        with opened() as other:
            told = [[str(report) for (report,) in each.engines.settle().values()] for each in (one, other)]
            assert sorted(told[0]) == sorted(told[1])
            found = [hit.id for hit in other.search(query(queries[0], limit=10))]
            best = np.argsort(-(rows @ queries[0]))[:10]
            assert len({f"i{n}" for n in best} & set(found)) >= 9


def test_it_is_killed_and_comes_back(milvus: MilvusServer, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    items = [thing(f"item {n}", rng) for n in range(40)]
    with Collection.open(tmp_path, SPACE, cluster=milvus.cluster) as collection:
        for start in range(0, 30, 10):
            collection.upsert(items[start : start + 10])
        assert answers(collection.search(ASKED)) == brute(items[:30], SPACE, ASKED)
        milvus.kill()
        with pytest.raises(ClusterError, match="does not answer"):
            collection.search(ASKED)
        collection.upsert(items[30:])  # what counts is the store
        collection.delete(["item 0"])
        assert collection.count() == 39
        milvus.start()
        found = _once_back(collection)
        assert found == brute(items[1:], SPACE, ASKED)
        assert collection.disagreements() == []
    with Collection.open(tmp_path, SPACE, cluster=milvus.cluster) as collection:
        assert _once_back(collection) == found


def test_kills_in_the_middle_of_writing_lose_nothing(milvus: MilvusServer, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with Collection.open(tmp_path, SPACE, cluster=milvus.cluster) as collection:
        for turn in range(2):
            dying = threading.Timer(0.5, milvus.kill)
            dying.start()
            for n in range(60):
                collection.upsert([thing(f"{turn} {n}", rng)])
                if n % 3:
                    collection.delete([f"{turn} {n - 1}"])
            dying.join()
            milvus.start()
            _once_back(collection)
            assert collection.disagreements() == []
        assert collection.count() == len(collection.search(query(feature(1), limit=200))) == 2 * 20


def _once_back(collection: Collection) -> list[object]:
    def is_back() -> bool:
        try:
            collection.search(ASKED)
        except ClusterError:
            return False
        return True

    until(is_back, what="Milvus to come back")
    return list(answers(collection.search(ASKED)))
