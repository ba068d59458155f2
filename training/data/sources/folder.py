"""One's own folder, as `multifold.folder` reads it, with splits for a training."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from multifold import folder
from multifold.manifest import Entry
from renderers.content import companions
from renderers.files.container import EXTENSIONS
from training.data.sources.found import Found, split_of


def read(root: Path, percentages: Sequence[int]) -> Found:
    """Every item below a folder; those with the very same texts go into the same split."""
    read = folder.read(root, folder.Layout(EXTENSIONS, companions))
    lonely = [path for path in read.others if path.suffix.lower() == ".txt"]
    silent = [entry.id for entry in read.entries if not entry.texts]
    problems = [
        *map(str, read.problems),
        *(f"left out {path}: it stands beside no mesh or picture of its name" for path in lonely),
        *(f"{name} has no captions: it can be searched, not learned from" for name in silent),
    ]
    return Found([_split(entry, percentages) for entry in read.entries], problems)


def _split(entry: Entry, percentages: Sequence[int]) -> Entry:
    key = "\n".join(sorted(entry.texts)) or entry.id
    return replace(entry, split=entry.split or split_of(key, percentages))
