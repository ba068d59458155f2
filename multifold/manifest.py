"""A dataset or collection as JSONL: one item a line, its files relative to the manifest.

    {"id": "...", "images": ["a.jpg"], "mesh": "m.glb", "texts": ["..."], "split": "train", "meta": {...}}

Training, evaluation and ingestion read this one format; every dataset adapter writes it.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multifold.durable import replace_file
from multifold.errors import MultifoldError

SUFFIXES = (".jsonl", ".ndjson")
FIELDS = ("id", "images", "mesh", "texts", "split", "meta")


class ManifestError(MultifoldError):
    """A line of a manifest that cannot be used; says which and why."""


@dataclass(frozen=True)
class ManifestEntry:
    """One item of a manifest, its paths made absolute."""

    id: str
    images: tuple[Path, ...] = ()
    mesh: Path | None = None
    texts: tuple[str, ...] = ()
    split: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)


def read(path: Path, split: str | None = None) -> Iterator[ManifestEntry]:
    """The entries of a manifest in order, those of one split if it is named."""
    if not path.is_file():
        raise ManifestError(f"there is no manifest {path}")
    ids: set[str] = set()
    for number, line in _lines(path):
        try:
            entry = _parse(line, path.resolve().parent)
        except (ManifestError, RecursionError, ValueError) as error:
            raise ManifestError(f"{path}, line {number}: {error}") from error
        if entry.id in ids:
            raise ManifestError(f"{path}, line {number}: the id {entry.id!r} stands twice")
        ids.add(entry.id)
        if split is None or entry.split == split:
            yield entry


def write(path: Path, entries: Iterable[ManifestEntry]) -> None:
    """Write a manifest, whole or not at all; the paths of the entries become relative to it."""
    folder = path.resolve().parent
    with replace_file(path) as out:
        for entry in entries:
            out.write(json.dumps(_unparse(entry, folder), ensure_ascii=False).encode() + b"\n")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, numbered from 1."""
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise ManifestError(f"{path}, line {number}: not UTF-8") from error
            if text.strip():
                yield number, text


def _parse(line: str, folder: Path) -> ManifestEntry:
    raw = json.loads(line)
    if not isinstance(raw, dict):
        raise ManifestError("not a JSON object")
    unknown = sorted(set(raw) - set(FIELDS))
    if unknown:
        raise ManifestError(f"unknown field {unknown[0]!r}; fields are {', '.join(FIELDS)}")
    images, texts = _strings(raw, "images"), _strings(raw, "texts")
    mesh = raw.get("mesh")
    split = raw.get("split")
    meta = raw.get("meta", {})
    if not isinstance(raw.get("id"), str) or not raw["id"]:
        raise ManifestError("'id' must be a non-empty string")
    for name, value in (("mesh", mesh), ("split", split)):
        if value is not None and not isinstance(value, str):
            raise ManifestError(f"{name!r} must be a string")
    if not isinstance(meta, dict):
        raise ManifestError("'meta' must be an object")
    if not images and not texts and mesh is None:
        raise ManifestError("an item needs an image, a mesh or a text")
    paths = tuple(folder / image for image in images)
    return ManifestEntry(raw["id"], paths, None if mesh is None else folder / mesh, texts, split, meta)


def _strings(raw: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = raw.get(name, [])
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise ManifestError(f"{name!r} must be a list of strings")
    return tuple(value)


def _unparse(entry: ManifestEntry, folder: Path) -> dict[str, Any]:
    def relative(path: Path) -> str:
        return Path(os.path.relpath(path.resolve(), folder)).as_posix()

    mesh = entry.mesh and relative(entry.mesh)
    images = [relative(image) for image in entry.images]
    raw = vars(entry) | {"images": images, "mesh": mesh, "meta": dict(entry.meta)}
    return {name: value for name, value in raw.items() if value}
