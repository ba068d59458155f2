"""Make an encoder better by what people said of its hits, or say why not.

    multifold improve default --bundle bundles/furniture --to bundles/furniture-2
    multifold improve chairs --to bundles/chairs-2 --service http://127.0.0.1:8000

What people said of the hits of a collection is exported with its captions and views; the encoder learns from
a part of that, and rehearses what it knew. The new one is written where it finds more of the part that was
kept apart, beyond chance, and no less of what the old one was measured on. With --service the collection is
built anew beside the old one, verified, and an alias moved to it; the service must know the folder of --to
(its --bundles). docs/improve.md tells more.
"""

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
from multifold.client.client import Client
from multifold.errors import MultifoldError
from training import checkpoint, improvement, loop, prepare
from training.commands.export import FURNITURE
from training.evaluate import calibrate
from training.export import open_weights
from training.export.bundle import export_bundle
from training.export.explain_graphs import equip_bundle
from training.improvement import FeedbackLesson, ImprovementOutcome
from training.recipes.schema import DataSection
from training.retrieval import comparison
from training.retrieval.comparison import RivalEncoder

REFUSED = 1
BEGAN = "began.pt"


class NoCheckpointError(MultifoldError):
    """A bundle whose weights cannot be learned on from."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("collection", help="its name or an alias; `default` for the one without a name")
    parser.add_argument("--to", type=Path, required=True, metavar="BUNDLE", help="folder of the new bundle")
    parser.add_argument(
        "--bundle", type=Path, default=Path("bundles/furniture"), help="in use; default: %(default)s"
    )
    parser.add_argument("--checkpoint", type=Path, help="what it was exported from; else looked for in runs/")
    parser.add_argument("--data", type=Path, help="folder of the collections (default: data)")
    parser.add_argument("--config", type=Path, help="TOML file of settings, as `multifold serve` takes it")
    parser.add_argument("--said", type=Path, metavar="MANIFEST", help="an export of feedback that is there")
    parser.add_argument("--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE", dest="changes")
    parser.add_argument(
        "--mix",
        type=float,
        default=improvement.MIX,
        help="of the new weights with the old; default: %(default)s",
    )
    parser.add_argument("--service", metavar="URL", help="build the collection anew there, and move an alias")
    parser.add_argument("--unexplained", action="store_true", help="without graphs that explain matches")
    parser.add_argument("--out", type=Path, help="folder of the run (default: runs/improve-COLLECTION)")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"), help="rendered views")


def run(args: argparse.Namespace) -> int:
    """Export, learn, judge; write the bundle and flip, or say why not."""
    if (args.to / bundles.DESCRIPTION_FILE).exists():
        raise MultifoldError(f"{args.to} holds a bundle: name a new folder, so that one can go back")
    if not 0 < args.mix <= 1:
        raise MultifoldError(f"--mix is a share of the new weights above 0, up to 1, and not {args.mix:g}")
    out = args.out or Path("runs") / f"improve-{args.collection}"
    out.mkdir(parents=True, exist_ok=True)
    used = bundles.load(args.bundle)
    began = starting_checkpoint(used, args.checkpoint, out)
    told = args.said or _exported(args, out / "said")
    base = checkpoint.read_checkpoint(began).recipe
    lesson = improvement.prepare_lesson(list(manifest.read(told)), base, args.cache)
    outcome = improvement.improve(lesson, began, out, args.cache, args.changes, args.mix)
    report = improvement.improvement_report(lesson, outcome)
    (out / "report.md").write_text(report, encoding="utf-8")
    print(report)
    if outcome.reasons:
        print(f"nothing was changed; the report is in {out / 'report.md'}")
        return REFUSED
    made = _written(args, used, lesson, outcome)
    print(f"bundle {made.bundle_id} (vectors {made.vector_id}) in {args.to}")
    return _flip(args, made) if args.service else _next(args)


def starting_checkpoint(used: Bundle, given: Path | None, out: Path) -> Path:
    """The checkpoint that a bundle was made of."""
    provenance = used.provenance
    wanted = provenance.get("checkpoint")
    if given is not None:
        if wanted is not None and file_hash(given) != wanted:
            raise NoCheckpointError(f"{given} is not what the bundle {used.name} was exported from")
        return given
    if wanted is not None:
        return _found(used, wanted)
    if "weights" in provenance:
        opened = open_weights.load_published(
            provenance["weights"], None, DataSection(furniture_items=FURNITURE)
        )
        checkpoint.save_checkpoint(out / BEGAN, opened)
        return out / BEGAN
    raise NoCheckpointError(
        f"the bundle {used.name} holds graphs only, from which nothing can be learned on, and says of no "
        "checkpoint. Export the same weights by `multifold export open_clip:MODEL/TAG BUNDLE`, serve that "
        "bundle, and improve it; or fine-tune by a recipe (docs/finetune.md)"
    )


def _found(used: Bundle, wanted: str) -> Path:
    for path in sorted(Path("runs").rglob("*.pt")):
        if path.name not in (loop.LAST, loop.BEST) and file_hash(path) == wanted:
            return path
    raise NoCheckpointError(
        f"the checkpoint that {used.name} was exported from is not in runs/; name it by --checkpoint "
        f"(sha256 {wanted[:12]}…), or train and export it again"
    )


def _exported(args: argparse.Namespace, out: Path) -> Path:
    """The collection with its feedback; the service's room does that, in a process of its own."""
    number = sum(1 for _ in out.parent.glob(f"{out.name}*"))
    folder = out if not out.exists() else out.with_name(f"{out.name}-{number}")
    words = ["feedback", "export", str(folder), "--collection", args.collection]
    for name in ("data", "config"):
        if (value := getattr(args, name)) is not None:
            words += [f"--{name}", str(value)]
    if subprocess.run([sys.executable, "-m", "multifold", *words], check=False).returncode:  # noqa: S603 (our own)
        raise MultifoldError("the feedback could not be exported, see above")
    return folder / "manifest.jsonl"


def _written(
    args: argparse.Namespace, used: Bundle, lesson: FeedbackLesson, outcome: ImprovementOutcome
) -> Bundle:
    """The new bundle, measured and calibrated on what the old one was."""
    trained = outcome.trained
    views = prepare.views(trained.recipe, lesson.known, args.cache)
    rival = RivalEncoder(used.name, used.bundle_id, {})
    provenance = {
        "code": version("multifold"),
        "checkpoint": file_hash(outcome.path),
        "seed": trained.recipe.train.seed,
        "mix": args.mix,
        "against": comparison.describe_comparison(outcome.rest, rival, forced=False),
        "feedback": {"kept_apart": sum(map(len, lesson.asked)), "recalls": comparison.recalls(outcome.gain)},
    }
    captions = [entry.texts for entry in lesson.known]
    made = export_bundle(
        trained, np.asarray(views), captions, args.to, provenance, points=not args.unexplained
    )
    made = equip_bundle(made, (), not args.unexplained)
    about = {"data": lesson.known_by, "split": trained.recipe.data.test_split, "items": len(lesson.known)}
    return calibrate.calibrate_bundle(made.folder, lesson.known, args.cache, **about)


def _flip(args: argparse.Namespace, made: Bundle) -> int:
    """A collection for the new bundle beside the old one; an alias moves when it is verified."""
    with Client(args.service, timeout=600.0, api_key=os.environ.get("MULTIFOLD_KEY")) as client:
        aliases = {**client.aliases(), "default": client.aliases().get("default", "main")}
        alias = args.collection if args.collection in aliases else "default"
        real = aliases.get(args.collection, args.collection)
        name = f"{real[:40]}-{made.vector_id[:8]}"
        job = client.wait(client.rebuild(real, name, bundle=args.to.name, alias=alias).id)
    if job.state != "done":
        print("\n".join([f"the collection was not built anew, {job.state}:", *job.errors]))
        return REFUSED
    print(f"{alias} is {name} now, with the new encoder; {real} is still there, to go back to")
    return 0


def _next(args: argparse.Namespace) -> int:
    print(f"next: multifold improve … --service URL, or serve it by `make serve BUNDLE={args.to}`")
    return 0
