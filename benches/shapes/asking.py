"""What a trained encoder finds: every query of every task, by each leg of it and by their sum."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Bool, Float32, Int64

from benches.shapes.worlds import AskedItems, ShapeWorld
from multifold.manifest import ManifestEntry
from multifold.metrics import ranks, recall_at_k
from multifold.scores import similarities
from multifold.types import Features, pool_mean
from training import prepare
from training.checkpoint import Checkpoint
from training.retrieval.encoder import TorchEncoder

QueryKind: TypeAlias = Literal["text", "picture", "shape"]
Scores: TypeAlias = Float32[np.ndarray, "q g"]

SPREAD = 1e-9
SHARES = tuple(round(0.1 * tenth, 1) for tenth in range(11))  # of the points in a sum
KINDS: Mapping[str, QueryKind] = {
    "text → shape": "text",
    "few sides → shape": "text",
    "text → turned": "text",
    "text → remeshed": "text",
    "picture → shape": "picture",
    "turned → shape": "shape",
    "remeshed → shape": "shape",
}
WEIGHED_BY: Mapping[QueryKind, str] = {
    "text": "text → shape",
    "picture": "picture → shape",
    "shape": "turned → shape",
}


@dataclass(frozen=True)
class TaskScores:
    """Scores of each query with each item, standardised over the items: one table for each leg."""

    legs: Sequence[Scores]
    owners: Int64[np.ndarray, " q"]  # the item of each query
    relevant: Bool[np.ndarray, "q g"]

    def ranks(self, share: float) -> Int64[np.ndarray, " q"]:
        """The rank of each query's item; of two legs the second has this share of the sum."""
        first, last = self.legs[0], self.legs[-1]
        return ranks(first if len(self.legs) == 1 else (1 - share) * first + share * last, self.relevant)


@dataclass(frozen=True)
class Answers:
    """For each task whether each query has found its item, and which item that is."""

    hits: Mapping[str, Mapping[str, list[float]]]  # task -> "R@k" -> one number a query
    items: Mapping[str, list[int]]
    shares: Mapping[QueryKind, float]  # of the points in the sum


def ask(trained: Checkpoint, world: ShapeWorld, cache: Path) -> dict[str, Answers]:
    """The answers of the encoder; where it has two legs, those of each alone, too."""
    tasks = score_tasks(trained, world.held_out, cache)
    if len(tasks["text → shape"].legs) == 1:
        return {"": _answers(tasks, dict.fromkeys(WEIGHED_BY, 0.0))}
    weighed = score_tasks(trained, world.weighed, cache)
    shares = {kind: best_share(weighed[task]) for kind, task in WEIGHED_BY.items()}
    alone = {"by views": 0.0, "by points": 1.0}
    return {"": _answers(tasks, shares)} | {
        leg: _answers(tasks, dict.fromkeys(WEIGHED_BY, share)) for leg, share in alone.items()
    }


def best_share(task: TaskScores) -> float:
    """The share of the points by which the items' reciprocal ranks are highest, the more even one of two."""
    return max(SHARES, key=lambda share: (round(float((1 / task.ranks(share)).mean()), 6), -abs(share - 0.5)))


def score_tasks(trained: Checkpoint, asked: AskedItems, cache: Path) -> dict[str, TaskScores]:
    """All tasks that the encoder and these items allow."""
    read = ItemReader(trained, cache)
    shapes, turned = read.shapes(asked.entries), read.shapes(asked.turned)
    texts = [text for some in asked.texts for text in some]
    words = [read.encoder.texts(texts).features] * len(shapes)
    of_text = np.repeat(np.arange(len(asked.entries)), [len(some) for some in asked.texts])
    each = np.arange(len(asked.entries))
    queries = {
        "text → shape": (words, shapes, of_text),
        "text → turned": (words, turned, of_text),
        "turned → shape": (turned, shapes, each),
    }
    if asked.remeshed:
        remeshed = read.shapes(asked.remeshed)
        queries["text → remeshed"] = words, remeshed, of_text
        queries["remeshed → shape"] = remeshed, shapes, each
    if (pictures := read.pictures(asked.turned)) is not None:
        queries["picture → shape"] = [pictures] * len(shapes), shapes, each
    keys = np.array(asked.keys)
    found = {
        task: TaskScores(read.scores(some, there), of, keys[of][:, None] == keys[None])
        for task, (some, there, of) in queries.items()
    }
    if (rare := asked.hidden).any():
        whole = found["text → shape"]
        legs = [leg[rare] for leg in whole.legs]
        found["few sides → shape"] = TaskScores(legs, whole.owners[rare], whole.relevant[rare])
    return found


class ItemReader:
    """Items as a trained encoder knows them."""

    def __init__(self, trained: Checkpoint, cache: Path) -> None:
        self.recipe, self.cache = trained.recipe, cache
        self.encoder = TorchEncoder(trained.model, prepare.reader(trained.recipe, trained.tokenizer))
        began = self.recipe.train.start is not None  # beside towers that have learned views before
        self.sees = self.recipe.loss.sees or began

    def shapes(self, entries: Sequence[ManifestEntry]) -> list[Features]:
        """The features of items by each leg that the encoder has: by views, by points."""
        found = []
        if self.sees:
            views = np.asarray(prepare.views(self.recipe, entries, self.cache))
            found.append(np.stack([pool_mean(self.encoder.pixels(some)) for some in views]))
        if (points := prepare.points(self.recipe, entries, self.cache)) is not None:
            found.append(self.encoder.grouped_points(points))
        return found

    def pictures(self, entries: Sequence[ManifestEntry]) -> Features | None:
        """One view of each item."""
        if not self.sees:
            return None
        return self.encoder.pixels(np.asarray(prepare.views(self.recipe, entries, self.cache))[:, 0])

    def scores(
        self,
        queries: Sequence[Float32[np.ndarray, "q n"]],
        gallery: Sequence[Float32[np.ndarray, "g n"]],
    ) -> list[Scores]:
        """For each leg, standardised over the gallery."""
        tables = []
        for asked, there in zip(queries, gallery, strict=True):
            some = similarities(self.encoder, self.encoder.vectors(asked), self.encoder.vectors(there))
            spread = some.std(axis=1, keepdims=True) + SPREAD
            tables.append(np.asarray((some - some.mean(axis=1, keepdims=True)) / spread, np.float32))
        return tables


def _answers(tasks: Mapping[str, TaskScores], shares: Mapping[QueryKind, float]) -> Answers:
    hits, items = {}, {}
    for name, task in tasks.items():
        found = task.ranks(shares[KINDS[name]])
        hits[name] = {f"R@{k}": recall_at_k(found, k).tolist() for k in (1, 10)}
        items[name] = task.owners.tolist()
    return Answers(hits, items, dict(shares))
