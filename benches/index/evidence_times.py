"""What a search of the target `item` costs beside `shape`, and in which stage, in a large collection.

Its items are like those of the collection that was given: features of one of them with noise, and captions
in which some words are others. The targets take turns, so other work on the machine meets all of them. The
CPU time is that of the thread that searches, without encoding.

The fit may switch legs off, which then cost less: so the item is also searched with the weights from before
any fit, which use all legs.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benches.reporting import head, row
from index.collection import Collection
from index.search.evidence import EvidenceScorer
from index.search.evidence_model import NAMES, UNFITTED, EvidenceModel
from index.search.search import Searcher, SearchRequest
from multifold.bundle.encoder import Encoder
from multifold.types import Features, Item, LexicalQuery, Observation, Query, Target

VIEWS, CAPTIONS = 6, 3
NOISE = 0.7  # beside the standard deviation of each number of a feature
OTHER = 0.3  # of the words of a caption
WORDS = 50_000  # that stand for those, by Zipf's law
TOGETHER = 1024  # items of one upsert
QUERIES = 512
SHOWN = ("p50", "p95", "p95 beside shape")
STAGES = ("encode", "candidates", "scores", "read")
TARGETS: Mapping[str, Target] = {"shape": "shape", "item": "item", "item, all legs": "item"}


@dataclass(frozen=True)
class LikenessMaker:
    """Makes items that are like others."""

    items: Sequence[Item]  # with views and captions
    spread: Features

    def item(self, number: int) -> Item:
        """One item, by its number."""
        rng = np.random.default_rng(number)
        model = self.items[int(rng.integers(len(self.items)))]
        shift = NOISE * rng.standard_normal(len(self.spread[0])) * self.spread[0]
        views = [one for one in model.observations if one.kind == "view"]
        told = [one for one in model.observations if one.kind == "caption"]
        seen = [views[place % len(views)] for place in range(VIEWS)]
        said = [told[place % len(told)] for place in range(CAPTIONS)]
        return Item(
            f"likeness-{number:07}",
            (
                *(self._observation("view", place, one, shift) for place, one in enumerate(seen)),
                *(
                    replace(
                        self._observation("caption", place, one, shift), text=self.text(one.text or "", rng)
                    )
                    for place, one in enumerate(said)
                ),
            ),
            {"number": number},
        )

    def text(self, text: str, rng: np.random.Generator) -> str:
        """A text with some other words."""
        words = text.split()
        ranks = np.minimum(rng.zipf(1.2, len(words)), WORDS).tolist()
        other = (rng.random(len(words)) < OTHER).tolist()
        return " ".join(
            f"word{rank}" if is_other else word
            for word, rank, is_other in zip(words, ranks, other, strict=True)
        )

    def query(self, number: int) -> str:
        """A text that asks."""
        rng = np.random.default_rng([number, 1])
        model = self.items[int(rng.integers(len(self.items)))]
        return self.text(next(one.text or "" for one in model.observations if one.kind == "caption"), rng)

    def _observation(self, kind: str, place: int, model: Observation, shift: Features) -> Observation:
        return Observation(kind, place, (model.feature + shift).astype(np.float32))  # type: ignore[arg-type]


def likeness_maker(items: Sequence[Item]) -> LikenessMaker:
    """What makes items like those that have views and captions."""
    whole = [item for item in items if {"view", "caption"} <= {one.kind for one in item.observations}]
    views = np.stack([one.feature for item in whole for one in item.observations if one.kind == "view"])
    return LikenessMaker(whole, views.std(axis=0)[None].astype(np.float32))


def fill(collection: Collection, maker: LikenessMaker, wanted: int) -> None:
    """Write what is missing of so many items."""
    for first in tqdm(
        range(collection.count(), wanted, TOGETHER), "writing", unit_scale=TOGETHER, disable=None
    ):
        collection.upsert([maker.item(number) for number in range(first, min(first + TOGETHER, wanted))])
    collection.texts.settle()
    collection.engines.settle()


class StageClock:
    """Adds up the time of some methods, by stage, for one search at a time in each thread."""

    def __init__(self) -> None:
        self._local = threading.local()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.spent[name] += time.perf_counter() - start

    @property
    def spent(self) -> dict[str, float]:
        """Seconds by stage, in this thread."""
        if not hasattr(self._local, "spent"):
            self._local.spent = defaultdict(float)
        return self._local.spent  # type: ignore[no-any-return]

    @contextmanager
    def watching(self, *methods: tuple[type, str, str]) -> Iterator[None]:
        """Time these methods, each with its stage, while the block runs."""
        former = [(owner, name, getattr(owner, name)) for owner, name, _ in methods]
        for (owner, name, method), (_, _, stage) in zip(former, methods, strict=True):
            setattr(owner, name, self._timed(method, stage))
        try:
            yield
        finally:
            for owner, name, method in former:
                setattr(owner, name, method)

    def _timed(self, method: Callable[..., Any], stage: str) -> Callable[..., Any]:
        @wraps(method)
        def timed(*args: Any, **named: Any) -> Any:  # noqa: ANN401 (any method)
            with self.stage(stage):
                return method(*args, **named)

        return timed


METHODS = (
    (EvidenceScorer, "candidates", "candidates"),
    (EvidenceScorer, "scores", "scores"),
    (Searcher, "_read", "read"),
)


def print_times(
    encoder: Encoder, items: Sequence[Item], wanted: int, folder: Path, clients: Sequence[int], rounds: int
) -> None:
    """Fill a collection in this folder, and search it."""
    maker = likeness_maker(items)
    with Collection.open(folder, encoder, reader=encoder.reader) as collection:
        fill(collection, maker, wanted)
        model = collection.evidence() or collection.fit_evidence(lambda texts: encoder.texts(texts).features)
        texts = [maker.query(number) for number in range(QUERIES)]
        print(f"\n{collection.count()} items of {VIEWS} views and {CAPTIONS} captions, milliseconds\n")
        kept = [name for name, weight in zip(NAMES, model.of("text").weights, strict=True) if weight]
        print(f"The fit weighs {', '.join(kept) or 'nothing'}.\n")
        print(
            head("clients", "target", *(f"{what}{of}" for of in ("", " of CPU") for what in SHOWN), *STAGES)
        )
        for count in clients:
            _print_clients(SearchTimer(encoder, collection, model, texts), count, rounds)


@dataclass(frozen=True)
class SearchTimer:
    """Searches with a text, and how long they take."""

    encoder: Encoder
    collection: Collection
    model: EvidenceModel
    texts: Sequence[str]

    def search(self, number: int, target: str, clock: StageClock) -> dict[str, float]:
        """The seconds of each stage of one search."""
        clock.spent.clear()
        text = self.texts[number % len(self.texts)]
        with clock.stage("whole"):
            with clock.stage("encode"):
                vector = self.encoder.vectors(self.encoder.texts([text]).features)[0]
            query = Query(vector, TARGETS[target], words=LexicalQuery(text))
            model, start = self.model if target in ("shape", "item") else UNFITTED, time.thread_time()
            self.collection.search_many([SearchRequest(query, evidence=model)])
            clock.spent["CPU"] = time.thread_time() - start
        return dict(clock.spent)


def _print_clients(timer: SearchTimer, clients: int, rounds: int) -> None:
    """Every client asks each target in turn, so much of each at a time that the others ask the same."""
    clock, times = StageClock(), {target: list[dict[str, float]]() for target in TARGETS}
    with clock.watching(*METHODS):
        for turn in range(rounds):
            for target in TARGETS:

                def ask(client: int, turn: int = turn, target: str = target) -> None:
                    for number in range(turn * 64 + client, (turn + 1) * 64, clients):
                        times[target].append(timer.search(number, target, clock))

                threads = [threading.Thread(target=ask, args=(client,)) for client in range(clients)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
    for target, some in times.items():
        shown = [one for stage in ("whole", "CPU") for one in _quantiles(times, target, stage)]
        stages = [np.median([one.get(stage, 0.0) for one in some]) * 1e3 for stage in STAGES]
        print(row(clients, target, *(f"{one:.2f}" for one in [*shown, *stages])), flush=True)


def _quantiles(times: Mapping[str, Sequence[dict[str, float]]], target: str, stage: str) -> list[float]:
    """The median and the p95 of a stage, and the p95 beside that of the shape."""
    middle, late = np.percentile([one[stage] for one in times[target]], [50, 95]) * 1e3
    shape = np.percentile([one[stage] for one in times["shape"]], 95) * 1e3
    return [middle, late, late / shape]
