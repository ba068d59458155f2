"""Measure an encoder on a manifest, by its bundle, its checkpoint or its service, and write the report."""

import argparse
import json
import shlex
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from multifold import manifest
from multifold.bundle.bundle import file_hash
from multifold.client import Client
from multifold.errors import MultifoldError
from multifold.manifest import ManifestEntry
from training.evaluate import (
    classification,
    examples,
    protocols,
    random_features,
    report,
    service,
    similarities,
)
from training.evaluate.opening import open_evaluated
from training.evaluate.protocols import Protocol
from training.evaluate.report import ReportSection, report_sections
from training.evaluate.subject import encode_test_set
from training.retrieval import directions
from training.retrieval.directions import Pooling, RetrievalDirection

LEAST_DRAWS = 2  # that have a deviation

Measurement: TypeAlias = tuple[dict[str, Any], list[ReportSection]]  # numbers, and figures of the report


def run(args: argparse.Namespace) -> int:
    """Measure each manifest, print the tables, write the reports; of several, their mean."""
    _check(args)
    measured = {}
    for path in args.manifests:
        out = args.out if args.out is None or len(args.manifests) == 1 else args.out / path.stem
        one = argparse.Namespace(**{**vars(args), "manifest": path, "out": out})
        measured[path.stem] = _measure(one)["classes"]
    if len(args.manifests) > 1:
        means = {"manifests": measured, "mean": classification.mean_classes(measured)}
        table = report.report_markdown("Classification", [report.mean_section(measured, means["mean"])])
        print(table)
        if args.out is not None:
            (args.out / "classes.md").write_text(table, encoding="utf-8")
            text = json.dumps(means, indent=2, ensure_ascii=False)
            (args.out / "classes.json").write_text(text + "\n", encoding="utf-8")
    return 0


def _check(args: argparse.Namespace) -> None:
    """Refuse what does not go together."""
    by_service = _is_service(args)
    if args.probe and (by_service or args.label is None or args.split in (None, "train", "val")):
        raise MultifoldError("--probe learns from train and val: name another --split, a --label, no service")
    if args.prompts is not None and (by_service or args.label is None):
        raise MultifoldError("--prompts are of classes: name a --label, no service")
    if args.average_distances and (by_service or args.label is None):
        raise MultifoldError("--average-distances is for classes: name a --label, no service")
    if args.frequencies is not None and args.draws is None:
        raise MultifoldError("--frequencies is the number of random features of each of the --draws")
    if args.draws is not None and by_service:
        raise MultifoldError("--draws is for checkpoints: a service keeps the vectors of one draw")
    if args.draws is not None and args.draws < LEAST_DRAWS:
        raise MultifoldError(f"a deviation needs {LEAST_DRAWS} --draws, not {args.draws}")
    if args.frequencies is not None and args.frequencies < 1:
        raise MultifoldError(f"--frequencies is a positive number, not {args.frequencies}")
    if len(args.manifests) > 1:
        if by_service or args.label is None:
            raise MultifoldError("several manifests are classified: name a --label, no service")
        if len({path.stem for path in args.manifests}) < len(args.manifests):
            raise MultifoldError("several manifests need file names that differ: reports are named by them")


def _is_service(args: argparse.Namespace) -> bool:
    return bool(args.encoder.startswith(("http://", "https://")))


def _measure(args: argparse.Namespace) -> dict[str, Any]:
    """Measure one manifest, print its tables, write its report."""
    entries = list(manifest.read(args.manifest, args.split))
    if args.ids is not None:
        ids = set(args.ids.read_text(encoding="utf-8").split())
        entries = [entry for entry in entries if entry.id in ids]
    if not (entries := entries[: args.items]):
        raise MultifoldError(f"{args.manifest} has no such item")
    protocol = protocols.find_protocol(args.protocol)
    print(f"measuring {args.encoder} on {len(entries):,} items, protocol {args.protocol}", flush=True)
    differences = protocols.gallery_differences(protocol, entries)
    numbers = {
        "protocol": {"name": args.protocol, "about": protocol.about, "differences": differences},
        "data": {
            "manifest": args.manifest.name,
            "sha256": file_hash(args.manifest),
            "split": args.split or "all",
            "items": len(entries),
            "texts": sum(len(entry.texts) for entry in entries),
        },
        "command": repeat_command(args),
    }
    measure = _measure_service if _is_service(args) else _measure_encoder
    measured, pictures = measure(args, protocol, entries)
    _write(args.out, numbers | measured, pictures)
    return measured


def repeat_command(args: argparse.Namespace) -> str:
    """The command line that repeats this measurement."""
    left_out = {"encoder", "manifest", "manifests", "out", "cache", "key", "device"}
    options = [
        word
        for name, value in vars(args).items()
        if name not in left_out and value not in (None, False) and (name, value) != ("protocol", "own")
        for word in (f"--{name.replace('_', '-')}", *([] if value is True else [str(value)]))
    ]
    return shlex.join(["multifold", "eval", args.encoder, str(args.manifest), *options])


def _measure_service(
    args: argparse.Namespace, protocol: Protocol, entries: list[ManifestEntry]
) -> Measurement:
    with Client(args.encoder, api_key=args.key) as client:
        info = client.info()

        def search(name: str, pool: Pooling) -> RetrievalDirection | None:
            if name not in service.DIRECTIONS or pool not in service.POOLS:
                return None
            return service.direction(client, entries, name, pool, equal_texts=protocol.equal_texts)

        numbers = protocols.measure_retrieval(protocol, entries, search, args.label)
    bundle = info["bundle"]
    about = {"service": info["version"], "bundle": bundle["name"], "bundle_id": bundle["bundle_id"]}
    return {"encoder": about, "retrieval": numbers, "classes": {}}, []


def _measure_encoder(
    args: argparse.Namespace, protocol: Protocol, entries: list[ManifestEntry]
) -> Measurement:
    subject = open_evaluated(Path(args.encoder), args.device)
    encoder = subject.encoder
    equal_texts = protocol.equal_texts
    test = encode_test_set(subject, entries, args.cache)
    search = directions.search_among(encoder, test.observed, equal_texts)
    numbers = protocols.measure_retrieval(protocol, entries, search, args.label)
    pictures = [] if args.out is None else examples.example_sections(subject, test, equal_texts=equal_texts)
    measured = {
        "classes": {} if args.label is None else classification.measure_classes(subject, test, args),
        "encoder": {**subject.about, "geometry": subject.geometry, "code": version("multifold")},
        "retrieval": numbers,
        "similarities": similarities.measure_similarities(search),
    }
    if args.draws is not None:
        measured["random features"] = random_features.measure_draws(subject, protocol, entries, args)
    return measured, pictures


def _write(out: Path | None, numbers: dict[str, Any], pictures: list[ReportSection]) -> None:
    encoder = numbers["encoder"]
    title = f"{encoder.get('bundle') or encoder.get('recipe')} on {numbers['data']['manifest']}"
    sections = report_sections(numbers, pictures)
    markdown = report.report_markdown(title, sections)
    print(markdown)
    if out is None:
        return
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(numbers, indent=2, ensure_ascii=False)
    (out / "report.json").write_text(text + "\n", encoding="utf-8")
    (out / "report.md").write_text(markdown, encoding="utf-8")
    (out / "report.html").write_text(report.report_html(title, sections), encoding="utf-8")
    print(f"wrote {out / 'report.html'}, and report.json and report.md beside it")
