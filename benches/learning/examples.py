"""What examples and diversity change of a search: a judge marks one good and one bad hit of the first ten.

    multifold bench examples --data data/furniture --known 0 1 4

The items need the facts of `multifold data furniture` in their payload; they are taken out before anything is
searched. Two items are as alike as the share of facts that both have. The careful judge marks the hits that
are most and least like what is meant, the careless one any of the better and any of the worse half. What is
meant is never marked, and what is marked counts neither before nor after.
"""

import argparse
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from benches.index.evidence_worlds import AskingPart, WorldOptions, make_world
from benches.reporting import head, row
from index.collection import Collection
from index.commands.common import add_bundle
from index.search.evidence_model import EvidenceModel
from index.search.search import SearchRequest
from multifold.bundle.canary import open_encoder
from multifold.errors import MultifoldError
from multifold.metrics import bootstrap
from multifold.types import NO_EXAMPLES, Examples, Hit, Item, LexicalQuery, Query, Vector

DEPTH = 10
MEASURES = ("R@1", "R@10", "NDCG@10", "confidence", "look-alikes")
DIVERSITIES = (0.0, 0.25, 0.5, 0.75, 1.0)
Likeness = Float64[np.ndarray, "n n"]
Judge = Callable[[Sequence[int], int], tuple[int, int]]  # of the first hits and what is meant: good, bad


@dataclass(frozen=True)
class JudgedSearches:
    """A collection, what it is asked with, and how alike its items are."""

    collection: Collection
    model: EvidenceModel
    places: Mapping[str, int]  # of ids
    likeness: Likeness
    asked: Sequence[AskingPart]
    vectors: Sequence[Vector]

    def find(
        self, number: int, examples: Examples = NO_EXAMPLES, diversity: float = 0.0, limit: int = DEPTH + 3
    ) -> list[Hit]:
        """The first hits of one query."""
        query = Query(self.vectors[number], "item", limit, words=LexicalQuery(self.asked[number].text or ""))
        request = SearchRequest(query, evidence=self.model, examples=examples, diversity=diversity)
        return self.collection.search_many([request])[0]

    def meant(self, one: AskingPart) -> int:
        """The place of the item that is meant, the first of several with the same caption."""
        return min(self.places[name] for name in one.right)

    def measure(self, number: int, hits: Sequence[Hit], left_out: Sequence[str] = ()) -> list[float]:
        """R@1, R@10 and NDCG@10, the confidence of the first hit, and how like better hits the others are."""
        one, shown = self.asked[number], [hit for hit in hits if hit.id not in left_out][:DEPTH]
        right = [hit.id in one.right for hit in shown]
        places = [self.places[hit.id] for hit in shown]
        discounts = 1 / np.log2(1.0 + np.arange(1, DEPTH + 1))
        gains = self.likeness[self.meant(one)]
        there = np.setdiff1d(np.arange(len(gains)), [self.places[name] for name in left_out])
        ideal = np.sort(gains[there])[::-1][:DEPTH] @ discounts
        above = [self.likeness[place, places[:n]].max() for n, place in enumerate(places) if n]
        ndcg = gains[places] @ discounts[: len(places)] / ideal
        return [right[0], any(right), ndcg, shown[0].confidence or 0.0, float(np.mean(above))]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="folder of a collection of furniture")
    add_bundle(parser)
    parser.add_argument("--known", nargs="+", type=int, default=[4], metavar="N", help="captions stored")
    parser.add_argument("--items", type=int, default=300, help="at most so many ask; %(default)s")
    parser.add_argument("--diversity", action="store_true", help="measure several diversities too")
    parser.add_argument("--seed", type=int, default=0, help="of captions, words and the careless judge")


def run(args: argparse.Namespace) -> int:
    encoder = open_encoder(args.bundle)
    with Collection.open(args.data, encoder, read_only=True) as collection:
        items = [item for name in collection.ids() if (item := collection.get(name)) is not None]
    likeness = likeness_of_facts([facts_of_item(item) for item in items])
    places = {f"final_v{place}": place for place in range(len(items))}  # as plain names are
    for known in args.known:
        options = WorldOptions(known, plain_names=True, seed=args.seed)
        world = make_world(items, options, lambda texts: encoder.texts(texts).features)
        with (
            tempfile.TemporaryDirectory(prefix="multifold-examples-") as folder,
            Collection.open(Path(folder), encoder, reader=encoder.reader) as collection,
        ):
            collection.upsert(world.items)
            model = collection.fit_evidence(lambda texts: encoder.texts(texts).features)
            print(f"\n{collection.count()} items, captions stored: {known}\n")
            for kind in ("another caption", "words of it"):
                every = world.asking[kind]
                chosen = np.linspace(0, len(every) - 1, min(args.items, len(every))).astype(int)
                asked = [every[place] for place in chosen]
                vectors = encoder.vectors(encoder.texts([one.text or "" for one in asked]).features)
                searches = JudgedSearches(collection, model, places, likeness, asked, list(vectors))
                print_examples(kind, searches, args.seed)
                if args.diversity:
                    print_diversity(kind, searches)
    return 0


def facts_of_item(item: Item) -> frozenset[str]:
    """What is said to be true of a piece of furniture."""
    if not {"kind", "facts"} <= set(item.payload):
        raise MultifoldError(f"{item.id} has no facts: the collection must be of `multifold data furniture`")
    return frozenset([f"kind={item.payload['kind']}", *item.payload["facts"]])


def likeness_of_facts(facts: Sequence[frozenset[str]]) -> Likeness:
    """The share of facts that two items have in common."""
    return np.array([[len(one & other) / len(one | other) for other in facts] for one in facts])


def judges(likeness: Likeness, seed: int) -> dict[str, Judge]:
    """Who marks which of the first hits."""
    random = np.random.default_rng(seed)

    def careful(shown: Sequence[int], meant: int) -> tuple[int, int]:
        order = sorted(shown, key=lambda place: -likeness[meant, place])
        return order[0], order[-1]

    def careless(shown: Sequence[int], meant: int) -> tuple[int, int]:
        order = sorted(shown, key=lambda place: -likeness[meant, place])
        half = len(order) // 2
        return order[int(random.integers(half))], order[half + int(random.integers(len(order) - half))]

    return {"careful": careful, "careless": careless}


def print_examples(kind: str, searches: JudgedSearches, seed: int) -> None:
    """Each measure before and after one good and one bad hit are marked."""
    print(head("asked with", "queries", "judge", "marked", *MEASURES[:4], "R@10 gained", "NDCG@10 gained"))
    names = list(searches.places)
    first = [searches.find(number) for number in range(len(searches.asked))]
    for name, judge in judges(searches.likeness, seed).items():
        marks = []
        for one, hits in zip(searches.asked, first, strict=True):
            meant = searches.meant(one)
            places = [place for hit in hits if (place := searches.places[hit.id]) != meant]
            good, bad = (names[place] for place in judge(places[:DEPTH], meant))
            marks.append(
                {"good": Examples([good]), "bad": Examples((), [bad]), "both": Examples([good], [bad])}
            )
        left_out = [[*mark["both"].good, *mark["both"].bad] for mark in marks]
        before = [searches.measure(n, hits, left_out[n]) for n, hits in enumerate(first)]
        print_row((kind, len(first), name, "none"), before, searches, ())
        for marked in ("good", "bad", "both") if name == "careful" else ("both",):
            found = [searches.find(n, mark[marked]) for n, mark in enumerate(marks)]
            after = [searches.measure(n, hits, left_out[n]) for n, hits in enumerate(found)]
            print_row((kind, len(first), name, marked), after, searches, (1, 2), before)


def print_diversity(kind: str, searches: JudgedSearches) -> None:
    """Each measure at some diversities."""
    print(head("asked with", "queries", "diversity", *MEASURES, "R@10 gained", "look-alikes gained"))
    before: list[list[float]] = []
    for diversity in DIVERSITIES:
        hits = [searches.find(number, diversity=diversity) for number in range(len(searches.asked))]
        after = [searches.measure(number, of_query) for number, of_query in enumerate(hits)]
        before = before or after
        print_row((kind, len(hits), diversity), after, searches, (1, 4), before)


def print_row(
    first: Sequence[object],
    after: Sequence[Sequence[float]],
    searches: JudgedSearches,
    gained: Sequence[int],
    before: Sequence[Sequence[float]] = (),
) -> None:
    """The means of all measures, and of some the gain, paired over items."""
    table = np.array(after, np.float64)
    means = [f"{mean:.3f}" for mean in table.mean(axis=0)][: 4 if isinstance(first[-1], str) else None]
    owners = np.array([searches.meant(one) for one in searches.asked])
    gains = []
    for measure in gained:
        values = table[:, measure] - np.array(before, np.float64)[:, measure]
        low, high = bootstrap(values, groups=owners)
        gains.append(f"{100 * values.mean():+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]")
    print(row(*first, *means, *gains), flush=True)
