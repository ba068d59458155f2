"""The plan of an ingest: the entries of a folder or a manifest compared with the items of the collection.

Items of a folder are recognised by source and path in their payload. The payload of a manifest's item is the
user's own, so such an item is recognised by its pictures and by the views that its mesh gave.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from app.encoding.observations import MeshPath
from app.ingest.caches import ContentCache, ViewCache
from app.ingest.captions import NO_WORDS, entry_captions, read_mesh_words
from app.ingest.progress import show_progress
from app.ingest.sources import FileStamp, IngestTask, SourceFolder, stamp_file
from index.collection import Collection
from index.store import browse
from index.store.blobs import BlobKey, Blobs, FolderBlobs
from index.store.filters import parse_filter
from multifold.errors import MultifoldError
from multifold.files import folder
from multifold.files.folder import FileProblem, FolderContents
from multifold.manifest import ManifestEntry
from multifold.payload import FILE_KEYS, PART_NAMES, machine_part, owner_part
from multifold.types import Item

NAMED_ONLY = ""  # the content of an item whose files nobody has read yet
LONELY = "no mesh or picture has its name, so it is the caption of nothing"


@dataclass
class IngestPlan:
    """What is to be done, and what is not."""

    source: SourceFolder | None = None  # None for a manifest
    added: list[IngestTask] = field(default_factory=list)
    changed: list[IngestTask] = field(default_factory=list)
    moved: list[IngestTask] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    unchanged: int = 0
    skipped: list[FileProblem] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    notes: list[FileProblem] = field(default_factory=list)  # on items that are unchanged

    def tasks(self) -> list[IngestTask]:
        """All that is to be written; items that only moved come first, as they take no time."""
        return [*self.moved, *self.changed, *self.added]


def plan_manifest(
    entries: Sequence[ManifestEntry], collection: Collection | None, views: ViewCache, contents: ContentCache
) -> IngestPlan:
    """Compare the entries with the items of these names; nothing is deleted."""
    plan = IngestPlan()
    for entry in show_progress("comparing", entries, len(entries)):
        stored = None if collection is None else collection.get(entry.id)
        mesh = None if entry.mesh is None else MeshPath(entry.mesh)
        kept = {} if stored is None else machine_part(stored.payload)
        task = IngestTask(entry.id, entry.texts, entry.images, mesh, {**kept, **entry.meta})
        if collection is None or stored is None:
            plan.added.append(task)
        elif _is_unchanged(stored, entry, views, contents) and _has_all_blobs(stored, collection.blobs):
            plan.unchanged += 1
        else:
            plan.changed.append(task)
    return plan


def _is_unchanged(stored: Item, entry: ManifestEntry, cache: ViewCache, contents: ContentCache) -> bool:
    if owner_part(stored.payload) != owner_part(entry.meta):
        return False
    try:
        photos = tuple(contents.of(path).hash for path in entry.images)
        views = () if entry.mesh is None else cache.get(contents.of(entry.mesh).hash)
    except (MultifoldError, OSError):
        return False  # the pipeline reports why
    stored_photos = tuple(BlobKey(key).hash for key in stored.pictures("photo"))
    return (stored.texts, stored_photos, stored.pictures("view")) == (entry.texts, photos, views)


def _has_all_blobs(item: Item, blobs: Blobs) -> bool:
    """Whether its pictures and originals are there, as far as that is cheap to find out."""
    keys = (*item.pictures("photo", "view"), *item.files)
    return not isinstance(blobs, FolderBlobs) or all(map(blobs.exists, keys))


@dataclass(frozen=True)
class SourceItem:
    """An item of the collection that came from the folder."""

    id: str
    texts: tuple[str, ...]
    payload: Mapping[str, Any]
    complete: bool  # its pictures and originals are there, and nothing of it is damaged
    notes: tuple[str, ...] = ()  # what could not be drawn of it


def plan_folder(
    files: FolderContents,
    source: SourceFolder,
    scope: Path | None,
    collection: Collection | None,
    contents: ContentCache,
    *,
    names: bool = True,
    metadata: bool = True,
) -> IngestPlan:
    """Compare; items whose files are gone are deleted if these were below `scope`."""
    plan = IngestPlan(source, skipped=list(files.problems))
    for other in files.others:
        name = folder.printable_path(other)
        if scope is not None and other.suffix.lower() in folder.TEXT_SUFFIXES:
            plan.skipped.append(FileProblem(name, LONELY))
        else:
            plan.passed_over.append(name)
    stored = {} if collection is None else _source_items(collection, source)
    tasks: list[IngestTask] = []
    for entry in show_progress("comparing", files.entries, len(files.entries)):
        try:
            tasks.append(_task_of(entry, source, contents, names=names, metadata=metadata))
        except (MultifoldError, OSError) as error:
            plan.skipped.append(FileProblem(entry.id, _reason(error)))
            stored.pop(_path(entry, source), None)  # it stays as it was
    tasks = _match(plan, tasks, stored, lambda task: [task.payload["path"]])
    gone: dict[str, list[str]] = defaultdict(list)  # paths by content: a file that has it was moved
    for path, item in stored.items():
        if not (source.root / path).exists():  # else it is outside of what is ingested now
            gone[str(item.payload.get("content"))].append(path)
    tasks = _match(plan, tasks, stored, lambda task: gone[task.payload["content"]], moved=True)
    by_id = {item.id: [path] for path, item in stored.items()}  # of another path of the folder
    tasks = _match(plan, tasks, stored, lambda task: by_id.get(task.id, []))
    _name_new(plan, tasks, source, collection)
    if scope is not None:
        for path, item in stored.items():
            file = source.root / path
            if file.is_relative_to(scope) and not any(map(file.is_relative_to, files.unread)):
                plan.deleted.append(item.id)
    return plan


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"it cannot be read ({error.strerror}); see its permissions and the disk"
    return str(error)


def _task_of(
    entry: ManifestEntry, source: SourceFolder, contents: ContentCache, *, names: bool, metadata: bool
) -> IngestTask:
    files = folder.files_of(entry)
    hashed = [contents.of(path, source.root) for path in files]
    kinds = "".join("m" if path == entry.mesh else "p" for path in files)
    content = hashlib.sha256("-".join([kinds, *(one.hash for one in hashed)]).encode()).hexdigest()
    mesh = None if entry.mesh is None else MeshPath(entry.mesh, source.root)
    stamps = tuple(stamp for content in hashed for stamp in content.stamps)
    payload = _payload(entry, source, hashed[0].stamps[0][1], content)
    words = NO_WORDS
    if metadata and entry.mesh is not None and not entry.texts:
        words = read_mesh_words(entry.mesh)
    if words.parts:
        payload[PART_NAMES] = words.parts
    texts = entry_captions(entry, payload["path"], words, names=names)
    return IngestTask(entry.id, texts, entry.images, mesh, payload, stamps=stamps)


def _payload(entry: ManifestEntry, source: SourceFolder, size: int, content: str) -> dict[str, Any]:
    path = PurePosixPath(_path(entry, source))
    return {
        **entry.meta,
        "source": source.name,
        "path": str(path),
        "folder": str(path.parent),
        "format": path.suffix.lower()[1:],
        "size": size,
        "content": content,
    }


def _path(entry: ManifestEntry, source: SourceFolder) -> str:
    """The place of its first file, by which an item is recognised."""
    return folder.files_of(entry)[0].relative_to(source.root).as_posix()


def plan_names(
    files: FolderContents, source: SourceFolder, collection: Collection, unread: Mapping[str, FileStamp]
) -> list[IngestTask]:
    """New items by their names and captions alone, the newest first; no file of theirs is read.

    Left out are paths that are `unread` as long as their stamps are these, ids of other items, and files of
    the size of one that is gone, which may be the same file at another place.
    """
    stored = _source_items(collection, source)
    gone = {item.payload.get("size") for path, item in stored.items() if not (source.root / path).exists()}
    new: list[tuple[int, str, int, ManifestEntry]] = []
    for entry in files.entries:
        path = _path(entry, source)
        with suppress(OSError):
            stamp = stamp_file(source.root / path)
            _, size, changed, *_ = stamp
            if path not in stored and size not in gone and unread.get(path) != stamp:
                new.append((-changed, path, size, entry))
    taken = {item.id for item in stored.values()}
    tasks = []
    for _, path, size, entry in sorted(new, key=lambda one: one[:2]):
        if entry.id not in taken and collection.get(entry.id) is None:
            taken.add(entry.id)
            texts = entry_captions(entry, path) or (PurePosixPath(path).stem,)
            tasks.append(IngestTask(entry.id, texts, payload=_payload(entry, source, size, NAMED_ONLY)))
    return tasks


def _match(
    plan: IngestPlan,
    tasks: Iterable[IngestTask],
    stored: dict[str, SourceItem],
    paths: Callable[[IngestTask], Iterable[str]],
    *,
    moved: bool = False,
) -> list[IngestTask]:
    """Plan tasks that are of the stored item at one of their paths; gives the tasks that are left."""
    left = []
    for task in tasks:
        path = next((path for path in paths(task) if path in stored), None)
        if path is None:
            left.append(task)
        else:
            _plan_stored(plan, task, stored.pop(path), moved=moved)
    return left


def _plan_stored(plan: IngestPlan, task: IngestTask, stored: SourceItem, *, moved: bool) -> None:
    """Plan what becomes of the stored item of a task."""
    told = task.payload.keys() - FILE_KEYS  # by a .json; else what is there beside was added by somebody
    kept = machine_part(stored.payload) if told else stored.payload
    kept = {key: value for key, value in kept.items() if key not in FILE_KEYS}
    task = replace(task, payload={**kept, **task.payload})
    same_files = stored.payload.get("content") == task.payload["content"]
    same_words = (stored.texts, dict(stored.payload)) == (task.texts, dict(task.payload))
    if same_files and stored.complete and same_words:
        plan.unchanged += 1
        plan.notes += [FileProblem(stored.id, note) for note in stored.notes]
        return
    task = replace(
        task,
        id=stored.id,
        keeps_pictures=same_files and (moved or stored.complete),
        keeps_captions=stored.complete and stored.texts == task.texts,
    )
    (plan.moved if moved else plan.changed).append(task)


def _name_new(
    plan: IngestPlan, tasks: Iterable[IngestTask], source: SourceFolder, collection: Collection | None
) -> None:
    """Plan new items, each with an id that no other item has."""
    taken = {task.id for task in plan.tasks()}
    for task in tasks:
        tail = task.payload["content"][:8]
        tries = (task.id, f"{source.name}/{task.id}", f"{task.id}~{tail}", f"{source.name}/{task.id}~{tail}")
        free = (
            name
            for name in tries
            if name not in taken and (collection is None or collection.get(name) is None)
        )
        name = next(free, None)
        if name is None:
            plan.skipped.append(FileProblem(task.id, "its id belongs to another item; rename the file"))
        else:
            taken.add(name)
            plan.added.append(replace(task, id=name))


def _source_items(collection: Collection, source: SourceFolder) -> dict[str, SourceItem]:
    where = parse_filter({"source": source.name})

    def describe(item: Item) -> SourceItem:
        complete = not item.damaged and _has_all_blobs(item, collection.blobs)
        return SourceItem(item.id, item.texts, item.payload, complete, item.notes)

    return collection.read(
        lambda now: {str(one.payload.get("path")): describe(one) for one in browse.every_item(now, where)}
    )
