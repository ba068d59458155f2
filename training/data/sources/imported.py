"""What reading a data set of others gives: entries for a manifest, and a sentence for every problem."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from multifold import manifest
from multifold.errors import MultifoldError
from multifold.manifest import ManifestEntry

SPLITS = ("train", "val", "test")
SHARES = "80/10/10"  # of train, val and test, where no split is given
SHOWN_PROBLEMS = 10
MOST_BROKEN = 0.1  # of the items of a training; more are no accident


class DatasetError(MultifoldError):
    """A data set that is not laid out as its adapter expects."""


@dataclass
class ImportedDataset:
    """Items, and the problems of those that are left out."""

    entries: list[ManifestEntry] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def leave_out(self, name: str, reason: str) -> None:
        self.problems.append(f"left out {name}: {reason}")

    def counts(self) -> dict[str, tuple[int, int]]:
        by_split = {split: [0, 0] for split in (*SPLITS, "none")}
        for entry in self.entries:
            by_split[entry.split or "none"][0] += 1
            by_split[entry.split or "none"][1] += len(entry.texts)
        return {split: (items, texts) for split, (items, texts) in by_split.items() if items}


def write_imported(dataset: ImportedDataset, path: Path) -> list[str]:
    """Write the manifest; the lines to report, split by split, with the first problems."""
    if not dataset.entries:
        first = dataset.problems[0] if dataset.problems else "nothing was found"
        raise DatasetError(f"no item is left to write: {first}")
    path.parent.mkdir(parents=True, exist_ok=True)
    manifest.write(path, dataset.entries)
    lines = [f"{split}: {items} items, {texts} texts" for split, (items, texts) in dataset.counts().items()]
    if repeated := sum(len(entry.texts) - len(set(entry.texts)) for entry in dataset.entries):
        lines.append(f"{repeated} texts repeat another of their item, and count as in published numbers")
    shown = dataset.problems[:SHOWN_PROBLEMS]
    if len(dataset.problems) > SHOWN_PROBLEMS:
        log = path.with_suffix(".problems.txt")
        log.write_text("\n".join(dataset.problems) + "\n", encoding="utf-8")
        shown.append(f"… and {len(dataset.problems) - SHOWN_PROBLEMS} more, all in {log}")
    return [*lines, *shown, f"wrote {path}"]


def compare_counts(dataset: ImportedDataset, published: Mapping[str, tuple[int, int]]) -> list[str]:
    """Where the counts differ from the published ones, split by split."""
    ours = {split: dataset.counts().get(split, (0, 0)) for split in published}
    return [
        f"{split}: {ours[split][0]:,} of the published {items:,} items, {ours[split][1]:,} of {texts:,} texts"
        for split, (items, texts) in published.items()
        if ours[split] != (items, texts)
    ]


def parse_shares(text: str) -> Sequence[int]:
    parts = text.split("/")
    if len(parts) != len(SPLITS) or not all(part.isdigit() for part in parts) or sum(map(int, parts)) != 100:
        raise DatasetError(f"splits are three percentages that add up to 100, like 80/10/10, not {text!r}")
    return [int(part) for part in parts]


def split_of(key: str, percentages: Sequence[int]) -> str:
    """The same split for the same key, independent of all other keys."""
    place = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % 100
    return SPLITS[0 if place < percentages[0] else 1 if place < percentages[0] + percentages[1] else 2]
