"""An engine whose rows are in Milvus; which candidates count, and their scores, is decided here.

Milvus finds candidates, with their vectors. They are scored exactly; those that are not allowed, or that
`counts` says no longer count, are dropped. Where too few are left, or a row that was not seen could be as
good, the search reaches further, and where Milvus reaches no further every row is fetched.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from pathlib import Path
from typing import TypeAlias
from uuid import uuid4

import numpy as np
from jaxtyping import Bool, Float32, Int64

from index.cluster.contracts import ClusterLostError
from index.cluster.milvus_connection import FLAT, GRAPH, MilvusConnection, MilvusRow
from index.cluster.search_effort import effort_for, least_effort
from index.contracts import NO_ROW, Ids, IndexEngineError, PairedIds, RowBlock, RowRanking, RowRankings
from index.engines import exact_engine, row_file
from index.engines.builder import LIMITS
from index.engines.exact_engine import nearest_rows, refuse_known, rows_within, sort_unique, view_of
from index.engines.faiss_index import BuildStopped, SearchSetting
from index.engines.segments import SegmentReport
from index.engines.served_queries import ServedQueries
from multifold.types import Metric, Vector, Vectors

MOST = 16_384  # hits that Milvus gives
BYTES = 1 << 25  # of vectors in one call
PAGE = 4_096  # rows in one call
FEW = 1_024  # allowed rows that are fetched and scored directly
SPARE = 4  # candidates beyond the limit
WIDER = 4  # how much further a search reaches that found too few
LEAST_MEASURED = 4_096  # rows; fewer are found as it is
UNIT = 1e-3  # how far from 1 a length may be

Counts: TypeAlias = Callable[[Ids], Bool[np.ndarray, " k"]]


class MilvusEngine:
    """Rows of one side and kind in a Milvus collection of their own.

    Without a name it is for this engine alone, and goes when the engine is closed.
    """

    def __init__(
        self,
        dim: int,
        metric: Metric,
        link: MilvusConnection,
        name: str | None = None,
        counts: Counts | None = None,
    ) -> None:
        self._dim, self._metric, self._link, self._counts = dim, metric, link, counts
        self._own = name is None
        self.name = name or f"multifold_{uuid4().hex}"
        self._index: str | None = None  # unknown, or not there yet
        self._troubles = link.troubles  # of the cluster, when we last knew the index
        self._size: int | None = None
        self._changes = 0
        self._page = max(1, min(PAGE, BYTES // (4 * dim)))
        self.written = 0  # the cluster's time of the last write; 0: read as of now
        self.measured: SegmentReport | None = None
        self.served = ServedQueries()

    def add(self, ids: PairedIds, vectors: Vectors) -> None:
        """Add rows; an id that is already there is an error, and nothing is added."""
        if vectors.shape != (len(ids), self._dim):
            raise IndexEngineError(f"{len(ids)} ids need as many vectors of {self._dim}, not {vectors.shape}")
        refuse_known(np.sort(ids), *(view_of(*block) for block in self._fetched(ids)))
        self.put(ids, vectors)

    def put(self, ids: PairedIds, vectors: Vectors) -> None:
        """Write rows, each in place of the one that may be there: doing it twice does no harm."""
        if not len(ids):
            return
        if self._attached() is None:
            self._make(vectors)
        for start in range(0, len(ids), self._page):
            some = slice(start, start + self._page)
            pairs = zip(ids[some].tolist(), vectors[some], strict=True)
            self.see(self._link.put(self.name, [{"row": row, "vector": one} for row, one in pairs]))

    def remove(self, ids: Ids) -> None:
        """Remove rows; ids that are not there are ignored."""
        if not len(ids) or self._attached() is None:
            return
        for start in range(0, len(ids), PAGE):
            self.see(self._link.remove(self.name, _among(ids[start : start + PAGE])))

    def see(self, written: int) -> None:
        """Read from now on what was written until then, by any process."""
        self.written, self._size = written, None
        self._changes += 1

    def search(
        self, queries: Vectors, limit: int, allowed: Ids | None = None, *, exact: bool = False
    ) -> RowRankings:
        """The best rows of each query, best first, padded with -inf and NO_ROW; `exact` scores all rows."""
        if self._attached() is None:
            return _nothing(len(queries), limit)
        allowed = None if allowed is None else sort_unique(allowed)
        few = allowed is not None and len(allowed) <= FEW
        if few or (exact and self._index != FLAT):
            return self._scanned(queries, limit, allowed)
        if allowed is None and len(queries) and self.served.due():
            self.served.keep(queries[:1].copy())
            self.served.rest()
        # Milvus itself keeps to the allowed rows while they are not many
        spread = 1.0 if allowed is None or len(allowed) <= MOST else self.count() / len(allowed)
        return self._reach(queries, limit, allowed, int((limit + SPARE) * max(1.0, spread)))

    def measurable(self) -> bool:
        """Whether there is a graph, over enough rows to miss some."""
        return self._attached() == GRAPH and self.count() >= LEAST_MEASURED

    def measure(self, queries: Vectors, target: float, stopped: Callable[[], bool]) -> SegmentReport:
        """How far the graph has to look for a recall, among all rows, whether they count or not."""

        def unless_stopped(rows: Ids) -> Bool[np.ndarray, " k"]:
            if stopped():
                raise BuildStopped
            return np.ones(len(rows), bool)

        whole = copy(self)
        whole._counts = unless_stopped
        self._link.settle(self.name, stopped)
        truth, _ = whole._scanned(queries, max(LIMITS), None)

        def setting(limit: int) -> SearchSetting:
            reach, threshold = limit + SPARE, truth[:, limit - 1 : limit]

            def measure(effort: int) -> tuple[float, float]:
                start = time.perf_counter()
                _, scores, _, _ = self._candidates(queries, reach, effort=effort)
                seconds = (time.perf_counter() - start) / len(queries)
                best = -np.sort(-scores, axis=1)[:, :limit]
                return float(np.mean(best >= threshold)), seconds

            return least_effort(limit, reach, target, measure)

        settings = tuple(setting(limit) for limit in LIMITS)
        figures = self.count(), target, len(queries), "queries", settings
        return SegmentReport(f"{GRAPH} in Milvus", *figures, bytes_per_row=4.0 * self._dim, build_seconds=0.0)

    def range(self, query: Vector, threshold: float, allowed: Ids | None = None) -> RowRanking:
        """Every row that scores `threshold` or more, best first: each row is fetched."""
        none = np.empty(0, np.float32), np.empty(0, np.int64)
        near = [rows_within(self._metric, view_of(*one), query, threshold) for one in self.blocks(allowed)]
        scores, ids = map(np.concatenate, zip(none, *near, strict=True))
        order = np.lexsort((ids, -scores))
        return scores[order], ids[order]

    def blocks(self, allowed: Ids | None = None) -> Iterator[RowBlock]:
        """Every row that counts, some at a time."""
        for ids, vectors in self._every() if allowed is None else self._fetched(sort_unique(allowed)):
            good = self._good(ids)
            yield ids[good], vectors[good]

    def ids(self) -> Ids:
        """The ids of all rows, rising."""
        return np.array([row["row"] for rows in self._pages(["row"], MOST) for row in rows], np.int64)

    def count(self) -> int:
        """How many rows there are, those that no longer count included."""
        size, changes = self._size, self._changes
        if size is None:
            size = sum(int(row["count(*)"]) for row in self._rows("", ["count(*)"]))
            self._size = size if changes == self._changes else None
        return size

    def sample(self, count: int) -> Vectors:
        """Up to so many of the vectors, drawn evenly."""
        ids = self.ids()
        taken = min(count, len(ids))
        chosen = ids[np.arange(taken) * len(ids) // max(1, taken)]
        return np.concatenate([some for _, some in (self._block([]), *self._fetched(chosen))])

    def save(self, path: Path) -> None:
        """Write the rows to a file, durably and all at once."""
        ids, vectors = map(np.concatenate, zip(self._block([]), *self.blocks(), strict=True))
        row_file.write_rows(path, self._metric, ids, vectors)

    def load(self, path: Path) -> None:
        """Replace the rows by those of a file; a damaged or foreign one is an error and changes nothing."""
        ids, vectors = row_file.read_rows(path, self._metric, self._dim)[1]
        self.drop()
        self.put(ids, vectors)

    def close(self) -> None:
        """Close; rows that are for this engine alone are dropped."""
        if self._own:
            self.drop()

    def drop(self) -> None:
        """Remove the rows from the cluster."""
        self._link.drop(self.name)
        self._index = None
        self.see(0)

    def attach(self) -> None:
        """Make sure that the rows are there to be searched; a ClusterLostError if they are not."""
        self._index = None
        if self._attached() is None:
            raise ClusterLostError(f"Milvus has no collection {self.name} any more.")

    def _attached(self) -> str | None:
        """The type of the index; None while there are no rows. After trouble the cluster is asked again."""
        if self._index is None or self._troubles != self._link.troubles:
            self._troubles = self._link.troubles
            self._index = self._link.find(self.name)
        return self._index

    def _make(self, vectors: Vectors) -> None:
        """A graph, but for inner products of vectors that differ in length: graphs are bad at these."""
        unit = bool((np.abs(exact_engine.lengths(vectors) - 1) < UNIT).all())
        index = GRAPH if not self._own and (self._metric == "l2" or unit) else FLAT
        self._link.make(self.name, self._dim, self._metric, index)
        self._index = index

    def _reach(self, queries: Vectors, limit: int, allowed: Ids | None, reach: int) -> RowRankings:
        """Search so many candidates, and more for those queries that found too few."""
        if reach > min(MOST, BYTES // (4 * self._dim)):
            return self._scanned(queries, limit, allowed)
        fast, scores, ids, longest = self._candidates(queries, reach, allowed)
        scores[~self._good(ids.ravel(), allowed).reshape(ids.shape)] = -np.inf
        answer = _best(scores, np.where(np.isneginf(scores), NO_ROW, ids), limit)
        worst, filled = answer[0][:, -1], (ids != NO_ROW).sum(axis=1)
        if self._index == FLAT:  # a row beyond the last candidate may score as much as the last of the answer
            slack = [exact_engine.score_slack(self._metric, query, 2 * longest) for query in queries]
            short = (filled == reach) & (fast[:, -1] + np.array(slack) >= worst)
        else:
            findable = self.count() if allowed is None else min(len(allowed), self.count())
            short = np.isneginf(worst) & (filled < findable)
        if short.any():
            lost = (filled[short] < reach).any()  # a graph gave fewer rows than there are
            farther = MOST + 1 if lost else reach * WIDER
            answer[0][short], answer[1][short] = self._reach(queries[short], limit, allowed, farther)
        return answer

    def _candidates(
        self, queries: Vectors, reach: int, allowed: Ids | None = None, effort: int | None = None
    ) -> tuple[Float32[np.ndarray, "q r"], Float32[np.ndarray, "q r"], Int64[np.ndarray, "q r"], float]:
        """Milvus's scores and the exact ones of rows, best first there, padded; the length of the longest."""
        fast, ids = _nothing(len(queries), reach)
        scores, longest = fast.copy(), 0.0
        known = self.measured.settings if self.measured else ()
        how = {
            "limit": reach,
            "filter": _among(allowed) if allowed is not None and len(allowed) <= MOST else "",
            "output_fields": ["vector"],
            "search_params": {"params": {"ef": effort or effort_for(reach, known)}},
        }
        step = max(1, BYTES // (4 * self._dim * reach))
        for start in range(0, len(queries), step):
            some = queries[start : start + step]
            vectors = np.zeros((len(some) * reach, self._dim), np.float32)
            places = np.arange(len(vectors)).reshape(len(some), reach)
            for place, hits in enumerate(self._link.search(self.name, some, self.written, **how)):
                count = len(hits)
                if count:
                    key = "id" if "id" in hits[0] else "row"  # servers, and the embedded engine
                    ids[start + place, :count] = [hit[key] for hit in hits]
                    fast[start + place, :count] = [hit["distance"] for hit in hits]
                    vectors[places[place, :count]] = [hit["entity"]["vector"] for hit in hits]
            scores[start : start + step] = exact_engine.exact_scores_at(self._metric, some, vectors, places)
            longest = max(longest, float(exact_engine.lengths(vectors).max()))
        scores[ids == NO_ROW] = -np.inf
        return (-fast if self._metric == "l2" else fast), scores, ids, longest

    def _good(self, ids: Ids, allowed: Ids | None = None) -> Bool[np.ndarray, " k"]:
        """Which rows are there, count and are allowed."""
        good: Bool[np.ndarray, " k"] = ids != NO_ROW
        if allowed is not None:
            places = np.minimum(np.searchsorted(allowed, ids), len(allowed) - 1)
            good &= allowed[places] == ids
        if self._counts is not None and good.any():
            good[good] = self._counts(ids[good])
        return good

    def _scanned(self, queries: Vectors, limit: int, allowed: Ids | None) -> RowRankings:
        """The best of all rows, which are fetched."""
        scores, ids = _nothing(len(queries), limit)
        for block in self.blocks(allowed):
            more = nearest_rows(self._metric, view_of(*block), queries, limit)
            scores, ids = _best(np.hstack([scores, more[0]]), np.hstack([ids, more[1]]), limit)
        return scores, ids

    def _every(self) -> Iterator[RowBlock]:
        """All rows by rising id, some at a time."""
        return map(self._block, self._pages(["row", "vector"], self._page))

    def _fetched(self, ids: Ids) -> Iterator[RowBlock]:
        """Those of the rows that are there, some at a time."""
        for start in range(0, len(ids), self._page):
            yield self._block(self._rows(_among(ids[start : start + self._page]), ["row", "vector"]))

    def _pages(self, fields: list[str], size: int) -> Iterator[list[MilvusRow]]:
        last = NO_ROW
        while rows := self._rows(f"row > {last}", fields, limit=size):
            yield rows
            last = rows[-1]["row"]

    def _rows(self, filter: str, fields: list[str], **how: int) -> list[MilvusRow]:  # noqa: A002
        if self._attached() is None:
            return []
        rows = self._link.query(self.name, filter, fields, self.written, **how)
        return sorted(rows, key=lambda row: row.get("row", NO_ROW))

    def _block(self, rows: Iterable[MilvusRow]) -> RowBlock:
        ids = np.array([row["row"] for row in rows], np.int64)
        vectors = np.array([row["vector"] for row in rows], np.float32)
        return ids, vectors.reshape(len(ids), self._dim)


def _among(ids: Ids) -> str:
    return f"row in {ids.tolist()}"


def _nothing(queries: int, limit: int) -> RowRankings:
    return np.full((queries, limit), -np.inf, np.float32), np.full((queries, limit), NO_ROW, np.int64)


def _best(scores: Float32[np.ndarray, "q r"], ids: Int64[np.ndarray, "q r"], limit: int) -> RowRankings:
    """The best of each query, best first; ties go to the smaller id."""
    best = np.arange(len(scores))[:, None], np.lexsort((ids, -scores))[:, :limit]
    return scores[best], ids[best]
