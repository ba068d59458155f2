"""Simulated users, what an encoder learns from them, and what else it still knows."""

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32

from benches.reporting import head, row
from multifold.manifest import ManifestEntry, read
from training import checkpoint, improvement, loop, prepare
from training.data.feedback import KEY
from training.data.furniture.captions import article
from training.data.furniture.dataset import MANIFEST, FurnitureOrder, write_furniture
from training.data.furniture.modeling.facts import Attribute
from training.recipes import library
from training.recipes.schema import Recipe
from training.retrieval import comparison
from training.retrieval.comparison import RecallDifference
from training.retrieval.encoder import TorchEncoder

UNSAID: Attribute = "colour"
SHOWN = 20
UNSEEN_ITEMS = 300  # that nobody has seen
BASE = (
    f'data.furniture_unsaid=["{UNSAID}"]',
    "data.furniture_items=2000",
    "loss.name=infonce_soft",
    "train.steps=1200",
    "name=silent",
)


COLUMNS = (
    *("wrong judgements", "taken", "kept apart of the feedback", "not asked for"),
    *("unseen furniture", "what it knew", "CPU s"),
)


@dataclass(frozen=True)
class SilentSet:
    """Furniture with captions that name no colours, and the query for each piece by colour and kind."""

    entries: list[ManifestEntry]
    queries: list[str]


def run(args: argparse.Namespace) -> int:
    """Train the base if it is missing, simulate feedback, improve, compare."""
    base = _train_base(args.out / "base", args.cache)
    recipe = checkpoint.read_checkpoint(base).recipe
    shop, unseen = _make_set(args, 1, args.items), _make_set(args, 2, UNSEEN_ITEMS)
    print(head(*COLUMNS))
    for wrong in args.wrong:
        print(_row(wrong, base, recipe, shop, unseen, args), flush=True)
    return 0


def _row(
    wrong: float, base: Path, recipe: Recipe, shop: SilentSet, unseen: SilentSet, args: argparse.Namespace
) -> str:
    """One share of wrong judgements, as a row of the table."""
    collection, judged = simulate_feedback(base, recipe, shop, wrong, args)
    lesson = improvement.prepare_lesson(collection, recipe, args.cache)
    out = args.out / f"wrong-{wrong:g}"
    out.mkdir(parents=True, exist_ok=True)
    started = time.process_time()
    outcome = improvement.improve(lesson, base, out, args.cache, args.changes, args.mix or improvement.MIX)
    spent = time.process_time() - started
    (out / "report.md").write_text(improvement.improvement_report(lesson, outcome), encoding="utf-8")
    encoders = [
        TorchEncoder(one.model, prepare.reader(one.recipe, one.tokenizer))
        for one in (outcome.trained, checkpoint.load_checkpoint(base))
    ]
    new = [text if text not in judged else "" for text in shop.queries]
    rest = [one for one in outcome.rest if one.cut == improvement.GAIN_CUT]
    return row(
        f"{wrong:.0%}",
        "no" if outcome.reasons else "yes",
        _cell(next(one for one in outcome.gain if one.cut == improvement.GAIN_CUT)),
        _cell(_difference(encoders, shop.entries, new, recipe, args.cache)),
        _cell(_difference(encoders, unseen.entries, unseen.queries, recipe, args.cache)),
        "<br>".join(f"{one.direction.replace('_to_', ' → ')}: {_cell(one)}" for one in rest),
        f"{spent:.0f}",
    )


def _cell(one: RecallDifference) -> str:
    low, high = (100 * end for end in one.interval)
    lead = f"{100 * (one.new - one.old):+.1f} [{low:+.1f}, {high:+.1f}]"
    return f"{100 * one.old:.1f} → {100 * one.new:.1f}, {lead}"


def simulate_feedback(
    base: Path, recipe: Recipe, shop: SilentSet, wrong: float, args: argparse.Namespace
) -> tuple[list[ManifestEntry], set[str]]:
    """The collection with its feedback as exported, and all queries."""
    rng = np.random.default_rng(args.seed)
    coloured = [place for place in rng.permutation(len(shop.entries)).tolist() if shop.queries[place]]
    targets = coloured[: args.users * args.searches]
    good: dict[int, list[str]] = {}
    rivals: dict[int, set[str]] = {}
    for target, scores in zip(targets, _scores(base, recipe, shop, targets, args.cache), strict=True):
        text = shop.queries[target]
        shown = np.argsort(-scores, kind="stable")[:SHOWN].tolist()
        chosen, other = target, next((place for place in shown if shop.queries[place] != text), None)
        if rng.random() < wrong:
            misfits = [place for place in shown if shop.queries[place] != text]
            chosen, other = int(rng.choice(misfits)), target
        good.setdefault(chosen, []).append(text)
        rivals.setdefault(chosen, set()).update([] if other is None else [shop.entries[other].id])
    collection = [
        _with(entry, good.get(place, []), sorted(rivals.get(place, ())))
        for place, entry in enumerate(shop.entries)
    ]
    return collection, {shop.queries[target] for target in targets}


def _with(entry: ManifestEntry, good: Sequence[str], rivals: Sequence[str]) -> ManifestEntry:
    if not good:
        return replace(entry, meta={})
    feedback = {"good": list(dict.fromkeys(good)), "bad": [], "rivals": list(rivals)}
    return replace(entry, texts=(*entry.texts, *feedback["good"]), meta={KEY: feedback})


def _scores(
    base: Path, recipe: Recipe, shop: SilentSet, targets: Sequence[int], cache: Path
) -> Float32[np.ndarray, "t g"]:
    """The base's scores of each user's query, over the whole collection."""
    trained = checkpoint.load_checkpoint(base)
    encoder = TorchEncoder(trained.model, prepare.reader(recipe, trained.tokenizer))
    views = np.asarray(prepare.views(recipe, shop.entries, cache))
    queries = [(text,) if place in targets else () for place, text in enumerate(shop.queries)]
    direction = improvement.find_recalls(encoder, views, queries)
    rows = {item: number for number, item in enumerate(direction.items.tolist())}
    return direction.scores[[rows[target] for target in targets]]


def _difference(
    encoders: Sequence[TorchEncoder],
    entries: Sequence[ManifestEntry],
    queries: Sequence[str],
    recipe: Recipe,
    cache: Path,
) -> RecallDifference:
    views = np.asarray(prepare.views(recipe, entries, cache))
    texts = [(text,) if text else () for text in queries]
    ours, theirs = (improvement.find_recalls(encoder, views, texts) for encoder in encoders)
    return comparison.recall_difference("text_to_shape", ours, theirs, improvement.GAIN_CUT)


def _train_base(out: Path, cache: Path) -> Path:
    path = out / loop.DONE
    if not path.exists():
        out.mkdir(parents=True, exist_ok=True)
        recipe = library.load_recipe("ablation", BASE)
        items = prepare.entries(recipe, cache, recipe.data.train_split)
        tokenizer = checkpoint.starting_tokenizer(recipe, (text for entry in items for text in entry.texts))
        loop.train(recipe, prepare.groups(recipe, items, tokenizer, cache), tokenizer, out)
    return path


def _make_set(args: argparse.Namespace, seed: int, count: int) -> SilentSet:
    folder = args.cache / f"furniture-{count}-{seed}-{UNSAID}"
    if not (folder / MANIFEST).exists():
        write_furniture(FurnitureOrder(folder, seed, unsaid=(UNSAID,)), count)
    entries = list(read(folder / MANIFEST))
    return SilentSet(entries, [_query_for(entry.meta) for entry in entries])


def _query_for(meta: Mapping[str, Any]) -> str:
    """A query for a piece; empty if it has no colour as a whole."""
    phrase = f"{meta['colour']} {meta['kind']}"
    return f"{article(phrase)} {phrase}" if f"whole.colour={meta['colour']}" in meta["facts"] else ""
