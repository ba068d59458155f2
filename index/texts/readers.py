"""An index of what a text reader reads in the names and captions of items.

Each name and each caption is one row: a unit vector in steps of 1/127 of its largest number, with the size of
its step. An item scores by its best row. Products are sums of whole numbers, so an item scores the same
wherever its rows lie, whatever is beside them, and with or without numba.
"""

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float32, Int8, Int16, Int32, Int64

from index.contracts import Ids
from index.texts.contracts import ItemTexts, Scores, TextIndexError
from index.texts.word_arrays import places_of_best
from multifold.bundle.bundle import file_hash
from multifold.bundle.tensor_file import TensorFileError, read_tables, write_tables
from multifold.bundle.text_reader import TextReader
from multifold.durable import make_folder, write_file
from multifold.types import Vectors

Steps: TypeAlias = tuple[Int16[np.ndarray, " d"], float]  # a query: whole numbers, and the size of a step
ScoreRows: TypeAlias = Callable[[np.ndarray, np.ndarray, Ids, Ids, np.ndarray, np.ndarray], None]

ROWS_FILE, CONTENTS_FILE, FORMAT = "rows.safetensors", "contents.json", 1
SAVED = ("editions", "starts", "rows", "sizes", "labels")
NAME = -1  # the label of a name's row; a caption's is its place
MOST = 127  # steps to the largest number of a row
EXACT_DIM = 2**24 // MOST**2  # a float32 holds sums of so many products
PIECE = 1 << 15  # items scored at once without numba
TOLERATED = 4  # compaction when more than one item in so many is gone
QUERIES = 64  # whose vectors are kept


@dataclass(frozen=True, eq=False)
class ReaderRows:
    """Items by rising edition, and their rows; what is given out stays as it is."""

    editions: Int64[np.ndarray, " n"]
    starts: Int64[np.ndarray, " n+1"]  # where the rows of each item begin, and where the last one's end
    alive: Bool[np.ndarray, " n"]
    rows: Int8[np.ndarray, "r d"]
    sizes: Float32[np.ndarray, " r"]  # of a step
    labels: Int32[np.ndarray, " r"]
    living: Int64[np.ndarray, " l"] = field(init=False)  # places of the items that are there

    def __post_init__(self) -> None:
        object.__setattr__(self, "living", np.flatnonzero(self.alive))

    def find(self, editions: Ids) -> tuple[Ids, Bool[np.ndarray, " _"]]:
        """The place of each edition, and whether it is there at all."""
        places = np.minimum(np.searchsorted(self.editions, editions), len(self.editions) - 1)
        if not len(self.editions):
            return places, np.zeros(len(editions), np.bool_)
        return places, (self.editions[places] == editions) & self.alive[places]

    def take(self, places: Ids) -> "ReaderRows":
        """The items at these places, in this order, and nothing else."""
        counts = np.diff(self.starts)[places]
        starts = np.concatenate([[0], np.cumsum(counts)])
        chosen = np.repeat(self.starts[places] - starts[:-1], counts) + np.arange(starts[-1])
        return ReaderRows(
            self.editions[places],
            starts,
            np.ones(len(places), np.bool_),
            self.rows[chosen],
            self.sizes[chosen],
            self.labels[chosen],
        )


class ReaderIndex:
    """Texts of items by edition, asked with a text. One thread at a time writes; any number may ask."""

    def __init__(self, reader: TextReader) -> None:
        self.reader = reader
        self._held = _empty(reader.dim)
        self._room = self._held.rows  # rows with place for more behind them
        self._writing = threading.Lock()
        self._steps = lru_cache(QUERIES)(self._encode_query)

    def add(self, items: Sequence[ItemTexts]) -> None:
        """Add items; an edition that is already there is a TextIndexError, and nothing is added."""
        with self._writing:
            held, new = self._held, self._derive(sorted(items, key=lambda item: item.edition))
            repeated = new.editions[1:][np.diff(new.editions) == 0]
            repeated = np.append(repeated, new.editions[held.find(new.editions)[1]])
            if len(repeated):
                raise TextIndexError(f"Edition {repeated[0]} is already there: remove it first.")
            if not len(new.editions):
                return
            if len(held.editions) and new.editions[0] <= held.editions[-1]:
                held = held.take(held.living)
            joined = self._join(held, new)
            rising = (np.diff(joined.editions) > 0).all()
            if rising:
                self._held = joined
            else:
                self._move(joined.take(np.argsort(joined.editions)))

    def remove(self, editions: Sequence[int]) -> None:
        """Remove editions; those that are not there are ignored."""
        with self._writing:
            held = self._held
            places, there = held.find(np.asarray(editions, np.int64))
            if there.any():
                alive = held.alive.copy()
                alive[places[there]] = False
                self._held = held = replace(held, alive=alive)
                if len(held.living) * TOLERATED < len(alive) * (TOLERATED - 1):
                    self._move(held.take(held.living))

    def rank(self, query: str, limit: int, allowed: Ids | None = None) -> tuple[Ids, Scores]:
        """The best editions, best first, with scores above 0; ties go to the smaller edition."""
        held = self._held
        places = held.living
        if allowed is not None:
            found, there = held.find(np.unique(allowed))
            places = found[there]
        scores = self._scores(held, query, places)
        best = places_of_best(scores, limit)
        best = best[scores[best] > 0]
        order = best[np.argsort(-scores[best], kind="stable")][:limit]
        return held.editions[places[order]], scores[order]

    def scores(self, query: str, editions: Ids) -> Scores:
        """The cosine of each edition's best row, in their order; 0 where it has none, or the query none."""
        held = self._held
        places, there = held.find(editions)
        scores = np.zeros(len(editions), np.float32)
        scores[there] = self._scores(held, query, places[there])
        return scores

    def scores_of(self, query: str, items: Sequence[ItemTexts]) -> Scores:
        """The same for texts that are not in the index, such as an item with one caption hidden."""
        return self._scores(self._derive(items), query, np.arange(len(items)))

    def knows(self, query: str) -> bool:
        """Whether the reader knows any word of a query."""
        return self._steps(query)[1] > 0

    def best_texts(self, query: str, editions: Ids) -> list[int | str | None]:
        """Of each edition the text that matches best: a caption's place or "name"."""
        held, (steps, size) = self._held, self._steps(query)
        places, there = held.find(editions)
        return [
            self._best_text(held, place, steps) if is_there and size else None
            for place, is_there in zip(places.tolist(), there.tolist(), strict=True)
        ]

    def _best_text(self, held: ReaderRows, place: int, steps: Int16[np.ndarray, " d"]) -> int | str | None:
        rows = slice(*held.starts[place : place + 2])
        scores = held.rows[rows].astype(np.float64) @ steps * held.sizes[rows]
        if not len(scores) or scores.max() <= 0:
            return None
        label = int(held.labels[rows][scores.argmax()])
        return "name" if label == NAME else label

    def count(self) -> int:
        """How many items there are."""
        return len(self._held.living)

    @property
    def nbytes(self) -> int:
        """How much memory or mapped file it takes."""
        held = self._held
        parts = (held.editions, held.starts, held.alive, held.living, held.sizes, held.labels, self._room)
        return sum(part.nbytes for part in parts)

    def save(self, path: Path) -> None:
        """Write it into a folder that is made; what names its file comes last."""
        held = self._held.take(self._held.living)
        make_folder(path)
        write_tables(path / ROWS_FILE, {name: getattr(held, name) for name in SAVED})
        write_file(path / CONTENTS_FILE, json.dumps(self._contents(path)).encode())

    def load(self, path: Path) -> None:
        """Replace all of it by what was saved; a damaged or foreign save is a TextIndexError."""
        try:
            if json.loads((path / CONTENTS_FILE).read_bytes()) != self._contents(path):
                raise TextIndexError(f"{path} is damaged or of another text reader: delete it.")
            tables = read_tables(path / ROWS_FILE)
        except (OSError, ValueError, TensorFileError) as error:
            raise TextIndexError(f"{path} is no index of readings: {error}") from error
        with self._writing:
            self._move(ReaderRows(alive=np.ones(len(tables["editions"]), np.bool_), **tables))

    def _contents(self, path: Path) -> dict[str, object]:
        return {"format": FORMAT, "reader": self.reader.id, "sha256": file_hash(path / ROWS_FILE)}

    def _derive(self, items: Sequence[ItemTexts]) -> ReaderRows:
        """The rows of items; a text of which the reader knows nothing has none."""
        texts = [(NAME, item.name, place) for place, item in enumerate(items)]
        texts += [
            (label, caption, place)
            for place, item in enumerate(items)
            for label, caption in enumerate(item.captions)
        ]
        texts.sort(key=lambda one: one[2])
        vectors = self.reader.encode([text for _, text, _ in texts])
        said = vectors.any(axis=1)
        rows, sizes = quantise(vectors[said])
        owners = np.array([place for *_, place in texts], np.int64)[said]
        labels = np.array([label for label, *_ in texts], np.int32)[said]
        starts = np.searchsorted(owners, np.arange(len(items) + 1))
        editions = np.array([item.edition for item in items], np.int64)
        return ReaderRows(editions, starts, np.ones(len(items), np.bool_), rows, sizes, labels)

    def _join(self, held: ReaderRows, new: ReaderRows) -> ReaderRows:
        """Both, one after the other; held rows are not copied while there is room behind them."""
        used, end = len(held.rows), len(held.rows) + len(new.rows)
        if end > len(self._room) or held.rows.base is not self._room:
            self._room = np.empty((max(end, used * 3 // 2), self.reader.dim), np.int8)
            self._room[:used] = held.rows
        self._room[used:end] = new.rows
        return ReaderRows(
            np.concatenate([held.editions, new.editions]),
            np.concatenate([held.starts, used + new.starts[1:]]),
            np.concatenate([held.alive, new.alive]),
            self._room[:end],
            np.concatenate([held.sizes, new.sizes]),
            np.concatenate([held.labels, new.labels]),
        )

    def _move(self, held: ReaderRows) -> None:
        """Hold rows that lie somewhere else; the former ones are let go."""
        self._held, self._room = held, held.rows

    def _encode_query(self, query: str) -> Steps:
        steps, sizes = quantise(self.reader.encode([query]))
        return steps[0].astype(np.int16), float(sizes[0])

    def _scores(self, held: ReaderRows, query: str, places: Ids) -> Scores:
        """The score of the best row of the item at each place."""
        steps, size = self._steps(query)
        scores = np.zeros(len(places), np.float32)
        if size and len(places):
            (load_compiled() or score_rows)(held.rows, held.sizes, held.starts, places, steps, scores)
            scores *= np.float32(size)
        return scores


def _empty(dim: int) -> ReaderRows:
    nothing = np.empty(0, np.int64)
    rows = np.empty((0, dim), np.int8)
    return ReaderRows(
        nothing,
        np.zeros(1, np.int64),
        np.empty(0, np.bool_),
        rows,
        np.empty(0, np.float32),
        np.empty(0, np.int32),
    )


def quantise(vectors: Vectors) -> tuple[Int8[np.ndarray, "b d"], Float32[np.ndarray, " b"]]:
    """Each vector in whole steps, and the size of its step; 0 for a vector of zeros."""
    sizes = np.abs(vectors).max(axis=1, initial=0.0) / np.float32(MOST)
    steps = np.divide(vectors, sizes[:, None], out=np.zeros_like(vectors), where=sizes[:, None] > 0)
    return np.rint(steps).astype(np.int8), sizes


@cache
def load_compiled() -> ScoreRows | None:
    """The scores of many rows in a small part of the time, where numba is installed."""
    if find_spec("numba") is None:
        return None
    return import_module("index.texts.numba_reading").score_rows  # type: ignore[no-any-return]


def score_rows(
    rows: Int8[np.ndarray, "r d"],
    sizes: Float32[np.ndarray, " r"],
    starts: Int64[np.ndarray, " s"],
    places: Int64[np.ndarray, " p"],
    query: Int16[np.ndarray, " d"],
    scores: Float32[np.ndarray, " p"],
) -> None:
    """Write the best product of the query with the rows of each item, in plain numpy."""
    exact = np.float32 if rows.shape[1] <= EXACT_DIM else np.float64
    asked = query.astype(exact)
    for first in range(0, len(places), PIECE):
        some = places[first : first + PIECE]
        counts = starts[some + 1] - starts[some]
        ends = np.cumsum(counts)
        chosen = np.repeat(starts[some] - ends + counts, counts) + np.arange(ends[-1])
        products = (rows[chosen].astype(exact) @ asked).astype(np.float32) * sizes[chosen]
        full = counts > 0
        if full.any():
            scores[first : first + PIECE][full] = np.maximum.reduceat(products, (ends - counts)[full])
