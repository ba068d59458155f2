"""Measure an encoder on a manifest: retrieval by named protocols, with intervals, as JSON, Markdown and HTML.

multifold eval bundles/furniture furniture/manifest.jsonl --split test --label kind
multifold eval http://127.0.0.1:8000 furniture/manifest.jsonl --split test

The encoder is a bundle, a checkpoint, or a running service that holds the items; the numbers are the same.
"""

import argparse
import json
import shlex
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from multifold import manifest
from multifold.bundle.bundle import file_hash
from multifold.bundle.calibration import CalibrationCurve
from multifold.client.client import Client
from multifold.errors import MultifoldError
from multifold.manifest import ManifestEntry
from training.evaluate import ablation, calibrate, classification, examples, protocols, report, service
from training.evaluate import protocols as measured
from training.evaluate.report import ReportSection
from training.evaluate.report_sections import report_sections
from training.evaluate.subject import encode_test_set, open_evaluated
from training.retrieval import directions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("encoder", help="a bundle's folder, a checkpoint, or the address of a service")
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--split", help="only items of this split")
    parser.add_argument("--items", type=int, help="only the first so many")
    parser.add_argument(
        "--ids", type=Path, metavar="LIST", help="only the items that this file names, one a line"
    )
    parser.add_argument(
        "--protocol", default="own", help=f"one of {', '.join(protocols.PROTOCOLS)}; %(default)s"
    )
    parser.add_argument("--label", metavar="KEY", help="a key of the items' metadata: tables by its values")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="write report.json, report.md and report.html"
    )
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"), help="rendered views")
    parser.add_argument("--probe", action="store_true", help="with --label: linear probe, from train and val")
    parser.add_argument("--ablation", type=Path, metavar="RESULTS", help="results.jsonl of an ablation")
    parser.add_argument(
        "--calibrate", action="store_true", help="fit confidence on these items, and keep it in the bundle"
    )
    parser.add_argument("--key", help="API key of the service")


def run(args: argparse.Namespace) -> int:
    """Measure, print the tables, write the report."""
    entries = choose_items(args)
    protocol = protocols.find_protocol(args.protocol)
    further = ablation.ablation_sections(args.ablation)
    print(f"measuring {args.encoder} on {len(entries):,} items, protocol {args.protocol}", flush=True)
    told = {
        "protocol": {
            "name": args.protocol,
            "about": protocol.about,
            "differences": protocols.gallery_differences(protocol, entries),
        },
        "data": {
            "manifest": args.manifest.name,
            "sha256": file_hash(args.manifest),
            "split": args.split or "all",
            "items": len(entries),
            "texts": sum(len(entry.texts) for entry in entries),
        },
        "command": repeat_command(args),
    }
    by = _by_service if args.encoder.startswith(("http://", "https://")) else _by_encoder
    if by is _by_service and args.calibrate:
        raise MultifoldError("--calibrate writes into a bundle; name its folder, not a service")
    if args.probe and (by is _by_service or args.label is None or args.split in (None, "train", "val")):
        raise MultifoldError(
            "--probe learns from train and val: name another --split, --label KEY, and no service"
        )
    numbers, shown = by(args, protocol, entries)
    told |= numbers
    _write(args.out, told, [*shown, *further])
    return 0


def choose_items(args: argparse.Namespace) -> list[ManifestEntry]:
    """The items that are measured on."""
    entries = list(manifest.read(args.manifest, args.split))
    if args.ids is not None:
        wanted = set(args.ids.read_text(encoding="utf-8").split())
        entries = [entry for entry in entries if entry.id in wanted]
    entries = entries[: args.items]
    if not entries:
        raise MultifoldError(f"{args.manifest} has no such item")
    return entries


def repeat_command(args: argparse.Namespace) -> str:
    """What repeats this."""
    left_out = {"encoder", "manifest", "out", "cache", "key", "ablation"}
    options = [
        word
        for name, value in vars(args).items()
        if name not in left_out and value not in (None, False) and (name, value) != ("protocol", "own")
        for word in (f"--{name.replace('_', '-')}", *([] if value is True else [str(value)]))
    ]
    return shlex.join(["multifold", "eval", args.encoder, str(args.manifest), *options])


def _by_service(
    args: argparse.Namespace, protocol: protocols.Protocol, entries: list[ManifestEntry]
) -> tuple[dict[str, Any], list[ReportSection]]:
    with Client(args.encoder, api_key=args.key) as client:
        info = client.info()

        def ask(name: str, pool: directions.Pooling) -> directions.RetrievalDirection | None:
            if name not in service.DIRECTIONS or pool not in service.POOLS:
                return None
            return service.direction(client, entries, name, pool, equal_texts=protocol.equal_texts)

        numbers = measured.measure_retrieval(protocol, entries, ask, args.label)
    about = {
        "service": info["version"],
        "bundle": info["bundle"]["name"],
        "bundle_id": info["bundle"]["bundle_id"],
    }
    return {"encoder": about, "retrieval": numbers}, []


def _by_encoder(
    args: argparse.Namespace, protocol: protocols.Protocol, entries: list[ManifestEntry]
) -> tuple[dict[str, Any], list[ReportSection]]:
    subject = open_evaluated(Path(args.encoder))
    test = encode_test_set(subject, entries, args.cache)
    possible = set(directions.available_directions(test.observed))

    def ask(name: str, pool: directions.Pooling) -> directions.RetrievalDirection | None:
        if (name, pool) not in possible:
            return None
        return directions.direction(
            subject.encoder, test.observed, name, pool, equal_texts=protocol.equal_texts
        )

    numbers = measured.measure_retrieval(protocol, entries, ask, args.label)
    curves, trust = calibrate.calibrate(subject.encoder, test.observed)
    if args.calibrate:
        _keep(args, entries, curves)
    shown = (
        []
        if args.out is None
        else examples.example_sections(subject.encoder, test, equal_texts=protocol.equal_texts)
    )
    told = {
        "calibration": trust,
        "classes": {} if args.label is None else classification.measure_classes(subject, test, args),
        "encoder": {**subject.about, "geometry": subject.geometry, "code": version("multifold")},
        "retrieval": numbers,
    }
    return told, shown


def _keep(
    args: argparse.Namespace, entries: list[ManifestEntry], curves: Mapping[str, CalibrationCurve]
) -> None:
    folder = Path(args.encoder)
    if not folder.is_dir():
        raise MultifoldError("--calibrate writes into a bundle: export the checkpoint first")
    sealed = calibrate.write_curves(folder, curves, **calibration_origin(args.manifest, args.split, entries))
    print(f"calibrated {len(curves)} pairs: bundle {sealed.bundle_id} (vectors {sealed.vector_id})")


def calibration_origin(path: Path, split: str | None, entries: Sequence[ManifestEntry]) -> dict[str, object]:
    """What a calibration says of the items it was fitted on."""
    return {"data": file_hash(path), "split": split, "items": len(entries)}


def _write(out: Path | None, told: Mapping[str, Any], further: Sequence[ReportSection]) -> None:
    encoder = told["encoder"]
    title = f"{encoder.get('bundle') or encoder.get('recipe')} on {told['data']['manifest']}"
    made = report_sections(told, further)
    print(report.report_markdown(title, made))
    if out is None:
        return
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.json").write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / "report.md").write_text(report.report_markdown(title, made), encoding="utf-8")
    (out / "report.html").write_text(report.report_html(title, made), encoding="utf-8")
    print(f"wrote {out / 'report.html'}, and report.json and report.md beside it")
