"""An index of what a text reader reads in the captions of items, or else in their names.

Each caption is one row. Where there is none, the name and its last step are: a unit vector in steps of 1/127
of its largest number, with the size of its step. An item scores by its best row. Products are sums of whole
numbers, so an item scores the same wherever its rows lie, and whatever is beside them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float32, Int8, Int16, Int32

from index.contracts import Ids
from index.texts.analysis import path_steps, words_of_name
from index.texts.contracts import NAME, NOTHING, ItemTexts, Scores, TextIndexError, TextMatch, text_of_label
from index.texts.kernels import score_rows
from index.texts.saving import read_arrays, write_arrays
from index.texts.segments import LivingItems, TextSegment, TextSegments, ends_of, places_of_best
from multifold.bundle.text_reader import TextReader
from multifold.types import Vectors

Steps: TypeAlias = tuple[Int16[np.ndarray, " d"], float]  # a query: whole numbers, and the size of a step

OF_NAME = -1 - NAME  # the label of a name's row; a caption's is its place
STEPS_TO_LARGEST = 127  # steps to the largest number of a row
KEPT_QUERY_VECTORS = 64  # whose vectors are kept


@dataclass(frozen=True, eq=False)
class ReaderSegment(TextSegment):
    """Items and their rows."""

    rows: Int8[np.ndarray, "r d"]
    sizes: Float32[np.ndarray, " r"]  # of a step
    labels: Int32[np.ndarray, " r"]

    def score(self, query: Steps, places: Ids) -> tuple[Scores, Ids]:
        """The score of the best row of the item at each place, and which row that is; -1 where none is."""
        steps, size = query
        scores, best = np.zeros(len(places), np.float32), np.full(len(places), -1, np.int64)
        if size:
            score_rows(self.rows, self.sizes, self.starts, places, steps, scores, best)
            scores *= np.float32(size)
        return scores, best


def merged_segment(parts: Sequence[ReaderSegment]) -> ReaderSegment:
    """What is alive in some segments as one."""
    living = LivingItems.of(parts)
    return ReaderSegment(
        living.editions,
        living.starts,
        np.ones(len(living.editions), np.bool_),
        living.joined([part.rows for part in parts]),
        living.joined([part.sizes for part in parts]),
        living.joined([part.labels for part in parts]),
    )


class ReaderIndex:
    """Texts of items by edition, asked with a text. One thread at a time writes; any number may ask."""

    def __init__(self, reader: TextReader) -> None:
        self.reader = reader
        self._segments = TextSegments(merged_segment)
        self._steps = lru_cache(KEPT_QUERY_VECTORS)(self._encode_query)

    def add(self, items: Sequence[ItemTexts]) -> None:
        """Add items; an edition that is already there is a TextIndexError, and nothing is added."""
        self._segments.check_new(np.array([item.edition for item in items], np.int64))
        if items:
            self._segments.add(self._read(sorted(items, key=lambda item: item.edition)))

    def remove(self, editions: Sequence[int]) -> None:
        """Remove editions; those that are not there are ignored."""
        self._segments.remove(editions)

    def rank(self, query: str, limit: int, allowed: Ids | None = None) -> tuple[Ids, Scores]:
        """The best editions, best first, with scores above 0; ties go to the smaller edition."""
        editions, scores = [np.empty(0, np.int64)], [np.empty(0, np.float32)]
        for part in self._segments.now:
            places = np.flatnonzero(part.allowed(allowed))
            said, _ = part.score(self._steps(query), places)
            best = places_of_best(said, limit)
            editions.append(part.editions[places[best]])
            scores.append(said[best])
        every, values = np.concatenate(editions), np.concatenate(scores)
        order = np.lexsort((every, -values))[: max(limit, 0)]
        return every[order], values[order]

    def scores(self, query: str, editions: Ids) -> Scores:
        """The cosine of each edition's best row, in their order; 0 where it has none, or the query none."""
        scores = np.zeros(len(editions), np.float32)
        for part in self._segments.now:
            places = part.places(editions)
            there = places >= 0
            scores[there] = part.score(self._steps(query), places[there])[0]
        return scores

    def scores_of(self, query: str, items: Sequence[ItemTexts]) -> Scores:
        """The same for texts that are not in the index, such as an item with one caption hidden."""
        return self._read(items).score(self._steps(query), np.arange(len(items)))[0]

    def matches(self, query: str, editions: Ids) -> list[TextMatch]:
        """The text of each edition that matches best: a caption's place or "name"."""
        labels = np.full(len(editions), NOTHING, np.int64)
        for part in self._segments.now:
            places = part.places(editions)
            there = np.flatnonzero(places >= 0)
            scores, best = part.score(self._steps(query), places[there])
            labels[there[scores > 0]] = part.labels[best[scores > 0]]
        return [TextMatch(text_of_label(label)) for label in labels.tolist()]

    def knows(self, editions: Ids) -> Bool[np.ndarray, " n"]:
        """Which editions have a text that the reader knows."""
        known = np.zeros(len(editions), np.bool_)
        for part in self._segments.now:
            places = part.places(editions)
            there = places >= 0
            known[there] = part.starts[places[there] + 1] > part.starts[places[there]]
        return known

    def count(self) -> int:
        return self._segments.count()

    @property
    def nbytes(self) -> int:
        """How much memory or mapped file it takes."""
        return self._segments.nbytes

    def save(self, path: Path) -> None:
        """Write it into a folder that is made."""
        write_arrays(path, self._segments.saved(), {"reader": self.reader.id})

    def load(self, path: Path) -> None:
        """Replace all of it by what was saved; a damaged or foreign save is a TextIndexError."""
        groups, about = read_arrays(path)
        if about.get("reader") != self.reader.id:
            raise TextIndexError(f"{path} is of another text reader: delete it and it is built again")
        self._segments.replace([ReaderSegment.read(arrays) for arrays in groups.values()])

    def _read(self, items: Sequence[ItemTexts]) -> ReaderSegment:
        """The rows of items; a text of which the reader knows nothing has none."""
        texts = list[str]()
        labels = list[int]()
        owners = list[int]()
        for place, item in enumerate(items):
            of_item = list(item.captions)
            if not of_item:  # folders say little of what a file is called, or all: both are read
                names = map(words_of_name, (item.name, path_steps(item.name)[-1]))
                of_item = list(dict.fromkeys(names))
            texts += of_item
            labels += range(len(of_item)) if item.captions else [OF_NAME] * len(of_item)
            owners += [place] * len(of_item)
        vectors = self.reader.encode(texts)
        said = vectors.any(axis=1)
        rows, sizes = quantise(vectors[said])
        return ReaderSegment(
            np.array([item.edition for item in items], np.int64),
            ends_of(np.bincount(np.array(owners, np.int64)[said], minlength=len(items))),
            np.ones(len(items), np.bool_),
            rows,
            sizes,
            np.array(labels, np.int32)[said],
        )

    def _encode_query(self, query: str) -> Steps:
        steps, sizes = quantise(self.reader.encode([query]))
        return steps[0].astype(np.int16), float(sizes[0])


def quantise(vectors: Vectors) -> tuple[Int8[np.ndarray, "b d"], Float32[np.ndarray, " b"]]:
    """Each vector in whole steps, and the size of its step; 0 for a vector of zeros."""
    sizes = np.abs(vectors).max(axis=1, initial=0.0) / np.float32(STEPS_TO_LARGEST)
    steps = np.divide(vectors, sizes[:, None], out=np.zeros_like(vectors), where=sizes[:, None] > 0)
    return np.rint(steps).astype(np.int8), sizes
