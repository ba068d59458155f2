"""From the feedback on a collection to an improved bundle, and to a collection rebuilt with it."""

import argparse
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np

from multifold import manifest
from multifold.bundle import bundle as bundles
from multifold.bundle.bundle import Bundle, file_hash
from multifold.client import Client
from multifold.errors import MultifoldError
from training import checkpoint, improvement, loop, prepare
from training.export import open_weights
from training.export.bundle import export_bundle
from training.export.measured_export import FURNITURE
from training.improvement import FeedbackLesson, ImprovementOutcome
from training.retrieval import comparison
from training.retrieval.comparison import RivalEncoder

STARTING_CHECKPOINT = "began.pt"


class NoCheckpointError(MultifoldError):
    """A bundle without weights from which training can continue."""


def improve_bundle(args: argparse.Namespace, out: Path) -> Bundle | None:
    """The new bundle; none where it is not better. The report is written in either case."""
    current = bundles.load(args.bundle)
    start = starting_checkpoint(current, args.checkpoint, out)
    export = args.feedback or _export_feedback(args, out / "feedback")
    recipe = checkpoint.read_checkpoint(start).recipe
    lesson = improvement.prepare_lesson(list(manifest.read(export)), recipe, args.cache)
    outcome = improvement.improve(lesson, start, out, args.cache, args.changes, args.mix)
    report = improvement.improvement_report(lesson, outcome)
    (out / "report.md").write_text(report, encoding="utf-8")
    print(report)
    return None if outcome.reasons else _write_bundle(args, current, lesson, outcome)


def starting_checkpoint(current: Bundle, named: Path | None, out: Path) -> Path:
    """The checkpoint that a bundle was exported from."""
    wanted = current.provenance.get("checkpoint")
    if named is not None:
        if wanted is not None and file_hash(named) != wanted:
            raise NoCheckpointError(f"{named} is not what the bundle {current.name} was exported from")
        return named
    if wanted is not None:
        for path in sorted(Path("runs").rglob("*.pt")):
            if path.name not in (loop.LAST, loop.BEST) and file_hash(path) == wanted:
                return path
        raise NoCheckpointError(
            f"the checkpoint that {current.name} was exported from is not in runs/; name it by --checkpoint "
            f"(sha256 {wanted[:12]}…), or train and export it again"
        )
    if "weights" in current.provenance:
        published = open_weights.load_published(current.provenance["weights"], None, FURNITURE)
        checkpoint.save_checkpoint(out / STARTING_CHECKPOINT, published)
        return out / STARTING_CHECKPOINT
    raise NoCheckpointError(
        f"the bundle {current.name} holds graphs only, which cannot be trained, and names no "
        "checkpoint. Export the same weights by `multifold export open_clip:MODEL/TAG BUNDLE`, serve that "
        "bundle, and improve it; or fine-tune by a recipe (docs/finetune.md)"
    )


def _export_feedback(args: argparse.Namespace, out: Path) -> Path:
    """The collection with its feedback, exported by `multifold feedback` in a process of its own."""
    number = sum(1 for _ in out.parent.glob(f"{out.name}*"))
    folder = out if not out.exists() else out.with_name(f"{out.name}-{number}")
    words = ["feedback", "export", str(folder), "--collection", args.collection]
    for name in ("data", "config"):
        if (value := getattr(args, name)) is not None:
            words += [f"--{name}", str(value)]
    if subprocess.run([sys.executable, "-m", "multifold", *words], check=False).returncode:  # noqa: S603 (our own)
        raise MultifoldError("the feedback could not be exported, see above")
    return folder / "manifest.jsonl"


def _write_bundle(
    args: argparse.Namespace, current: Bundle, lesson: FeedbackLesson, outcome: ImprovementOutcome
) -> Bundle:
    """The new bundle, measured on the items of the old one."""
    trained = outcome.trained
    items = lesson.reference
    rival = RivalEncoder(current.name, current.bundle_id, {})
    kept_apart = sum(map(len, lesson.held_out))
    provenance = {
        "code": version("multifold"),
        "checkpoint": file_hash(outcome.path),
        "seed": trained.recipe.train.seed,
        "mix": args.mix,
        "against": comparison.describe_comparison(outcome.rest, rival, forced=False),
        "feedback": {"kept_apart": kept_apart, "recalls": comparison.recalls(outcome.gain)},
    }
    views = prepare.views(trained.recipe, items, args.cache)
    captions = [entry.texts for entry in items]
    groups = prepare.points(trained.recipe, items, args.cache)
    bundle = export_bundle(trained, np.asarray(views), captions, args.to, provenance, groups=groups)
    if current.reader_folder is not None:
        bundle = bundles.add_reader(bundle.folder, current.reader_folder)
    return bundle


def rebuild_collection(args: argparse.Namespace, bundle: Bundle) -> bool:
    """Rebuild the collection with the new bundle beside the old one, verify it, and move the alias to it."""
    with Client(args.service, timeout=600.0, api_key=os.environ.get("MULTIFOLD_KEY")) as client:
        aliases = {"default": ("main",), **client.aliases()}
        alias = args.collection if args.collection in aliases else "default"
        source, *others = aliases.get(args.collection, (args.collection,))
        if others:
            raise MultifoldError(f"{args.collection} stands for several collections: name one of them")
        target = f"{source[:40]}-{bundle.vector_id[:8]}"
        job = client.wait(client.rebuild(source, target, bundle=args.to.name, alias=alias).id)
    if job.state != "done":
        print("\n".join([f"the rebuild of the collection ended as {job.state}:", *job.errors]))
        return False
    print(f"{alias} points to {target}, with the new encoder; {source} is kept, to go back to")
    return True
