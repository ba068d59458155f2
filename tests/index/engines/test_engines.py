"""One contract for every engine; a new one joins by a line in ENGINES.

Small numbers make FAISS engines seal, merge and rot all the time. Those in ENGINES have to be exact; what
APPROXIMATE types find is checked for soundness here, and for its recall in test_tuning.py.
"""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from index.contracts import NO_ROW, Ids, IndexEngine, IndexEngineError, IndexPlan, Memory
from index.engines import faiss_engine, scoring
from index.engines.exact_engine import ExactEngine
from index.engines.faiss_engine import FaissEngine
from multifold.types import Metric, Vector
from tests.index.clusters import milvus_of

DIM = 3
SOON = 64  # rows are sealed


def faiss_of(type: str, dim: int, metric: Metric, memory: Memory = "resident") -> FaissEngine:  # noqa: A002
    plan = IndexPlan(type, device="cpu", seal_at=SOON, flat_below=SOON, memory=memory)
    return FaissEngine(dim, metric, plan)


Make = Callable[[int, Metric], IndexEngine]
ENGINES: dict[str, Make] = {
    "exact": ExactEngine,
    "faiss": partial(faiss_of, "Flat"),
    "files": partial(faiss_of, "Flat", memory="codes"),
    "milvus": milvus_of,
}
APPROXIMATE = ("HNSW8,SQ8", "IVF{cells},Flat", "SQ8")
METRICS: tuple[Metric, ...] = ("ip", "l2")

every_engine = pytest.mark.parametrize("make", ENGINES.values(), ids=list(ENGINES))
every_metric = pytest.mark.parametrize("metric", METRICS)


def ids(*numbers: int) -> Ids:
    return np.array(numbers, np.int64)


def vectors(*rows: list[float]) -> np.ndarray:
    return np.array(rows, np.float32).reshape(-1, DIM)


def expected(rows: dict[int, Vector], metric: Metric, query: Vector) -> list[tuple[float, int]]:
    """Every row with its score, best first, ties by row_id."""
    scored = [
        (float(scoring.exact_scores(metric, query, row[None])[0]), row_id) for row_id, row in rows.items()
    ]
    return sorted(scored, key=lambda pair: (-pair[0], pair[1]))


def found(answer: tuple[np.ndarray, np.ndarray]) -> list[tuple[float, int]]:
    scores, rows = (part.ravel() for part in answer)
    return [(float(score), int(row)) for score, row in zip(scores, rows, strict=True) if row != NO_ROW]


@every_engine
def test_scores_and_order_by_hand(make: Make) -> None:
    product, distance = make(DIM, "ip"), make(DIM, "l2")
    for engine in (product, distance):
        scores, rows = engine.search(vectors([1, 0, 0], [0, 1, 0]), 2)
        assert rows.tolist() == [[NO_ROW, NO_ROW]] * 2
        assert np.isneginf(scores).all()
        engine.add(ids(7, 3, 5), vectors([1, 0, 0], [0, 2, 0], [1, 0, 0]))
    query = vectors([1, 1, 0])
    assert found(product.search(query, 3)) == [(2, 3), (1, 5), (1, 7)]
    assert found(distance.search(query, 3)) == [(-1, 5), (-1, 7), (-2, 3)]
    assert found(product.search(query, 1, ids(7, 5, 99))) == [(1, 5)]


@every_engine
def test_an_id_stands_once(make: Make) -> None:
    engine = make(DIM, "ip")
    engine.add(ids(1), vectors([1, 0, 0]))
    for twice in (ids(2, 2), ids(3, 1)):
        with pytest.raises(IndexEngineError, match="already there"):
            engine.add(twice, vectors([0, 1, 0], [0, 0, 1]))
    assert engine.count() == 1
    engine.remove(ids(1, 1, 8))
    engine.add(ids(1), vectors([0, 5, 0]))
    assert found(engine.search(vectors([0, 1, 0]), 5)) == [(5, 1)]


@every_engine
def test_vectors_of_another_length_are_refused(make: Make) -> None:
    with pytest.raises(IndexEngineError, match="vectors of 3"):
        make(DIM, "ip").add(ids(1), np.zeros((1, 4), np.float32))


@every_engine
@every_metric
def test_many_twins_keep_their_order(make: Make, metric: Metric) -> None:
    rng = np.random.default_rng(1)
    rows = np.repeat(rng.standard_normal((20, 64)).astype(np.float32), 50, axis=0)
    engine = make(64, metric)
    engine.add(np.arange(1000), rows)
    queries = rng.standard_normal((40, 64)).astype(np.float32)
    _, answer = engine.search(queries, 75)
    for query, row in zip(queries, answer, strict=True):
        order = np.lexsort((np.arange(1000), -scoring.exact_scores(metric, query, rows)))
        assert row.tolist() == order[:75].tolist()


@every_engine
@every_metric
@pytest.mark.parametrize("share", [0.002, 0.1, 0.9])
def test_filtered_is_exact(make: Make, metric: Metric, share: float) -> None:
    rng = np.random.default_rng(2)
    rows = dict(enumerate(rng.standard_normal((2000, 16)).astype(np.float32)))
    engine = make(16, metric)
    engine.add(np.arange(2000), np.stack(list(rows.values())))
    allowed = np.flatnonzero(rng.random(2000) < share)
    query = rng.standard_normal(16).astype(np.float32)
    wanted = expected({row_id: rows[row_id] for row_id in allowed.tolist()}, metric, query)
    assert found(engine.search(query[None], 10, rng.permutation(allowed))) == wanted[:10]


@every_engine
def test_a_foreign_or_damaged_file_is_refused(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "rows"
    engine = make(DIM, "ip")
    engine.add(ids(1, 2), vectors([1, 0, 0], [0, 1, 0]))
    engine.save(path)
    assert [one.name for one in tmp_path.iterdir()] == ["rows"]
    for other in (make(DIM, "l2"), make(DIM + 1, "ip")):
        with pytest.raises(IndexEngineError, match="holds ip vectors"):
            other.load(path)
    whole = path.read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(IndexEngineError, match="damaged"):
            engine.load(path)
    assert engine.count() == 2


@every_engine
def test_a_flipped_byte_never_changes_an_answer(make: Make, tmp_path: Path) -> None:
    path, query = tmp_path / "rows", vectors([3, 2, 1])
    engine = make(DIM, "ip")
    engine.add(ids(1, 2), vectors([1, 0, 0], [0, 1, 0]))
    engine.save(path)
    whole, right = path.read_bytes(), found(engine.search(query, 5))
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x5A]) + whole[place + 1 :])
        again = make(DIM, "ip")
        try:
            again.load(path)
        except IndexEngineError:
            continue
        assert found(again.search(query, 5)) == right


Ranked = list[tuple[float, int]]
Agreement = Callable[[Ranked, Ranked, int], bool]


def exactly(answer: Ranked, wanted: Ranked, limit: int) -> bool:
    return answer == wanted[:limit]


def soundly(answer: Ranked, wanted: Ranked, limit: int) -> bool:
    """As many rows as there are, each once, allowed, with its exact score and in the right order."""
    whole = len(answer) == len(set(answer)) == min(limit, len(wanted))
    return whole and answer == [pair for pair in wanted if pair in set(answer)]


class Against(RuleBasedStateMachine):
    """Random adds, removals and searches against a dict."""

    def __init__(self, make: Make, metric: Metric, agrees: Agreement) -> None:
        super().__init__()
        self.rows: dict[int, Vector] = {}
        self.metric = metric
        self.make = make
        self.agrees = agrees
        self.engine = make(DIM, metric)

    def teardown(self) -> None:
        self.engine.close()

    coordinate = st.sampled_from([-2.0, -0.5, 0.0, 0.1, 1.0])
    vector = st.tuples(coordinate, coordinate, coordinate).map(lambda numbers: np.array(numbers, np.float32))
    some_ids = st.lists(st.integers(0, 1500), max_size=400)

    @rule(new=some_ids, seed=st.integers(0, 999))
    def add(self, new: list[int], seed: int) -> None:
        fresh = [row_id for row_id in dict.fromkeys(new) if row_id not in self.rows]
        added = np.random.default_rng(seed).integers(-2, 3, (len(fresh), DIM)).astype(np.float32)
        self.engine.add(ids(*fresh), added)
        self.rows.update(zip(fresh, added, strict=True))

    @rule(gone=some_ids)
    def remove(self, gone: list[int]) -> None:
        self.engine.remove(ids(*gone))
        for row_id in gone:
            self.rows.pop(row_id, None)

    @rule(query=vector, limit=st.integers(1, 600), allowed=st.none() | some_ids)
    def search(self, query: Vector, limit: int, allowed: list[int] | None) -> None:
        among = set(self.rows) if allowed is None else set(allowed) & set(self.rows)
        chosen = {row_id: self.rows[row_id] for row_id in among}
        filter_ = None if allowed is None else ids(*allowed)
        wanted = expected(chosen, self.metric, query)
        assert found(self.engine.search(query[None], limit, filter_, exact=True)) == wanted[:limit]
        pairs = [pair for some in self.engine.blocks(filter_) for pair in zip(*some, strict=True)]
        assert {row: one.tolist() for row, one in pairs} == {row: one.tolist() for row, one in chosen.items()}
        asked = ids(*sorted({*(allowed or ()), *self.rows}))
        scores = {row: score for score, row in expected(self.rows, self.metric, query)}
        scored = self.engine.score(query, asked).tolist()
        assert scored == pytest.approx([scores.get(row, np.nan) for row in asked], rel=0, abs=0, nan_ok=True)
        assert self.agrees(found(self.engine.search(query[None], limit, filter_)), wanted, limit)

    @rule()
    def reopen(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.engine.save(Path(folder) / "rows")
            self.engine.close()
            self.engine = self.make(DIM, self.metric)
            self.engine.load(Path(folder) / "rows")

    @rule()
    def settle(self) -> None:
        if isinstance(self.engine, FaissEngine):
            self.engine.settle()

    @invariant()
    def counts(self) -> None:
        assert self.engine.count() == len(self.rows)


def compare(make: Make, metric: Metric, agrees: Agreement, examples: int) -> None:
    effort = settings(max_examples=examples, stateful_step_count=12, deadline=None)

    class Machine(Against):
        def __init__(self) -> None:
            super().__init__(make, metric, agrees)

    run_state_machine_as_test(Machine, settings=effort)


@every_engine
@every_metric
def test_against_a_dict(make: Make, metric: Metric) -> None:
    compare(make, metric, exactly, examples=15)


@every_metric
@pytest.mark.parametrize("memory", ["resident", "codes"])
@pytest.mark.parametrize("type", APPROXIMATE)
def test_approximate_types_against_a_dict(type: str, memory: Memory, metric: Metric) -> None:  # noqa: A002
    compare(partial(faiss_of, type, memory=memory), metric, soundly, examples=6)


@every_metric
def test_rows_with_a_first_index_against_a_dict(metric: Metric, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faiss_engine, "SLOW_NUMBERS", SOON * DIM // 4)
    compare(partial(faiss_of, "HNSW8,SQ8"), metric, soundly, examples=6)


@pytest.mark.slow
@every_metric
@pytest.mark.parametrize("type", ["Flat", *APPROXIMATE, "RaBitQfs", "IVF{cells},PQ8x4fs"])
def test_types_against_a_dict_at_length(type: str, metric: Metric) -> None:  # noqa: A002
    compare(partial(faiss_of, type), metric, exactly if type == "Flat" else soundly, examples=40)


@every_engine
@given(seed=st.integers(0, 10**6))
@settings(max_examples=10, deadline=None)
def test_a_batch_is_its_queries(make: Make, seed: int) -> None:
    rng = np.random.default_rng(seed)
    engine = make(8, "l2")
    engine.add(np.arange(300), rng.standard_normal((300, 8)).astype(np.float32))
    queries = rng.standard_normal((5, 8)).astype(np.float32)
    together = engine.search(queries, 7)[1]
    assert together.tolist() == [engine.search(query[None], 7)[1][0].tolist() for query in queries]
