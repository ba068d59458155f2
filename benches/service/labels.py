"""How often the labels of a payload key are told apart, and how far the confidence is true.

    multifold bench labels --data data/furniture --key kind --known 0 1 4

The collection is not changed. Its items are written into a new one with so many of their captions; names are
all alike. Every second item keeps its value of the key, which is what the confidence is fitted on. The others
are asked for it, once without the answers of the first ("prior"), and once with them ("collection").
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float64, Int64

from app.search.labelling import Label, known_answers, label_queries
from benches.reporting import head, row
from index.collection import Collection
from index.commands.common import add_bundle
from index.search.labels import Answers, LabelScorer, LabelTable, judge_labels
from index.search.reranking import OutsideThing
from index.store import browse
from multifold.analysis.zero_shot import PROMPTS, fill_prompts
from multifold.bundle.calibration import expected_calibration_error, reliability_bins
from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import Encoder
from multifold.errors import MultifoldError
from multifold.types import Item, Observation

SHOWN = (
    "subject",
    "weights",
    "subjects",
    "right",
    "mean confidence",
    "ECE",
    "without the right label",
    "none",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="folder of a collection of the bundle")
    add_bundle(parser)
    parser.add_argument("--key", default="kind", help="of the payload; its values are the labels")
    parser.add_argument(
        "--known", nargs="+", type=int, default=[0, 1, 4], metavar="N", help="captions stored"
    )
    parser.add_argument("--templates", nargs="+", default=[*PROMPTS], help="prompts; {} is the label")


def run(args: argparse.Namespace) -> int:
    encoder = open_encoder(args.bundle)
    with Collection.open(args.data, encoder, read_only=True) as collection:
        items = [item for name in collection.ids() if (item := collection.get(name)) is not None]
    items = [item for item in items if isinstance(item.payload.get(args.key), str)]
    if not items:
        raise MultifoldError(f"no item of {args.data} has a text under {args.key!r}")
    names = sorted({str(item.payload[args.key]) for item in items})
    labels = [Label(name, fill_prompts(name, args.templates)) for name in names]
    print(f"{len(items)} items, {len(labels)} labels of {args.key!r}\n\n{head(*SHOWN)}")
    for known in args.known:
        with _collection_of(encoder, items, known, args.key) as collection:
            _measure(encoder, collection, items, known, labels, args.key)
    return 0


@contextmanager
def _collection_of(encoder: Encoder, items: Sequence[Item], known: int, key: str) -> Iterator[Collection]:
    """The items with so many captions; every second one has its answer."""

    def stored(place: int, item: Item) -> Item:
        kept = tuple(one for one in item.observations if one.kind != "caption" or one.index < known)
        return Item(f"final_v{place}", kept, {} if place % 2 else {key: item.payload[key]})

    with (
        tempfile.TemporaryDirectory(prefix="multifold-labels-") as folder,
        Collection.open(Path(folder), encoder, reader=encoder.reader) as collection,
    ):
        collection.upsert([stored(place, item) for place, item in enumerate(items)])
        yield collection


def _measure(
    encoder: Encoder,
    collection: Collection,
    items: Sequence[Item],
    known: int,
    labels: Sequence[Label],
    key: str,
) -> None:
    asked = range(1, len(items), 2)
    places = {label.text: place for place, label in enumerate(labels)}
    right = np.array([places[str(items[place].payload[key])] for place in asked])
    queries = label_queries(encoder, tuple(labels))
    with collection.scoring() as (scorer, now):
        label_scorer = LabelScorer(scorer, encoder, now, queries)
        answers = known_answers(now, scorer.strangers, labels, key)
        editions = browse.editions_of(now, [f"final_v{place}" for place in asked])
        inside = np.array([editions[f"final_v{place}"] for place in asked], np.int64)
        order = np.argsort(inside)
        tables = {f"item, {known} captions": (label_scorer.table(inside[order]), right[order])}
        if not known:
            for what, things in _things(encoder, [items[place] for place in asked]).items():
                tables[what] = (label_scorer.table(np.empty(0, np.int64), things), right)
    for what, ((subjects, strangers, _), truth) in tables.items():
        for said, some in (("prior", None), ("collection", answers)):
            print(row(what, said, *_figures(subjects, strangers, truth, some)))


def _things(encoder: Encoder, items: Sequence[Item]) -> dict[str, list[OutsideThing]]:
    """One view as a photo, and the last caption, of each item, as things that are not in the collection."""

    def thing(one: Observation) -> OutsideThing:
        side = "text" if one.text is not None else "image"
        return OutsideThing(side, encoder.vectors(one.feature[None])[0], one.text)  # type: ignore[arg-type]

    firsts = [next(one for one in item.observations if one.kind == "view") for item in items]
    lasts = [[one for one in item.observations if one.kind == "caption"][-1] for item in items]
    return {"a picture": [thing(one) for one in firsts], "a text": [thing(one) for one in lasts]}


def _figures(
    subjects: LabelTable, strangers: LabelTable, right: Int64[np.ndarray, " s"], answers: Answers | None
) -> list[str]:
    chances = judge_labels(subjects, strangers, answers, exclusive=True)
    sure, hit = _first(chances.confidence, right)
    taken = [np.flatnonzero(right == label) for label in np.unique(right)]
    wrongly, none = [], []
    for of_label in taken:
        label = int(right[of_label[0]])
        fewer = None if answers is None else [_without(one, label) for one in answers]
        cut = (np.delete(subjects[of_label], label, axis=1), np.delete(strangers, label, axis=1))
        without = judge_labels(*cut, fewer, exclusive=True)
        wrongly += without.confidence.max(axis=1).tolist()
        none += without.none.tolist()
    ece = expected_calibration_error(reliability_bins(sure, hit))
    shown = [hit.mean(), sure.mean(), ece, np.mean(wrongly), np.mean(none)]
    return [str(len(right)), *(f"{value:.3f}" for value in shown)]


def _without(answers: frozenset[int], label: int) -> frozenset[int]:
    """Answers where one label is taken away, and those behind it move up."""
    return frozenset(one - (one > label) for one in answers if one != label)


def _first(
    confidence: Float64[np.ndarray, "s l"], right: Int64[np.ndarray, " s"]
) -> tuple[Float64[np.ndarray, " s"], Bool[np.ndarray, " s"]]:
    """The confidence of the surest label of each subject, and whether it is right."""
    return confidence.max(axis=1), confidence.argmax(axis=1) == right
