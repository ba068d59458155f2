"""The plan of an ingest: the entries of a folder or a manifest compared with the items of the collection.

Items of a folder are known by source and path in their payload. The payload of a manifest's item is the
user's own, so such an item is known by its pictures and by the views that its mesh gave."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from app.ingest import captions as intake_metadata
from app.ingest import captions as intake_names
from app.ingest.caches import ContentCache, FileStamp, ViewCache
from app.ingest.sources import SourceFolder
from index.collection import Collection
from index.store.blobs import Blobs, FolderBlobs
from index.store.filters import parse_filter
from multifold.errors import MultifoldError
from multifold.files.folder import FileProblem, FolderContents, files_of, printable_path
from multifold.manifest import ManifestEntry
from multifold.types import Item, Kind

PAGE = 500


@dataclass(frozen=True)
class IngestTask:
    """An item to be written: what it is made of, and what it is to be called."""

    id: str
    texts: tuple[str, ...]
    images: tuple[Path, ...]
    mesh: Path | None
    payload: Mapping[str, Any]
    within: Path | None = None  # the folder whose files the mesh may name
    seen: bool = False  # what there is to see is in the collection already: only words have changed
    stamps: tuple[FileStamp, ...] = ()  # how its files were when they were hashed


@dataclass
class IngestPlan:
    """What is to be done, and what is not."""

    added: list[IngestTask] = field(default_factory=list)
    changed: list[IngestTask] = field(default_factory=list)
    moved: list[IngestTask] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    unchanged: int = 0
    skipped: list[FileProblem] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)

    def works(self) -> list[IngestTask]:
        """All that is to be written; what has only moved comes first, for it is quickly done."""
        return [*self.moved, *self.changed, *self.added]


@dataclass(frozen=True)
class SourceItem:
    """What the collection says of an item from this folder."""

    id: str
    texts: tuple[str, ...]
    payload: Mapping[str, Any]
    whole: bool = True  # its pictures and originals are there


def plan_folder(
    found: FolderContents,
    source: SourceFolder,
    scope: Path | None,
    collection: Collection | None,
    contents: ContentCache,
    *,
    names: bool,
    metadata: bool = True,
    watching: Callable[[Sequence[ManifestEntry]], Iterable[ManifestEntry]] = iter,
) -> IngestPlan:
    """Compare; what is gone is deleted if it lay below `scope`."""
    result = IngestPlan(
        skipped=list(found.problems), passed_over=[printable_path(path) for path in found.others]
    )
    stored = {} if collection is None else _source_items(collection, source)
    works: list[IngestTask] = []
    for entry in watching(found.entries):
        try:
            works.append(_task_of(entry, source, contents, names=names, metadata=metadata))
        except (MultifoldError, OSError) as error:
            result.skipped.append(FileProblem(entry.id, _error_text(error)))
            stored.pop(_path(files_of(entry)[0], source), None)  # it stays as it was
    fresh = [
        work for work in works if not _settle_known(result, work, stored.pop(work.payload["path"], None))
    ]
    fresh = _match_moved(result, fresh, stored, source)
    fresh = _match_ids(result, fresh, stored)
    _name_new(result, fresh, source, collection)
    if scope is not None:
        result.deleted = [one.id for one in stored.values() if _is_gone(one, source, scope, found)]
    return result


def _task_of(
    entry: ManifestEntry, source: SourceFolder, contents: ContentCache, *, names: bool, metadata: bool
) -> IngestTask:
    first = files_of(entry)[0]
    known = [contents.of(path, source.root) for path in files_of(entry)]
    kinds = "".join("m" if path == entry.mesh else "p" for path in files_of(entry))
    digest = hashlib.sha256("-".join([kinds, *(one.hash for one in known)]).encode()).hexdigest()
    path = PurePosixPath(_path(first, source))
    payload = {
        **entry.meta,
        "source": source.name,
        "path": str(path),
        "folder": str(path.parent),
        "format": path.suffix.lower()[1:],
        "size": known[0].stamps[0][1],
        "content": digest,
    }
    texts = entry.texts or (
        *(intake_names.name_captions(intake_names.strip_suffixes(path)) if names else ()),
        *(intake_metadata.metadata_captions(entry.mesh) if metadata and entry.mesh else ()),
    )
    stamps = tuple(one for each in known for one in each.stamps)
    return IngestTask(entry.id, texts, entry.images, entry.mesh, payload, source.root, stamps=stamps)


def _settle_known(
    result: IngestPlan, work: IngestTask, stored: SourceItem | None, *, moved: bool = False
) -> bool:
    """Say what becomes of an item that the collection may have; whether it has it."""
    if stored is None:
        return False
    same = stored.payload.get("content") == work.payload["content"]
    if same and stored.whole and stored.texts == work.texts and dict(stored.payload) == dict(work.payload):
        result.unchanged += 1
        return True
    (result.moved if moved else result.changed).append(
        replace(work, id=stored.id, seen=same and (moved or stored.whole))
    )
    return True


def _match_moved(
    result: IngestPlan, fresh: Sequence[IngestTask], stored: dict[str, SourceItem], source: SourceFolder
) -> list[IngestTask]:
    """Files that hold what another held that is gone now: it has moved here."""
    gone: dict[str, list[str]] = defaultdict(list)
    for path, one in stored.items():
        if not (source.root / path).exists():  # else it lies outside what was asked for
            gone[str(one.payload.get("content"))].append(path)
    left = []
    for work in fresh:
        places = gone[work.payload["content"]]
        if places:
            _settle_known(result, work, stored.pop(places.pop(0)), moved=True)
        else:
            left.append(work)
    return left


def _match_ids(
    result: IngestPlan, fresh: Sequence[IngestTask], stored: dict[str, SourceItem]
) -> list[IngestTask]:
    """Items of this name whose first file is another one now."""
    paths = {one.id: path for path, one in stored.items()}
    left = []
    for work in fresh:
        path = paths.get(work.id)
        if path is None or not _settle_known(result, work, stored.pop(path, None)):
            left.append(work)
    return left


def _name_new(
    result: IngestPlan, fresh: Iterable[IngestTask], source: SourceFolder, collection: Collection | None
) -> None:
    """What is new gets an id that nobody has."""
    taken = {work.id for work in result.works()}
    for work in fresh:
        tail = work.payload["content"][:8]
        tries = (work.id, f"{source.name}/{work.id}", f"{work.id}~{tail}", f"{source.name}/{work.id}~{tail}")
        free = (
            one for one in tries if one not in taken and (collection is None or collection.get(one) is None)
        )
        name = next(free, None)
        if name is None:
            result.skipped.append(FileProblem(work.id, "its id belongs to another item; rename the file"))
            continue
        taken.add(name)
        result.added.append(replace(work, id=name))


def _source_items(collection: Collection, source: SourceFolder) -> dict[str, SourceItem]:
    """The items of a source, by path."""
    where = parse_filter({"source": source.name})
    found: dict[str, SourceItem] = {}
    after = None
    while page := collection.scroll(after, PAGE, where):
        for item in page:
            texts = tuple(one.text or "" for one in item.observations if one.kind == "caption")
            whole = has_all_blobs(item, collection.blobs)
            found[str(item.payload.get("path"))] = SourceItem(item.id, texts, item.payload, whole)
        after = page[-1].id
    return found


def has_all_blobs(item: Item, blobs: Blobs) -> bool:
    """Whether its pictures and originals are there, as far as that is cheap to know."""
    pictures = (one.blob for one in item.observations if one.blob is not None)
    return not isinstance(blobs, FolderBlobs) or all(map(blobs.exists, (*pictures, *item.files)))


def _is_gone(stored: SourceItem, source: SourceFolder, scope: Path, found: FolderContents) -> bool:
    path = source.root / str(stored.payload.get("path"))
    return path.is_relative_to(scope) and not any(path.is_relative_to(folder) for folder in found.unread)


def _path(path: Path, source: SourceFolder) -> str:
    return path.relative_to(source.root).as_posix()


def _error_text(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"it cannot be read ({error.strerror}); see its permissions and the disk"
    return str(error)


HASH_LENGTH = 64


def plan_manifest(
    entries: Iterable[ManifestEntry], collection: Collection | None, drawn: ViewCache, contents: ContentCache
) -> IngestPlan:
    """Compare the entries with the items of these names; nothing is deleted."""
    result = IngestPlan()
    for entry in entries:
        stored = None if collection is None else collection.get(entry.id)
        work = IngestTask(entry.id, entry.texts, entry.images, entry.mesh, entry.meta)
        if collection is None or stored is None:
            result.added.append(work)
        elif _is_unchanged(stored, entry, drawn, contents) and has_all_blobs(stored, collection.blobs):
            result.unchanged += 1
        else:
            result.changed.append(work)
    return result


def _is_unchanged(stored: Item, entry: ManifestEntry, drawn: ViewCache, contents: ContentCache) -> bool:
    """Whether the collection holds just what this entry would make."""
    if dict(stored.payload) != dict(entry.meta):
        return False
    try:
        photos = tuple(contents.of(path).hash for path in entry.images)
        views = () if entry.mesh is None else drawn.get(contents.of(entry.mesh).hash)
    except (MultifoldError, OSError):
        return False  # taking it in will say why
    captions = tuple(seen.text for seen in stored.observations if seen.kind == "caption")
    stored_photos = tuple(key[:HASH_LENGTH] for key in _blobs_of_kind(stored, "photo"))
    return (captions, stored_photos, _blobs_of_kind(stored, "view")) == (entry.texts, photos, views)


def _blobs_of_kind(item: Item, kind: Kind) -> tuple[str, ...]:
    return tuple(seen.blob for seen in item.observations if seen.kind == kind and seen.blob is not None)
