"""What the evidence of all sides finds, beside each leg by itself: the default target of a search.

    multifold bench evidence --data data/furniture --known 0 1 2 4
    multifold bench evidence --data data/furniture --known 4 --pictures
    multifold bench evidence --data data/furniture --queries queries.jsonl
    multifold bench evidence --data data/furniture --times 100000 --scratch data/large

The collection is not changed. Its items are written into a new one with so many of their captions (all with
--known all); one caption that is not stored asks, and so do some words of it, some words of a stored one, and
the name. Weights are fitted on what is stored. No item asks that they were fitted on, where others are there.

Queries of your own are a file with a line {"text": "a sofa", "right": "couch|settee"} for each: `right` is a
regular expression, looked for in the id and the captions of items. Queries for which nothing is right are
left out.
"""

import argparse
import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float64

from benches.index.evidence_times import print_times
from benches.index.evidence_worlds import AskingPart, EvidenceWorld, WorldOptions, make_world
from benches.index.translations import LANGUAGES
from benches.reporting import head, row
from index.collection import Collection
from index.commands.options import add_bundle
from index.contracts import Ids
from index.search.evidence import RING, EvidenceQuery, EvidenceTable, RankedRing
from index.search.evidence_fit import fit_evidence, fit_weights, loss_of, teaching
from index.search.evidence_model import COLUMNS, LEGS, NAMES, SideModel, find_rivals, prior_weights
from index.search.evidence_questions import questions, read_known_items
from index.search.evidence_trials import Trial, TrialMaker
from index.search.search import engine_query
from index.store.item_rows import read_summaries
from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import Encoder
from multifold.errors import MultifoldError
from multifold.metrics import bootstrap
from multifold.types import Item, Leg, Side

DEPTH = 10
SHOWN = (
    "asked with",
    "queries",
    "ranked by",
    "R@1",
    "R@5",
    "R@10",
    "NDCG@10",
    "beside the best leg",
    "beside the pair",
)
ALL = "all"
BINS = 10  # of confidences
QUERY_LINE = '{"text": "a sofa", "right": "couch|settee"}'
PerQuery = Float64[np.ndarray, " q"]
Places = Sequence[Sequence[int]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="folder of a collection of the bundle")
    add_bundle(parser)
    parser.add_argument("--known", nargs="+", default=[ALL], metavar="N", help="captions stored, or all")
    parser.add_argument("--items", type=int, default=250, help="at most so many ask; %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of captions and words")
    parser.add_argument(
        "--seeds", type=int, default=1, help="so many of them, whose queries are put together"
    )
    parser.add_argument("--pictures", action="store_true", help="photos and views ask")
    parser.add_argument(
        "--wrong", type=float, default=0.0, help="share of items with captions of another one"
    )
    parser.add_argument("--plain-names", action="store_true", help="all names alike, without payloads")
    parser.add_argument("--language", choices=LANGUAGES, help="of the stored captions, word by word")
    parser.add_argument("--stuffed", type=int, default=0, help="items with a hundred captions of others")
    parser.add_argument("--queries", type=Path, help="JSONL of texts and what they should find")
    parser.add_argument("--times", type=int, metavar="N", help="measure times, with so many items like these")
    parser.add_argument("--scratch", type=Path, help="folder of those items, kept; default: thrown away")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8], help="at once, for the times")
    parser.add_argument("--rounds", type=int, default=8, help="of 64 searches for each target, for the times")


def run(args: argparse.Namespace) -> int:
    encoder = open_encoder(args.bundle)
    with Collection.open(args.data, encoder, read_only=True) as collection:
        items = [item for name in collection.ids() if (item := collection.get(name)) is not None]
    if args.times is not None:
        with tempfile.TemporaryDirectory(prefix="multifold-evidence-") as folder:
            print_times(encoder, items, args.times, args.scratch or Path(folder), args.clients, args.rounds)
        return 0
    if args.queries is not None:
        world = EvidenceWorld(items, {args.queries.stem: read_queries(args.queries, items)})
        print(f"\n{len(items)} items\n\n{head(*SHOWN)}")
        _print_worlds([_ask_world(encoder, world)])
        return 0
    for known in args.known:
        options = WorldOptions(
            None if known == ALL else int(known),
            args.pictures,
            args.wrong,
            args.plain_names,
            args.language,
            args.stuffed,
            args.seed,
        )
        print(f"\n{len(items)} items, {options}, {args.seeds} seeds\n\n{head(*SHOWN)}")
        seeds = [replace(options, seed=seed) for seed in range(args.seed, args.seed + args.seeds)]
        worlds = [make_world(items, one, lambda texts: encoder.texts(texts).features) for one in seeds]
        _print_worlds([_ask_world(encoder, world, args.items) for world in worlds])
    return 0


@contextmanager
def _collection_of(encoder: Encoder, items: Sequence[Item]) -> Iterator[Collection]:
    with (
        tempfile.TemporaryDirectory(prefix="multifold-evidence-") as folder,
        Collection.open(Path(folder), encoder, reader=encoder.reader) as collection,
    ):
        collection.upsert(items)
        yield collection


@dataclass(frozen=True, eq=False)
class ScoredQuery:
    """What is weighted of the candidates of one query, and which of them are right."""

    table: EvidenceTable
    rows: Ids
    right: Bool[np.ndarray, " n"]
    items: int
    expected: int  # right items, found or not

    def ranked(self, model: SideModel, *, plain: bool = False) -> tuple[list[int], RankedRing]:
        """The places of the right items among the first ten; `plain` by nothing but the weights."""
        table = replace(self.table, heard=1.0) if plain else self.table
        ring = RankedRing.of(table, self.rows, model)
        right = self.right[np.searchsorted(self.table.editions, ring.editions[:DEPTH])]
        return (np.flatnonzero(right) + 1).tolist(), ring

    def chances(self, model: SideModel) -> tuple[Float64[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
        """The confidence of the first ten, and which of them are right."""
        ring = self.ranked(model)[1]
        rivals = find_rivals(ring.evidence, self.items, self.table.length, self.table.strange)
        chances = model.chances(ring.evidence, ring.whole, rivals)
        right = self.right[np.searchsorted(self.table.editions, ring.editions)]
        return np.minimum.accumulate(chances)[:DEPTH], right[:DEPTH]


@dataclass(frozen=True, eq=False)
class AskedKind:
    """What queries of one kind found, by each way to rank, and how sure their hits were."""

    asked: Sequence[AskingPart]
    found: Mapping[str, Places]
    sure: Sequence[tuple[Float64[np.ndarray, " n"], Bool[np.ndarray, " n"]]]

    @classmethod
    def together(cls, some: Sequence["AskedKind"]) -> "AskedKind":
        """The queries of several worlds; ways to rank that not all of them have are left out."""
        names = [name for name in some[0].found if all(name in one.found for one in some)]
        found = {name: [places for one in some for places in one.found[name]] for name in names}
        return cls(
            [part for one in some for part in one.asked], found, [hit for one in some for hit in one.sure]
        )


def read_queries(path: Path, items: Sequence[Item]) -> list[AskingPart]:
    """The queries of a file for which any of these items is right."""
    texts = {item.id: "\n".join([item.id, *(one.text or "" for one in item.observations)]) for item in items}
    asked = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            stated = json.loads(line)
            wanted, text = re.compile(stated["right"], re.IGNORECASE), str(stated["text"])
        except (KeyError, TypeError, ValueError, re.error) as error:
            raise MultifoldError(f"{path}, line {number}: {error!r}; wanted {QUERY_LINE}") from error
        right = frozenset(name for name, known in texts.items() if wanted.search(known))
        asked += [AskingPart(right, text)] if right else []
    return asked


def _ask_world(encoder: Encoder, world: EvidenceWorld, most: int | None = None) -> dict[str, AskedKind]:
    """What each kind of query finds in one world: all of them, or at most so many, of items not fitted on."""
    if not any(world.asking.values()):
        raise MultifoldError("nothing asks: the collection needs items with captions, names or pictures")
    kinds = {}
    with _collection_of(encoder, world.items) as collection:
        with collection.scoring() as (_, now):
            known = read_known_items(now)
            names = {one.item.id for one in known}
        asked = questions(known, lambda texts: encoder.texts(texts).features)
        trials = TrialMaker(encoder, collection.scoring).trials(asked)
        fitted = fit_evidence(trials, len(known), collection.version)
        for kind, every in world.asking.items():
            some = every if most is None else _held_out(every, names, most)
            side = some[0].side
            scored = _scored(encoder, collection, some)
            models = _models(side, trials[side], fitted.of(side), scored)
            found = {
                name: [one.ranked(model, plain=not name.startswith(ALL))[0] for one in scored]
                for name, model in models.items()
            }
            kinds[kind] = AskedKind(some, found, [one.chances(fitted.of(side)) for one in scored])
    return kinds


def _print_worlds(worlds: Sequence[Mapping[str, AskedKind]]) -> None:
    kinds = {
        kind: AskedKind.together([world[kind] for world in worlds if kind in world]) for kind in worlds[0]
    }
    for kind, one in kinds.items():
        _print_kind(kind, one.asked, one.found)
    _print_confidence([(kind, one.sure) for kind, one in kinds.items()])


def _held_out(every: Sequence[AskingPart], fitted_on: set[str], most: int) -> Sequence[AskingPart]:
    """At most so many, evenly spread, for items that were not fitted on, where there are enough."""
    strange = [one for one in every if not one.right & fitted_on]
    chosen = strange if len(strange) * 5 > len(every) else every
    return [chosen[place] for place in np.linspace(0, len(chosen) - 1, min(most, len(chosen))).astype(int)]


def _scored(encoder: Encoder, collection: Collection, asked: Sequence[AskingPart]) -> list[ScoredQuery]:
    texts = [one.text for one in asked if one.text is not None]
    features = iter(encoder.texts(texts).features if texts else ())
    scored = []
    for one in asked:
        feature = next(features) if one.feature is None else one.feature
        vector = encoder.vectors(feature[None])[0]
        with collection.scoring() as (scorer, now):
            query = EvidenceQuery(engine_query(encoder, vector), one.side, one.text)
            table, rows = scorer.table(query, scorer.candidates(query, RING))
            ids = {
                edition: found.id for edition, found in read_summaries(now, table.editions.tolist()).items()
            }
            items = scorer.engines.size()
        right = np.array([ids[edition] in one.right for edition in table.editions.tolist()])
        scored.append(ScoredQuery(table, rows, right, items, len(one.right)))
    return scored


def _models(
    side: Side, trials: Sequence[Trial], fitted: SideModel, scored: Sequence[ScoredQuery]
) -> dict[str, SideModel]:
    """Each leg by itself, the pair that the fit finds best, and all of them."""
    heard = [
        leg for place, leg in enumerate(LEGS) if any(one.table.present[:, place].any() for one in scored)
    ]
    heard += ["words"] if any(one.table.whole.any() for one in scored) and "words" not in heard else []
    alone = {f"{leg} alone": SideModel(np.isin(NAMES, COLUMNS[leg][:1]).astype(np.float64)) for leg in heard}
    models = dict(alone)
    if len(heard) > 2 and trials:
        pair = min(combinations(heard, 2), key=lambda legs: _pair_loss(side, trials, legs))
        models["best pair"] = SideModel(fit_weights(prior_weights(side), teaching(trials), pair))
    unfitted = SideModel(fit_weights(prior_weights(side), [], LEGS))
    return models | {"all, not fitted": unfitted, "all, fitted": fitted}


def _pair_loss(side: Side, trials: Sequence[Trial], legs: Sequence[Leg]) -> float:
    weights = fit_weights(prior_weights(side), teaching(trials), legs)
    return loss_of([trial.table.by_leg(SideModel(weights)).sum(axis=1) for trial in trials], trials)


def _print_kind(kind: str, asked: Sequence[AskingPart], found: Mapping[str, Places]) -> None:
    legs = [name for name in found if name.endswith(" alone")]
    best = max(legs, key=lambda name: (_recall(found[name], 1).mean(), _recall(found[name], DEPTH).mean()))
    pair = "best pair" if "best pair" in found else best
    for name, places in found.items():
        recalls = [f"{_recall(places, depth).mean():.3f}" for depth in (1, 5, DEPTH)]
        gains = [
            "" if name in legs else _difference(_recall(places, 1) - _recall(found[other], 1), asked)
            for other in (best, pair)
        ]
        print(row(kind, len(asked), name, *recalls, f"{_ndcg(places, asked).mean():.3f}", *gains), flush=True)


def _print_confidence(sure: Sequence[tuple[str, Sequence[tuple[np.ndarray, np.ndarray]]]]) -> None:
    """The expected calibration error of the first hit and of the first ten, by kind and of all kinds."""
    print(
        "\n"
        + head(
            "confidence of",
            "first hits",
            "sure",
            "right",
            "ECE",
            "by chance",
            "debiased",
            "ECE of the first ten",
        )
    )
    every = [("all", [one for _, some in sure for one in some])]
    for kind, some in [*sure, *every]:
        first = np.array([chances[0] for chances, _ in some]), np.array([right[0] for _, right in some])
        ten = tuple(np.concatenate(arrays) for arrays in zip(*some, strict=True))
        errors = _ece(*first), _ece_by_chance(first[0]), _debiased_error(*first), _ece(*ten)
        figures = first[0].mean(), first[1].mean(), *errors
        print(row(kind, len(some), *(f"{one:.3f}" for one in figures)), flush=True)


def _ece_by_chance(chances: np.ndarray) -> float:
    """What a confidence that is true would show, of so few hits."""
    random = np.random.default_rng(0)
    return float(np.mean([_ece(chances, random.random(len(chances)) < chances) for _ in range(100)]))


def _ece(chances: np.ndarray, right: np.ndarray) -> float:
    """How far confidence is from the share that is right, in bins of equally many."""
    parts = _bins(chances)
    return float(
        sum(abs(chances[part].mean() - right[part].mean()) * len(part) for part in parts) / len(chances)
    )


def _debiased_error(chances: np.ndarray, right: np.ndarray) -> float:
    """The root of the mean square of the same, without what chance adds to it."""
    squares = [
        ((chances[part].mean() - right[part].mean()) ** 2 - right[part].var() / max(len(part) - 1, 1))
        * len(part)
        for part in _bins(chances)
    ]
    return float(np.sqrt(max(sum(squares), 0.0) / len(chances)))


def _bins(chances: np.ndarray) -> list[np.ndarray]:
    order = np.argsort(chances, kind="stable")
    return np.array_split(order, min(BINS, len(order)))


def _recall(places: Places, depth: int) -> PerQuery:
    return np.array([float(bool(one) and one[0] <= depth) for one in places])


def _ndcg(places: Places, asked: Sequence[AskingPart]) -> PerQuery:
    ideal = np.cumsum(1 / np.log2(1.0 + np.arange(1, DEPTH + 1)))
    gains = [sum(1 / np.log2(1.0 + place) for place in one) for one in places]
    return np.array([g / ideal[min(len(a.right), DEPTH) - 1] for g, a in zip(gains, asked, strict=True)])


def _difference(values: PerQuery, asked: Sequence[AskingPart]) -> str:
    """In points, with the interval of a paired bootstrap over items."""
    groups = np.unique([min(one.right) for one in asked], return_inverse=True)[1]
    low, high = bootstrap(values, groups=groups)
    return f"{100 * values.mean():+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
