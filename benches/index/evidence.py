"""What the evidence of all sides finds, beside each leg by itself: the default target of a search.

    multifold bench evidence --data data/furniture --known 0 1 2 4

The collection is not changed. Its items are written into a new one with so many of their captions (all with
--known all); one caption that is not stored asks, and so do some words of it, some words of a stored one, and
the name. Weights are fitted on what is stored, never on what asks.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from benches.reporting import head, row
from index.collection import Collection
from index.commands.common import add_bundle
from index.search.evidence import COLUMNS, LEGS, NAMES, UNFITTED, EvidenceModel, SideModel
from index.search.evidence_questions import common_words, cut_words, fold_caption, readable_name
from index.search.search import SearchRequest
from index.texts.item_texts import item_texts
from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import Encoder
from multifold.errors import MultifoldError
from multifold.metrics import bootstrap
from multifold.types import Item, LexicalQuery, Observation, Query, Side

DEPTH = 10
CAPTION_KINDS = ("another caption", "words of it", "words of a stored one")
SHOWN = ("asked with", "queries", "ranked by", "R@1", "R@5", "R@10", "NDCG@10", "beside the best leg")
ALL = "all"
PerQuery = Float64[np.ndarray, " q"]
Ranking = Callable[[Query], SearchRequest]


@dataclass(frozen=True)
class AskingText:
    """A text that asks for an item, and all that it may find."""

    text: str
    owner: int  # the item's place
    right: frozenset[str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, help="folder of a collection of the bundle")
    add_bundle(parser)
    parser.add_argument("--known", nargs="+", default=[ALL], metavar="N", help="captions stored, or all")
    parser.add_argument("--items", type=int, default=450, help="at most so many ask; %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of captions and words")
    parser.add_argument("--wrong", type=float, default=0.0, help="share of stored captions of another item")
    parser.add_argument("--plain-names", action="store_true", help="all names alike, without payloads")


def run(args: argparse.Namespace) -> int:
    encoder = open_encoder(args.bundle)
    with Collection.open(args.data, encoder, read_only=True) as collection:
        items = _read_items(collection)
    if args.plain_names:
        items = [replace(item, id=f"final_v{place}", payload={}) for place, item in enumerate(items)]
    for known in args.known:
        stored, asking = _split(items, None if known == ALL else int(known), args.wrong, args.seed)
        with _collection_of(encoder, stored) as collection:
            _print_world(encoder, collection, known, asking, args.items)
    return 0


def _read_items(collection: Collection) -> list[Item]:
    ids = collection.ids()
    return [item for name in ids if (item := collection.get(name)) is not None]


@contextmanager
def _collection_of(encoder: Encoder, items: Sequence[Item]) -> Iterator[Collection]:
    with (
        tempfile.TemporaryDirectory(prefix="multifold-evidence-") as folder,
        Collection.open(Path(folder), encoder, reader=encoder.reader) as collection,
    ):
        collection.upsert(items)
        yield collection


def _split(
    items: Sequence[Item], known: int | None, wrong: float, seed: int
) -> tuple[list[Item], dict[str, list[AskingText]]]:
    """The items with so many captions, and what asks for them: one more caption, words of texts, names."""
    random = np.random.default_rng(seed)
    captions = [[one for one in item.observations if one.kind == "caption"] for item in items]
    hidden, stored = [], []
    for of_item in captions:
        order = random.permutation(len(of_item)).tolist()
        count = len(of_item) if known is None else known
        hidden.append([of_item[place] for place in order[count : count + 1]])
        stored.append([of_item[place] for place in sorted(order[:count])])
    common = common_words(one.text or "" for of_item in captions for one in of_item)

    def right(text: str) -> frozenset[str]:
        wanted = fold_caption(text)
        return frozenset(
            item.id
            for item, of_item in zip(items, captions, strict=True)
            if any(fold_caption(one.text or "") == wanted for one in of_item)
        )

    kinds: dict[str, list[AskingText]] = {
        "another caption": [],
        "words of it": [],
        "words of a stored one": [],
    }
    for place, (unseen, seen) in enumerate(zip(hidden, stored, strict=True)):
        for one in unseen:
            text = one.text or ""
            for kind, asking in zip(CAPTION_KINDS, (text, cut_words(text, common, random)), strict=False):
                kinds[kind].append(AskingText(asking, place, right(text)))
        if seen:
            text = seen[int(random.integers(len(seen)))].text or ""
            kinds["words of a stored one"].append(
                AskingText(cut_words(text, common, random), place, right(text))
            )
    kinds["name"] = _names(items)
    for place in np.flatnonzero(random.random(len(items)) < wrong).tolist():
        stored[place] = stored[(place + 1) % len(items)]
    written = [_with_captions(item, some) for item, some in zip(items, stored, strict=True)]
    there = [place for place, item in enumerate(written) if item.observations]
    return [written[place] for place in there], {name: asks for name, asks in kinds.items() if asks}


def _names(items: Sequence[Item]) -> list[AskingText]:
    """The readable names, each with all items of that name; none if nearly all are alike."""
    names = [fold_caption(readable_name(item_texts(0, item.id, (), item.payload))) for item in items]
    owners: dict[str, set[str]] = {}
    for name, item in zip(names, items, strict=True):
        owners.setdefault(name, set()).add(item.id)
    return [
        AskingText(name, place, frozenset(owners[name]))
        for place, name in enumerate(names)
        if name and len(owners[name]) * 10 < len(items)
    ]


def _with_captions(item: Item, captions: Sequence[Observation]) -> Item:
    numbered = tuple(replace(one, index=place) for place, one in enumerate(captions))
    return replace(item, observations=numbered + tuple(o for o in item.observations if o.kind != "caption"))


def _print_world(
    encoder: Encoder, collection: Collection, known: str, kinds: Mapping[str, list[AskingText]], most: int
) -> None:
    fitted = collection.fit_evidence(lambda texts: encoder.texts(texts).features)
    print(f"\n{collection.count()} items, captions stored: {known}\n")
    print(
        head("asked with", "queries", "ranked by", "R@1", "R@5", "R@10", "NDCG@10", "R@1 beside the best leg")
    )
    for kind, every in kinds.items():
        asked = [every[place] for place in np.linspace(0, len(every) - 1, min(most, len(every))).astype(int)]
        vectors = encoder.vectors(encoder.texts([one.text for one in asked]).features)
        found = {
            name: _positions(collection, asked, vectors, ranking)
            for name, ranking in _rankings(collection, fitted, reads=encoder.reader is not None).items()
        }
        legs = {name: ranks for name, ranks in found.items() if name.endswith(" alone")}
        best = max(legs, key=lambda name: (_recall(legs[name], 1).mean(), _recall(legs[name], DEPTH).mean()))
        for name, ranks in found.items():
            gain = "" if name in legs else _difference(_recall(ranks, 1) - _recall(found[best], 1), asked)
            recalls = [f"{_recall(ranks, depth).mean():.3f}" for depth in (1, 5, DEPTH)]
            print(
                row(kind, len(asked), name, *recalls, f"{_ndcg(ranks, asked).mean():.3f}", gain), flush=True
            )


def _rankings(collection: Collection, fitted: EvidenceModel, *, reads: bool) -> dict[str, Ranking]:
    """A side as before, each leg by itself, and all of them."""
    sides = {side for item in collection.scroll(limit=50) for side in _sides_of(item)}
    heard = [leg for leg in LEGS if leg in sides or leg == "words" or (leg == "reader" and reads)]

    def by(model: EvidenceModel) -> Ranking:
        return lambda query: SearchRequest(query, evidence=model)

    target: Side = "shape" if "shape" in sides else "image"
    rankings: dict[str, Ranking] = {
        f"{target} (target)": lambda query: SearchRequest(replace(query, target=target))
    }
    for leg in heard:
        weights = np.isin(NAMES, COLUMNS[leg][:1]).astype(np.float64)
        rankings[f"{leg} alone"] = by(EvidenceModel({"text": SideModel(weights)}))
    return rankings | {"all, not fitted": by(UNFITTED), "all, fitted": by(fitted)}


def _sides_of(item: Item) -> set[str]:
    names = {"caption": "text", "photo": "image", "view": "shape"}
    return {names[one.kind] for one in item.observations}


def _positions(
    collection: Collection, asked: Sequence[AskingText], vectors: np.ndarray, ranking: Ranking
) -> list[list[int]]:
    """The places of the right items among the first ten, for each query."""
    places = []
    for one, vector in zip(asked, vectors, strict=True):
        query = Query(vector, "item", DEPTH, words=LexicalQuery(one.text))
        hits = collection.search_many([ranking(query)])[0]
        places.append([place for place, hit in enumerate(hits, 1) if hit.id in one.right])
    if not places:
        raise MultifoldError("nothing asks: the collection needs items with captions or names")
    return places


def _recall(places: Sequence[Sequence[int]], depth: int) -> PerQuery:
    return np.array([float(bool(one) and one[0] <= depth) for one in places])


def _ndcg(places: Sequence[Sequence[int]], asked: Sequence[AskingText]) -> PerQuery:
    ideal = np.cumsum(1 / np.log2(1.0 + np.arange(1, DEPTH + 1)))
    gains = [sum(1 / np.log2(1.0 + place) for place in one) for one in places]
    return np.array([g / ideal[min(len(a.right), DEPTH) - 1] for g, a in zip(gains, asked, strict=True)])


def _difference(values: PerQuery, asked: Sequence[AskingText]) -> str:
    low, high = bootstrap(values, groups=np.array([one.owner for one in asked]))
    return f"{100 * values.mean():+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
