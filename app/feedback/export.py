"""Exports a collection and its verdicts as a manifest, for training: an item's captions and originals, and
the texts and pictures that it was judged good for as further captions and images of it.

What it was judged bad for is in `meta.feedback`, with its rivals: the items that were bad where it was good,
the hardest negatives. The majority of verdicts counts; a tie is left out.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.ingest.sources import find_original_mesh
from app.settings import Settings
from index.contracts import CollectionLocation
from index.registry import locate_collection
from index.store import browse, feedback
from index.store.blobs import BlobError, Blobs
from index.store.feedback import FeedbackQuery, Judgement
from index.store.store import Store, open_blobs
from multifold import manifest
from multifold.durable import make_folder, write_file
from multifold.errors import MultifoldError
from multifold.manifest import ManifestEntry
from multifold.types import Item

MANIFEST_FILE = "manifest.jsonl"


@dataclass(frozen=True)
class ItemOpinion:
    """The queries that one item was judged good and bad for."""

    good: list[FeedbackQuery] = field(default_factory=list)
    bad: list[FeedbackQuery] = field(default_factory=list)


@dataclass
class ExportReport:
    """How many verdicts were exported, and why others were not."""

    items: int = 0
    good: int = 0
    bad: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


@contextmanager
def open_store(settings: Settings, name: str) -> Iterator[tuple[Store, CollectionLocation]]:
    """The store of a collection for reading, and its location; a service may write to it meanwhile."""
    place = locate_collection(settings.place, name)
    store = Store(place.database or place.folder / "store.sqlite", None, read_only=True)
    try:
        yield store, place
    finally:
        store.close()


def export_feedback(settings: Settings, name: str, out: Path) -> ExportReport:
    """Write `manifest.jsonl` into a folder; files on this machine are not copied."""
    if (out / MANIFEST_FILE).exists():
        raise MultifoldError(f"{out / MANIFEST_FILE} is there already: choose another folder, or remove it")
    make_folder(out)
    report = ExportReport()
    with open_store(settings, name) as (store, place), store.moment() as now:
        opinions = weigh_judgements(feedback.every_judgement(now), report)
        files = ExportFiles(open_blobs(place.folder, place.bucket), place.folder, out / "files")
        rivals = find_rivals(opinions)
        ids = set(browse.list_ids(now))
        lost = [one for item, one in opinions.items() if item not in ids]
        report.left_out["whose item is gone"] += sum(len(one.good) + len(one.bad) for one in lost)

        def describe(item: Item) -> ManifestEntry | None:
            bad = sorted(rivals.get(item.id, set()) & ids)
            return _manifest_entry(item, opinions.get(item.id, ItemOpinion()), bad, files, report)

        manifest.write(out / MANIFEST_FILE, filter(None, map(describe, browse.every_item(now))))
    return report


def weigh_judgements(judgements: Iterable[Judgement], report: ExportReport) -> dict[str, ItemOpinion]:
    """The majority opinion of each item, for each query that can be trained on."""
    votes: dict[tuple[str, FeedbackQuery], int] = defaultdict(int)
    for judgement in judgements:
        query = feedback.text_or_picture(judgement.query)
        if query is None:
            report.left_out["whose query is no single text or picture that is kept"] += 1
        else:
            votes[judgement.item, query] += 1 if judgement.verdict == "good" else -1
    opinions: dict[str, ItemOpinion] = defaultdict(ItemOpinion)
    for (item, query), balance in votes.items():
        if balance:
            (opinions[item].good if balance > 0 else opinions[item].bad).append(query)
        else:
            report.left_out["on which people disagree"] += 1
    return dict(opinions)


def find_rivals(opinions: Mapping[str, ItemOpinion]) -> Mapping[str, set[str]]:
    """For each item those that were judged bad where it was good."""
    bad = defaultdict(set)
    for item, opinion in opinions.items():
        for query in opinion.bad:
            bad[query].add(item)
    rivals = {item: set().union(*(bad[query] for query in one.good)) for item, one in opinions.items()}
    return {item: others for item, others in rivals.items() if others}


@dataclass(frozen=True)
class ExportFiles:
    """The originals of items as files: in place, else copies."""

    blobs: Blobs
    home: Path  # of the collection
    copies: Path  # a folder

    def path(self, key: str) -> Path:
        in_place = self.blobs.file(key)
        if in_place is not None:
            return in_place
        make_folder(self.copies)
        write_file(self.copies / key, self.blobs.get(key))
        return self.copies / key

    def mesh(self, item: Item) -> Path | None:
        if item.files:
            return self.path(item.files[0])
        original = find_original_mesh(self.home, item.payload)
        return None if original is None else original.path


def _manifest_entry(
    item: Item, opinion: ItemOpinion, rivals: Sequence[str], files: ExportFiles, report: ExportReport
) -> ManifestEntry | None:
    try:
        mesh = files.mesh(item)
        photos = item.pictures("photo")
        if mesh is None and not photos:
            photos = item.pictures("view")  # its original is not here any more
        queries = (key for means, key in opinion.good if means == "image")
        pictures = tuple(map(files.path, (*photos, *queries)))
    except BlobError:
        report.left_out["whose pictures are lost"] += 1
        return None
    good = [text for means, text in opinion.good if means == "text"]
    bad = [text for means, text in opinion.bad if means == "text"]
    report.items += 1
    report.good += len(opinion.good)
    report.bad += len(opinion.bad)
    verdicts: dict[str, Any] = {"good": good, "bad": bad, "rivals": list(rivals)}
    meta = {**item.payload, "feedback": verdicts} if any(verdicts.values()) else item.payload
    texts = tuple(dict.fromkeys([*item.texts, *good]))
    return ManifestEntry(item.id, pictures, mesh, texts, None, meta)
