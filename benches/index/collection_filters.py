"""Filters on a whole collection: what one costs when it is new, after a change, and when it is known."""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benches.index.generated_vectors import VectorSet
from benches.reporting import head, row, time_calls
from index.collection import Collection
from index.contracts import CPU_LADDER, IndexPlan
from index.engines.faiss_library import faiss
from index.plain_space import PlainSpace
from index.store.filters import Filter, parse_filter
from multifold.types import Item, Observation, Query, Vector

TYPE = CPU_LADDER[0]
SHARES = (0.5, 0.1, 0.01, 0.001, 0.0001)
BITES = 1000  # items of one upsert
ROUNDS = 20
CALLS = 60
KINDS = 20  # values of the key that facets are counted of


def measure_collection_filters(args: argparse.Namespace, vectors: VectorSet) -> Iterator[str]:
    """Recall and times of whole searches, hits read from the store included."""
    with tempfile.TemporaryDirectory() as folder:
        plan, space = (
            IndexPlan(TYPE, "cpu", 0.99, seal_at=args.rows, flat_below=0),
            PlainSpace("ip", args.dim),
        )
        with Collection.open(Path(folder), space, plan=plan, probes={"text": vectors.probes}) as collection:
            _fill(collection, vectors)
            yield head("lets through", "recall@10", "known filter", "new after an upsert", "new filter")
            searches = _Searches(collection, vectors)
            yield f"| everything, no filter | {searches.recall(None):.3f} | {searches.known(None)} | – | – |"
            for share in SHARES:
                yield f"| {share:.2%} | {searches.row(share)} |"
            yield ""
            yield from _facets(collection)


def _fill(collection: Collection, vectors: VectorSet) -> None:
    rng = np.random.default_rng(4)
    places = rng.permutation(len(vectors.rows)) / len(vectors.rows)
    for start in range(0, len(vectors.rows), BITES):
        some = range(start, min(start + BITES, len(places)))
        collection.upsert([_item(n, vectors.rows[n], float(places[n])) for n in some])
    collection.settle()


def _item(number: int, feature: Vector, place: float) -> Item:
    payload = {"u": place, "kind": f"kind {number % KINDS}", "name": f"thing {number}"}
    return Item(f"{number}", (Observation("view", 0, feature),), payload)


class _Searches:
    def __init__(self, collection: Collection, vectors: VectorSet) -> None:
        faiss.omp_set_num_threads(1)
        self._collection, self._scene = collection, vectors
        self._rng = np.random.default_rng(5)

    def row(self, share: float) -> str:
        """Recall, and the times of a cached filter, of one that is outdated, and of a new one."""
        where = self._filter(share)
        fresh = self._median(lambda turn: self._search(turn, self._filter(share)), ROUNDS)
        changed = self._median(lambda turn: self._search(turn, where), ROUNDS, before=self._touch)
        return f"{self.recall(where):.3f} | {self.known(where)} | {changed} | {fresh}"

    def known(self, where: Filter | None) -> str:
        """The time of a search with a cached filter."""
        self._search(0, where)
        return self._median(lambda turn: self._search(turn, where), CALLS)

    def recall(self, where: Filter | None) -> float:
        """The share of the exact hits that are found, equal scores included; 1 where there are none."""
        good = total = 0
        for turn in range(len(self._scene.queries)):
            exact = self._collection.search(self._query(turn), where, exact=True)
            scores = [hit.score for hit in self._collection.search(self._query(turn), where)]
            good += sum(score >= exact[-1].score for score in scores) if exact else 0
            total += len(exact)
        return good / total if total else 1.0

    def _filter(self, share: float) -> Filter:
        start = float(self._rng.uniform(0, 1 - share))
        return parse_filter({"u": {"gte": start, "lt": start + share}})

    def _touch(self, turn: int) -> None:
        self._collection.upsert([_item(turn, self._scene.rows[turn], float(self._rng.random()))])

    def _search(self, turn: int, where: Filter | None) -> None:
        self._collection.search(self._query(turn), where)

    def _query(self, turn: int) -> Query:
        return Query(self._scene.queries[turn % len(self._scene.queries)], "shape")

    def _median(
        self, call: Callable[[int], object], rounds: int, before: Callable[[int], None] | None = None
    ) -> str:
        return f"{np.median(time_calls(call, rounds, before, time.thread_time)) * 1e3:.2f} ms"


def _facets(collection: Collection) -> Iterator[str]:
    yield head("counted", "everything", "half of it", "a hundredth")
    filters = [None, *(parse_filter({"u": {"lt": share}}) for share in (0.5, 0.01))]
    jobs: dict[str, Callable[[Filter | None], object]] = {
        "items": collection.count,
        f"the {KINDS} values of a key": lambda where: collection.facets(["kind"], where),
        "the ten commonest of as many values as items": lambda where: collection.facets(["name"], where, 10),
    }
    for name, job in jobs.items():
        times = [time_calls(lambda _: job(where), ROUNDS, clock=time.thread_time) for where in filters]  # noqa: B023
        yield row(name, *(f"{np.median(one) * 1e3:.1f} ms" for one in times))
