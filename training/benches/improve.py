"""Whether an encoder learns from use: furniture, and simulated users who judge what they find.

    multifold bench improve

The base learns furniture from captions that are silent about colours. 200 users search a collection of
other furniture, whose captions are as silent, with captions that say colours; each calls the first hit that
fits good (what they had in mind, if none of the first 20 does) and the first that does not fit bad. The
encoder learns from that as `multifold improve` does. `--wrong` turns the judgements of that share of users
round. In the end both encoders are asked what nobody has judged: colours of all the collection, and of
furniture that nobody has seen.
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from multifold.manifest import Entry, read
from training import checkpoint, cookbook, improving, loop, prepare, promotion, start
from training.data import said
from training.data.furniture.dataset import MANIFEST, Order, write
from training.evaluate.live import LiveEncoder
from training.evaluate.retrieval import Direction
from training.promotion import Difference
from training.recipe import Recipe

UNSAID = "colour"
SHOWN = 20
BASE = (
    f'data.furniture_unsaid=["{UNSAID}"]',
    "data.furniture_items=2000",
    "loss.name=infonce_soft",
    "train.steps=1200",
    "name=silent",
)
CHANGES = ("train.steps=300", "train.items=96", "train.views=1")


@dataclass(frozen=True)
class Set:
    """Furniture with silent captions, and what could be said of its colours."""

    entries: list[Entry]
    colours: list[tuple[str, frozenset[str]]]  # a caption of each piece that says a colour, and its facts
    facts: list[frozenset[str]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--wrong", type=float, nargs="+", default=[0.0, 0.2, 1.0], metavar="SHARE")
    parser.add_argument("--items", type=int, default=500, help="of the collection")
    parser.add_argument("--unseen", type=int, default=300, help="items that nobody has seen")
    parser.add_argument("--out", type=Path, default=Path("runs/improve-bench"))
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"), help="rendered views")
    parser.add_argument("--set", nargs="+", default=list(CHANGES), metavar="KEY=VALUE", dest="changes")
    parser.add_argument("--mix", type=float, default=improving.MIX, help="of the new weights")


def run(args: argparse.Namespace) -> int:
    """Train the base if it is not there, simulate, improve, ask."""
    base = _base(args.out / "base", args.cache)
    recipe = checkpoint.read(base).recipe
    shop, unseen = _set(args, 1, args.items), _set(args, 2, args.unseen)
    print(
        "| wrong judgements | taken | kept apart of the feedback | colours, in the collection | unseen "
        "| what it knew | CPU s |\n|---|---|---|---|---|---|---|"
    )
    for wrong in args.wrong:
        print(_row(wrong, base, recipe, shop, unseen, args), flush=True)
    return 0


def _row(wrong: float, base: Path, recipe: Recipe, shop: Set, unseen: Set, args: argparse.Namespace) -> str:
    """One share of wrong judgements, as a row of the table."""
    collection, judged = judge(base, recipe, shop, args.users, wrong, args.cache)
    lesson = improving.lesson(collection, recipe, args.cache)
    out = args.out / f"wrong-{wrong:g}"
    out.mkdir(parents=True, exist_ok=True)
    started = time.process_time()
    outcome = improving.improve(lesson, base, out, args.cache, args.changes, args.mix)
    spent = time.process_time() - started
    (out / "report.md").write_text(improving.report(lesson, outcome), encoding="utf-8")
    encoders = [
        LiveEncoder(one.model, prepare.reader(one.recipe, one.tokenizer))
        for one in (outcome.trained, checkpoint.load(base))
    ]
    left = [place for place in range(len(shop.entries)) if place not in judged]
    cells = [
        f"{wrong:.0%}",
        "no" if outcome.reasons else "yes",
        _cell(next(one for one in outcome.gain if one.cut == improving.GAIN)),
        _cell(_asked(encoders, shop, recipe, args.cache, left)),
        _cell(_asked(encoders, unseen, recipe, args.cache, range(len(unseen.entries)))),
        "<br>".join(
            _cell(one, one.direction.replace("_to_", " → "))
            for one in outcome.rest
            if one.cut == improving.GAIN
        ),
        f"{spent:.0f}",
    ]
    return "| " + " | ".join(cells) + " |"


def _cell(one: Difference, name: str = "") -> str:
    low, high = (100 * end for end in one.interval)
    lead = f"{100 * (one.new - one.old):+.1f} [{low:+.1f}, {high:+.1f}]"
    told = f"{100 * one.old:.1f} → {100 * one.new:.1f}, {lead}"
    return f"{name}: {told}" if name else told


def judge(
    base: Path, recipe: Recipe, shop: Set, users: int, wrong: float, cache: Path
) -> tuple[list[Entry], set[int]]:
    """The collection as its feedback is exported, and the places of what was judged good."""
    rng = np.random.default_rng(0)
    targets = [place for place in rng.permutation(len(shop.entries)).tolist() if shop.colours[place][0]][
        :users
    ]
    found = _scores(base, recipe, shop, targets, cache)
    good: dict[int, list[str]] = {}
    rivals: dict[int, set[str]] = {}
    for target, scores in zip(targets, found, strict=True):
        text, facts = shop.colours[target]
        shown = np.argsort(-scores, kind="stable")[:SHOWN].tolist()
        fitting = [place for place in shown if facts <= shop.facts[place]] or [target]
        others = [place for place in shown if not facts <= shop.facts[place]]
        if rng.random() < wrong:
            fitting, others = rng.permutation(others).tolist(), fitting
        if fitting:
            good.setdefault(fitting[0], []).append(text)
            rivals.setdefault(fitting[0], set()).update(shop.entries[place].id for place in others[:1])
    return [
        _with(entry, good.get(place, []), sorted(rivals.get(place, ())))
        for place, entry in enumerate(shop.entries)
    ], {*good, *targets}


def _with(entry: Entry, good: Sequence[str], rivals: Sequence[str]) -> Entry:
    if not good:
        return replace(entry, meta={})
    feedback = {"good": list(good), "bad": [], "rivals": list(rivals)}
    return replace(entry, texts=(*entry.texts, *good), meta={said.KEY: feedback})


def _scores(base: Path, recipe: Recipe, shop: Set, targets: Sequence[int], cache: Path) -> np.ndarray:
    """What the base makes of each user's text, over the whole collection."""
    trained = checkpoint.load(base)
    encoder = LiveEncoder(trained.model, prepare.reader(recipe, trained.tokenizer))
    return _direction(encoder, shop, recipe, cache, targets).scores


def _direction(
    encoder: LiveEncoder, of: Set, recipe: Recipe, cache: Path, places: Sequence[int]
) -> Direction:
    """Captions that say colours, of these pieces; each asks for its own piece among all."""
    asked: list[tuple[str, ...]] = [()] * len(of.entries)
    for place in places:
        if of.colours[place][0]:
            asked[place] = (of.colours[place][0],)
    found = improving.find(encoder, np.asarray(prepare.views(recipe, of.entries, cache)), asked)
    order = {item: row for row, item in enumerate(found.items.tolist())}
    rows = [order[place] for place in places if place in order]
    return Direction(found.scores[rows], found.relevant[rows], found.items[rows])


def _asked(
    encoders: Sequence[LiveEncoder], of: Set, recipe: Recipe, cache: Path, places: Sequence[int]
) -> Difference:
    ours, theirs = (_direction(encoder, of, recipe, cache, places) for encoder in encoders)
    return promotion.difference("text_to_shape", ours, theirs, improving.GAIN)


def _base(out: Path, cache: Path) -> Path:
    path = out / loop.DONE
    if not path.exists():
        out.mkdir(parents=True, exist_ok=True)
        recipe = cookbook.load("ablation", BASE)
        items = prepare.entries(recipe, cache, recipe.data.train_split)
        tokenizer = start.tokenizer(recipe, (text for entry in items for text in entry.texts))
        loop.train(recipe, prepare.groups(recipe, items, tokenizer, cache), tokenizer, out)
    return path


def _set(args: argparse.Namespace, seed: int, count: int) -> Set:
    """The same furniture twice: with captions that are silent, and with captions that are not."""
    silent, loud = (_made(args.cache, seed, count, unsaid) for unsaid in ((UNSAID,), ()))
    return Set(
        silent, [_coloured(entry.texts, entry.meta) for entry in loud], [_facts(one.meta) for one in loud]
    )


def _made(cache: Path, seed: int, count: int, unsaid: tuple[str, ...]) -> list[Entry]:
    folder = cache / "-".join(["furniture", str(count), str(seed), *unsaid])
    if not (folder / MANIFEST).exists():
        write(Order(folder, seed, unsaid=unsaid), count)  # type: ignore[arg-type]
    return list(read(folder / MANIFEST))


def _facts(meta: Mapping[str, object]) -> frozenset[str]:
    kind = meta["kind"]
    return frozenset([*meta["facts"], f"whole.kind={kind}"])  # type: ignore[misc]


def _coloured(texts: Sequence[str], meta: Mapping[str, object]) -> tuple[str, frozenset[str]]:
    """The first caption that says a colour, and what it claims."""
    claims = meta["captions"]
    for text, claimed in zip(texts, claims, strict=True):  # type: ignore[call-overload]
        if any(f".{UNSAID}=" in fact for fact in claimed):
            return text, frozenset(claimed)
    return "", frozenset()
