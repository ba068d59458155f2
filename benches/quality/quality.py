"""The work of `multifold bench quality`."""

import argparse
import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from app.settings import DEMO_BUNDLE, GENERAL_BUNDLE
from benches.quality.encoders import write_random_bundle, write_with_reader
from benches.quality.served import QuestionOutcome, ServedCollection, run_command, serve
from benches.quality.worlds import CAPTIONS, AskedQuestion, QualityWorld, WorldMaker
from benches.reporting import head, row
from multifold.errors import MultifoldError

OF_DATA = ("models", "emoji", "symbols", "objects", "drawn")
LEGS: Mapping[str, Mapping[str, str]] = {
    "words": {"lexical": "only"},
    **{side: {"target": side, "lexical": "off"} for side in ("text", "image", "shape")},
}  # what can be searched alone
SEED = 5454  # of furniture that the demo encoder has not learned from
SURE = 0.8
BINS = 10  # of equally many first hits, by their confidence
DRAWS = 1_000  # of answers that are right as often as their confidence says
NAMED = ("world", "encoder", "fit", "asked with", "queries")
FOUND = ("R@1", "R@10", "best leg R@1", "best leg R@10", "ECE", "ECE by chance")
TRUSTED = ("confidence", "sure", "sure and wrong", "matches well")
PROMISED = ("held", "hits", "promised")  # with an error of 0.05
ERROR = 0.05


def run(args: argparse.Namespace) -> int:
    rows: list[dict[str, Any]] = []
    print(head(*NAMED, *FOUND, *TRUSTED, *PROMISED), flush=True)
    with tempfile.TemporaryDirectory(prefix="multifold-quality-") as temporary:
        folder = Path(temporary)
        made = Path(temporary) / "furniture"
        size = ("--items", args.items, "--captions", max(CAPTIONS) + 1, "--seed", SEED)
        run_command("data", "furniture", made, *size, "--allow-twins")
        maker = WorldMaker(folder, made / "manifest.jsonl", args.data, args.photos, args.queries, args.use)
        bundles = _bundles(args, folder)
        for name in args.world:
            option, given = ("photos", args.photos) if name == "photos" else ("data", args.data)
            if name in (*OF_DATA, "photos") and given is None:
                print(f"{name} left out: --{option} names no folder", flush=True)
                continue
            for world in getattr(maker, name)():
                for encoder in bundles:
                    rows += _rows(world, encoder, bundles[encoder], folder)
    if args.out is not None:
        args.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


def _bundles(args: argparse.Namespace, folder: Path) -> Mapping[str, Path]:
    """The folders of the encoders; a good one only where a bundle or a reader is given."""
    bundles = {"demo": DEMO_BUNDLE, "random": write_random_bundle(DEMO_BUNDLE, folder / "random")}
    if GENERAL_BUNDLE.is_dir():
        bundles["general"] = GENERAL_BUNDLE
    if args.reader is not None:
        bundles["good"] = write_with_reader(args.bundle or DEMO_BUNDLE, args.reader, folder / "good")
    elif args.bundle is not None:
        bundles["good"] = args.bundle
    return {name: bundle for name, bundle in bundles.items() if name in args.encoder}


def _rows(world: QualityWorld, encoder: str, bundle: Path, folder: Path) -> Iterator[dict[str, Any]]:
    """The rows of one world and encoder; each is printed as it comes."""
    filled = folder / "filled" / encoder / world.source.name
    if not filled.exists():
        run_command("ingest", world.source, "--data", filled, "--bundle", bundle)
    home = Path(shutil.copytree(filled, folder / "home"))
    questions = {kind: asked for kind, asked in world.questions.items() if asked}
    with serve(home, bundle) as served:
        served.rewrite(world.captions)
        legs = {kind: _legs(served, asked) for kind, asked in questions.items()}
        for fit in ("before", "after"):
            if fit == "after":
                served.fit()
            for kind, asked in questions.items():
                outcomes = served.ask(asked)
                names = dict(zip(NAMED, (world.name, encoder, fit, kind, len(asked)), strict=True))
                told = names | _measure(outcomes, legs[kind])
                if fit == "after" and asked[0].right and "text" in asked[0].body:
                    with contextlib.suppress(MultifoldError):  # too few of its own questions are like these
                        promised = np.mean(served.promise(asked, ERROR), axis=0)
                        told |= dict(zip(PROMISED, promised.tolist(), strict=True))
                cells = (told.get(name, "") for name in (*NAMED, *FOUND, *TRUSTED, *PROMISED))
                print(row(*(f"{one:.3f}" if isinstance(one, float) else one for one in cells)), flush=True)
                yield told | {"legs": legs[kind], "answers": list(map(astuple, outcomes))}
    shutil.rmtree(home)


def _legs(served: ServedCollection, asked: Sequence[AskedQuestion]) -> dict[str, tuple[float, float]]:
    """R@1 and R@10 of each leg by itself that can be asked so; none where nothing is meant."""
    found = {}
    for name, options in LEGS.items() if asked[0].right else ():
        with contextlib.suppress(MultifoldError):  # this encoder or collection has no such side
            found[name] = _recalls(served.ask(asked, **options))
    return found


def _measure(
    outcomes: Sequence[QuestionOutcome], legs: Mapping[str, tuple[float, float]]
) -> dict[str, float]:
    """What was found, if anything is meant, and how sure the first hits are."""
    right = np.array([one.meant for one in outcomes])
    confidence = np.array([one.confidence for one in outcomes])
    sure = confidence >= SURE
    well = np.array([one.well for one in outcomes])
    draws = np.random.default_rng(0).random((DRAWS, len(right))) < confidence
    by_chance = float(np.mean([_calibration_error(confidence, draw) for draw in draws]))
    errors = _calibration_error(confidence, right), by_chance
    best = [max(leg[place] for leg in legs.values()) for place in (0, 1) if legs]
    found = dict(zip(FOUND, (*_recalls(outcomes), *best, *errors), strict=True)) if legs else {}
    shares = (confidence.mean(), sure.mean(), (sure & ~right).mean(), well.mean())
    measured = found | dict(zip(TRUSTED, shares, strict=True))
    return {name: float(value) for name, value in measured.items()}


def _calibration_error(confidence: Float64[np.ndarray, " q"], right: Bool[np.ndarray, " q"]) -> float:
    bins = np.array_split(np.argsort(confidence, kind="stable"), BINS)
    return sum(abs(float((confidence - right)[one].sum())) for one in bins) / len(right)


def _recalls(outcomes: Sequence[QuestionOutcome]) -> tuple[float, float]:
    ranks = np.array([one.rank for one in outcomes])
    return float((ranks == 1).mean()), float((ranks > 0).mean())
