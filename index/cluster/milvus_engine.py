"""An engine whose rows are in Milvus; which candidates count, and their scores, is decided here.

Milvus finds candidates, with their vectors. They are scored exactly; those that are not allowed, or that
`counts` says no longer count, are dropped. Where too few are left, or a row that was not seen could be as
good, the search reaches further, and where Milvus reaches no further every allowed row is fetched.

A graph (HNSW) finds the best of all rows in parts: of a filter that leaves few rows, a server compares each.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float32, Int64

from index.cluster.contracts import ClusterLostError
from index.cluster.milvus_connection import CELLS, FLAT, GRAPH, MilvusConnection, MilvusRow
from index.cluster.payload_fields import FACTS, PART, PARTS, part_of
from index.cluster.row_cache import RowCache
from index.cluster.search_effort import EFFORTS, effort_for, least_effort
from index.contracts import (
    NO_ROW,
    NOBODY,
    Ids,
    IndexEngineError,
    PairedIds,
    RowBlock,
    RowRankings,
    RowScores,
)
from index.engines import row_file, scoring
from index.engines.builder import LIMITS
from index.engines.exact_engine import (
    nearest_rows,
    refuse_known,
    score_blocks,
    sort_unique,
    view_of,
)
from index.engines.faiss_index import BuildStopped
from index.engines.search_setting import SearchSetting
from index.engines.segments import SegmentReport
from index.engines.served_queries import ServedQueries
from multifold.types import Metric, Vector, Vectors

MOST_HITS = 16_384  # hits that Milvus gives
VECTOR_BYTES_A_CALL = 1 << 25  # of vectors in one call
ROWS_A_CALL = 4_096  # rows in one call
FETCHED_ROWS = 1_024  # rows that are fetched and scored directly
LISTED = 4_096  # allowed rows that Milvus finds faster by their ids than by their facts
SPARE = 4  # candidates beyond the limit
ROWS_FOR_AN_ALLOWED_ONE = 4  # up to so many, looking that much further takes less time than a filter
SEARCHES_A_CALL = 8  # searches of one query that Milvus is asked together
WIDER = 4  # how much further a search reaches that found too few
LEAST_MEASURED = 4_096  # rows; fewer are found as it is
COUNTED_SECONDS = 1.0  # seconds for which a count holds while others write
MOST_ENDED = 0.75  # share of candidates that are taken to have ended, and how fast that is forgotten
FORGETTING = 0.95
UNIT = 1e-3  # how far from 1 a length may be
FIELDS = "row", "vector", PART, FACTS

Counts: TypeAlias = Callable[[Ids], Bool[np.ndarray, " k"]]


class MilvusEngine:
    """Rows of one side and kind in a Milvus collection of their own, which stays when the engine is closed.

    A type of index is one of new rows; those that are there keep theirs.
    """

    def __init__(
        self,
        dim: int,
        metric: Metric,
        link: MilvusConnection,
        name: str,
        counts: Counts | None = None,
        wanted: str | None = None,
        as_of: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._dim = dim
        self._metric = metric
        self._link = link
        self._counts = counts
        self._wanted = wanted
        self._as_of = as_of  # the write that a reader has to see, if it is known
        self.name = name
        self._index: str | None = None  # unknown, or not there yet
        self._condition: str | None = None  # which all allowed rows meet
        self._troubles = link.troubles  # of the cluster, when we last knew the index
        self._size: int | None = None  # when rows were counted last
        self._counted = 0.0  # when that was
        self._changes = self._counted_changes = 0
        self._ended = 0.0  # the share of late candidates that no longer counted
        self._page = max(1, min(ROWS_A_CALL, VECTOR_BYTES_A_CALL // (4 * dim)))
        self.written = 0  # the cluster's time of the last write, which others see; 0: read as of now
        self._cache = RowCache(dim)
        self.measured: SegmentReport | None = None
        self.served = ServedQueries()

    def add(self, ids: PairedIds, vectors: Vectors) -> None:
        """Add rows; an id that is already there is an error, and nothing is added."""
        if vectors.shape != (len(ids), self._dim):
            raise IndexEngineError(f"{len(ids)} ids need as many vectors of {self._dim}, not {vectors.shape}")
        refuse_known(np.sort(ids), *(view_of(*block) for block in self._fetched(ids)))
        self.put(ids, vectors)
        self.recount()

    def narrowed(self, condition: str | None) -> "MilvusEngine":
        """The same rows, for searches whose allowed rows all meet a condition of Milvus."""
        narrowed = copy(self)
        narrowed._condition = condition
        return narrowed

    def put(self, ids: PairedIds, vectors: Vectors, facts: Sequence[Sequence[int]] | None = None) -> None:
        """Write rows, each in place of the one that may be there: doing it twice does no harm."""
        if not len(ids):
            return
        if self._attached() is None:
            self._make(vectors)
        self._cache.forget(ids)
        carried = [()] * len(ids) if facts is None else facts
        columns = ids.tolist(), vectors, part_of(ids).tolist(), carried
        rows = [dict(zip(FIELDS, row, strict=True)) for row in zip(*columns, strict=True)]
        for start in range(0, len(rows), self._page):
            self.see(self._link.put(self.name, rows[start : start + self._page]))

    def remove(self, ids: Ids) -> None:
        """Remove rows; ids that are not there are ignored."""
        if not len(ids) or self._attached() is None:
            return
        self._cache.forget(ids)
        for start in range(0, len(ids), ROWS_A_CALL):
            self.see(self._link.remove(self.name, _among(ids[start : start + ROWS_A_CALL])))
        self.recount()

    def see(self, written: int) -> None:
        """Read from now on what was written until then, by any process."""
        if written and written == self.written:
            return
        self.written = written
        self._changes += 1

    def recount(self) -> None:
        """Count rows anew when they are needed next."""
        self._size = None

    def search(
        self, queries: Vectors, limit: int, allowed: Ids | None = None, *, exact: bool = False
    ) -> RowRankings:
        """The best rows of each query, best first, padded with -inf and NO_ROW; `exact` scores all rows."""
        if self._attached() is None:
            return _nothing(len(queries), limit)
        allowed = None if allowed is None else sort_unique(allowed)
        reach = self._candidate_count(limit)
        few = (self.count() if allowed is None else len(allowed)) <= FETCHED_ROWS
        if few or (exact and not self._compares_all()):
            return self._scanned(queries, limit, self.ids() if few and allowed is None else allowed)
        asked = self._filter(allowed)
        if exact and self._index != FLAT:
            parts = (f"{PART} == {part}" for part in range(PARTS))
            return self._reach(
                queries, limit, allowed, reach, [f"{part} and {asked}" if asked else part for part in parts]
            )
        if allowed is None and len(queries) and self.served.due():
            self.served.keep(queries[:1].copy())
            self.served.rest()
        spread = 1.0 if allowed is None else max(1.0, self.count() / len(allowed))
        if asked and spread > ROWS_FOR_AN_ALLOWED_ONE:
            return self._reach(queries, limit, allowed, reach, [asked])
        return self._reach(queries, limit, allowed, int(reach * spread), [""])

    def measurable(self) -> bool:
        """Whether there is an index that may miss rows, over enough of them."""
        return self._attached() in EFFORTS and self.count() >= LEAST_MEASURED

    def measure(self, queries: Vectors, target: float, stopped: Callable[[], bool]) -> SegmentReport:
        """How far the index has to look for a recall, among all rows, whether they count or not."""

        def unless_stopped(rows: Ids) -> Bool[np.ndarray, " k"]:
            if stopped():
                raise BuildStopped
            return np.ones(len(rows), bool)

        whole = copy(self)
        index = self._index or GRAPH
        whole._counts = unless_stopped
        self._link.settle(self.name, stopped)
        truth, _ = whole._scanned(queries, max(LIMITS), None)
        since = self._since()

        def setting(limit: int) -> SearchSetting:
            reach = self._candidate_count(limit)
            threshold = truth[:, limit - 1 : limit]

            def measure(effort: int) -> tuple[float, float]:
                start = time.perf_counter()
                _, scores, _, _ = self._candidates(queries, reach, since, effort=effort)
                seconds = (time.perf_counter() - start) / len(queries)
                best = -np.sort(-scores, axis=1)[:, :limit]
                return float(np.mean(best >= threshold)), seconds

            return least_effort(limit, reach, target, measure, EFFORTS[index])

        return SegmentReport(
            type=f"{index} in Milvus",
            rows=self.count(),
            target=target,
            probes=len(queries),
            probed_with="queries",
            settings=tuple(map(setting, LIMITS)),
            bytes_per_row=4.0 * self._dim,
            build_seconds=0.0,
        )

    def score(self, query: Vector, ids: Ids) -> RowScores:
        """The score of each of these ids, which rise; NaN where there is no such row."""
        return score_blocks(self.blocks(ids), ids, partial(scoring.exact_scores, self._metric, query))

    def blocks(self, allowed: Ids | None = None) -> Iterator[RowBlock]:
        """Every row that counts, some at a time."""
        for ids, vectors in self._every() if allowed is None else self._fetched(sort_unique(allowed)):
            good = self._good(ids)
            yield ids[good], vectors[good]

    def ids(self) -> Ids:
        return np.array([row["row"] for rows in self._pages(["row"], MOST_HITS) for row in rows], np.int64)

    def count(self) -> int:
        """How many rows there are, those that ended included; if many, as of late where others write."""
        size, changes = self._size, self._changes
        late = size is not None and size > MOST_HITS and time.monotonic() < self._counted + COUNTED_SECONDS
        if size is None or (changes != self._counted_changes and not late):
            size = sum(int(row["count(*)"]) for row in self._rows("", ["count(*)"]))
            self._size, self._counted, self._counted_changes = size, time.monotonic(), changes
        return size

    def sample(self, count: int) -> Vectors:
        """Up to so many of the vectors, drawn evenly."""
        ids = self.ids()
        taken = min(count, len(ids))
        chosen = ids[np.arange(taken) * len(ids) // max(1, taken)]
        return self._joined(self._fetched(chosen))[1]

    def save(self, path: Path) -> None:
        """Write the rows to a file, durably and all at once."""
        ids, vectors = self._joined(self.blocks())
        row_file.write_rows(path, NOBODY, self._metric, ids, vectors)

    def load(self, path: Path) -> None:
        """Replace the rows by those of a file; a damaged or foreign one is an error and changes nothing."""
        ids, vectors = row_file.read_rows(path, NOBODY, self._metric, self._dim)[1]
        self.drop()
        self.put(ids, vectors)
        self.recount()

    def close(self) -> None:
        """Nothing is held here."""

    def drop(self) -> None:
        """Remove the rows from the cluster."""
        self._link.drop(self.name)
        self._index = None
        self.see(0)
        self.recount()

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
        """What is wanted, but no graph for inner products of vectors that differ in length."""
        unit = bool((np.abs(scoring.lengths(vectors) - 1) < UNIT).all())
        graphs = self._metric == "l2" or unit
        index = self._wanted or GRAPH
        if index not in (FLAT, CELLS) and not graphs:
            index = FLAT
        self._link.make(self.name, self._dim, self._metric, index)
        self._index = index

    def _compares_all(self) -> bool:
        """Whether Milvus can compare a query with every row by itself, as we do but for rounding."""
        return self._index == FLAT or (self._index == GRAPH and not self._link.embedded)

    def _filter(self, allowed: Ids | None) -> str:
        """What Milvus can be asked, so that it keeps to allowed rows or to few others."""
        if allowed is None or (self._condition is not None and len(allowed) > LISTED):
            return self._condition or ""
        return _among(allowed) if len(allowed) <= MOST_HITS else ""

    def _reach(
        self, queries: Vectors, limit: int, allowed: Ids | None, reach: int, asked: list[str]
    ) -> RowRankings:
        """Search so many candidates for each condition, and more for those queries that found too few."""
        if reach > min(MOST_HITS, VECTOR_BYTES_A_CALL // (4 * self._dim)):
            return self._scanned(queries, limit, allowed)
        # asked here: a thread of its own reads another version
        # where most vectors are known, none is sent again
        sent = len(asked) > 1 or self.count() > self._cache.room
        look = partial(self._candidates, queries, reach, self._since(), sent=sent)
        with ThreadPoolExecutor(SEARCHES_A_CALL) as threads:
            found = [*(threads.map if len(asked) > 1 else map)(look, asked)]
        scores, ids = (np.hstack([some[place] for some in found]) for place in (1, 2))
        good = self._good(ids.ravel(), allowed)
        if allowed is None and asked == [""]:
            ended = 1 - good.sum() / max(1, np.count_nonzero(ids != NO_ROW))
            self._ended = min(MOST_ENDED, max(ended, self._ended * FORGETTING))
        scores[~good.reshape(ids.shape)] = -np.inf
        answer = _best(scores, np.where(np.isneginf(scores), NO_ROW, ids), limit)
        worst = answer[0][:, -1]
        full = np.stack([some[2][:, -1] != NO_ROW for some in found], axis=1)
        if self._index == FLAT or len(asked) > 1:
            # a row beyond the last candidate may score as much as the last of the answer
            length = 2 * max(some[3] for some in found)
            slack = [scoring.summed_slack(self._metric, query, length) for query in queries]
            last = np.stack([some[0][:, -1] for some in found], axis=1)
            short = (full & (last >= (worst - slack)[:, None])).any(axis=1)
            scan = False
        else:
            short, scan = np.isneginf(worst), False
            done = short & ~full[:, 0]
            if done.any():  # a graph may give fewer rows than there are
                seen = self._allowed(ids, allowed).sum(axis=1)
                done &= seen >= (self.count() if allowed is None else min(len(allowed), self.count()))
                short &= ~done
                scan = not full[short].all()
        if short.any():
            if asked == [""] and (better := self._filter(allowed)):
                asked = [better]  # rows that are not allowed were in the way
            else:
                reach = MOST_HITS + 1 if scan else reach * WIDER
            answer[0][short], answer[1][short] = self._reach(queries[short], limit, allowed, reach, asked)
        return answer

    def _candidates(
        self,
        queries: Vectors,
        reach: int,
        since: int,
        condition: str = "",
        *,
        effort: int | None = None,
        sent: bool = True,
    ) -> tuple[Float32[np.ndarray, "q r"], Float32[np.ndarray, "q r"], Int64[np.ndarray, "q r"], float]:
        """Milvus's scores and the exact ones of rows, best first there, padded; the length of the longest.

        The rows' vectors are `sent`, or else taken from those that are known.
        """
        fast, ids = _nothing(len(queries), reach)
        scores = fast.copy()
        longest = 0.0
        known = self.measured.settings if self.measured else ()
        own = EFFORTS.get(self._index or "")
        effort = None if own is None else effort or effort_for(reach, known, own)
        step = max(1, VECTOR_BYTES_A_CALL // (4 * self._dim * reach))
        for start in range(0, len(queries), step):
            some = queries[start : start + step]
            found = self._link.search(
                self.name,
                some,
                since,
                limit=reach,
                filter=condition,
                output_fields=["vector"] if sent else [],
                search_params=None if own is None else {"params": {own.name: effort}},
            )
            vectors = dict[int, Sequence[float]]()
            for place, hits in enumerate(found, start=start):
                key = "id" if hits and "id" in hits[0] else "row"  # servers, and the embedded engine
                ids[place, : len(hits)] = [hit[key] for hit in hits]
                fast[place, : len(hits)] = [hit["distance"] for hit in hits]
                if sent:
                    vectors |= {hit[key]: hit["entity"]["vector"] for hit in hits}
            asked = ids[start : start + step]
            rows, gallery = self._gathered(sort_unique(asked[asked != NO_ROW]), vectors)
            if len(rows):
                places = np.minimum(np.searchsorted(rows, asked), len(rows) - 1)
                exact = scoring.exact_scores_at(self._metric, some, gallery, places)
                scores[start : start + step] = np.where(rows[places] == asked, exact, -np.inf)
                longest = max(longest, float(scoring.lengths(gallery).max()))
        return (-fast if self._metric == "l2" else fast), scores, ids, longest

    def _candidate_count(self, limit: int) -> int:
        """Candidates for so many hits: codes of few bits order them less well, and some may have ended."""
        return int((limit if self._index != CELLS else 2 * limit) / (1 - self._ended)) + SPARE

    def _allowed(self, ids: Int64[np.ndarray, "*k"], allowed: Ids | None) -> Bool[np.ndarray, "*k"]:
        """Which rows are there and allowed."""
        if allowed is None:
            return np.asarray(ids != NO_ROW)
        places = np.minimum(np.searchsorted(allowed, ids), len(allowed) - 1)
        return np.asarray(allowed[places] == ids)

    def _good(self, ids: Ids, allowed: Ids | None = None) -> Bool[np.ndarray, " k"]:
        """Which rows are there, count and are allowed."""
        good = self._allowed(ids, allowed)
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
            wanted = ids[start : start + self._page]
            known, vectors = self._cache.find(wanted)
            found = wanted[known]
            if not known.all():
                rows, others = self._block(self._rows(_among(wanted[~known]), ["row", "vector"]))
                self._cache.keep(rows, others)
                order = np.argsort(found := np.concatenate([found, rows]))
                found, vectors = found[order], np.concatenate([vectors, others])[order]
            yield found, vectors

    def _gathered(self, ids: Ids, sent: Mapping[int, Sequence[float]]) -> RowBlock:
        """Rows that Milvus has sent with their vectors, or that are fetched: some may be gone meanwhile."""
        if sent:
            vectors = np.array([sent[row] for row in ids.tolist()], np.float32)
            self._cache.keep(ids, vectors)
            return ids, vectors
        return self._joined(self._fetched(ids))

    def _pages(self, fields: list[str], size: int) -> Iterator[list[MilvusRow]]:
        last = NO_ROW
        count = size
        while count == size:
            rows = self._rows(f"row > {last}", fields, limit=size)
            count = len(rows)
            if rows:
                yield rows
                last = rows[-1]["row"]

    def _rows(self, filter: str, fields: list[str], **how: int) -> list[MilvusRow]:  # noqa: A002
        if self._attached() is None:
            return []
        rows = self._link.query(self.name, filter, fields, self._since(), **how)
        return sorted(rows, key=lambda row: row.get("row", NO_ROW))

    def _since(self) -> int:
        """The cluster's time of what a reader has to see."""
        known = self._as_of()
        return self.written if known is None else known

    def _joined(self, blocks: Iterable[RowBlock]) -> RowBlock:
        """Some blocks as one, or an empty one of none."""
        ids, vectors = zip(self._block([]), *blocks, strict=True)
        return np.concatenate(ids), np.concatenate(vectors)

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
