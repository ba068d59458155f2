"""The plan of an ingest: the entries of a folder or a manifest compared with the items of the collection.

Items of a folder are recognised by source and path in their payload. The payload of a manifest's item is the
user's own, so such an item is recognised by its pictures and by the views that its mesh gave. An item of a
folder without captions gets some from file and folder names, and from the metadata of glTF files.
"""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from app.encoding.observations import MeshPath
from app.ingest.pipeline import PreparedItem
from app.ingest.sources import ContentCache, FileStamp, IngestTask, SourceFolder, ViewCache, stamp_file
from index.collection import Collection
from index.store.blobs import BlobKey, Blobs, FolderBlobs
from index.store.filters import parse_filter
from multifold.errors import MultifoldError
from multifold.files import folder
from multifold.files.folder import FileProblem, FolderContents
from multifold.manifest import ManifestEntry
from multifold.types import Item
from renderers.mesh.formats.mesh_file import EXTENSIONS, GLB_MAGIC

PAGE_SIZE = 500


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

    def tasks(self) -> list[IngestTask]:
        """All that is to be written; items that only moved come first, as they take no time."""
        return [*self.moved, *self.changed, *self.added]


def plan_manifest(
    entries: Iterable[ManifestEntry], collection: Collection | None, views: ViewCache, contents: ContentCache
) -> IngestPlan:
    """Compare the entries with the items of these names; nothing is deleted."""
    plan = IngestPlan()
    for entry in entries:
        stored = None if collection is None else collection.get(entry.id)
        mesh = None if entry.mesh is None else MeshPath(entry.mesh)
        task = IngestTask(entry.id, entry.texts, entry.images, mesh, entry.meta)
        if collection is None or stored is None:
            plan.added.append(task)
        elif _is_unchanged(stored, entry, views, contents) and _has_all_blobs(stored, collection.blobs):
            plan.unchanged += 1
        else:
            plan.changed.append(task)
    return plan


def _is_unchanged(stored: Item, entry: ManifestEntry, cache: ViewCache, contents: ContentCache) -> bool:
    if dict(stored.payload) != dict(entry.meta):
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


def plan_folder(
    files: FolderContents,
    source: SourceFolder,
    scope: Path | None,
    collection: Collection | None,
    contents: ContentCache,
    *,
    names: bool,
    metadata: bool = True,
    watching: Callable[[Sequence[ManifestEntry]], Iterable[ManifestEntry]] = iter,
) -> IngestPlan:
    """Compare; items whose files are gone are deleted if these were below `scope`."""
    others = list(map(folder.printable_path, files.others))
    plan = IngestPlan(skipped=list(files.problems), passed_over=others)
    stored = {} if collection is None else _source_items(collection, source)
    tasks: list[IngestTask] = []
    for entry in watching(files.entries):
        try:
            tasks.append(_task_of(entry, source, contents, names=names, metadata=metadata))
        except (MultifoldError, OSError) as error:
            reason = str(error)
            if isinstance(error, OSError):
                reason = f"it cannot be read ({error.strerror}); see its permissions and the disk"
            plan.skipped.append(FileProblem(entry.id, reason))
            stored.pop(_path(folder.files_of(entry)[0], source), None)  # it stays as it was

    def match(task: IngestTask, path: str, *, moved: bool = False) -> bool:
        return _match(plan, task, stored.pop(path, None), moved=moved)

    new = [task for task in tasks if not match(task, task.payload["path"])]
    gone = _gone_paths(stored, source)
    pairs = [(task, gone[task.payload["content"]]) for task in new]
    new = [task for task, paths in pairs if not paths or not match(task, paths.pop(0), moved=True)]
    by_id = {item.id: path for path, item in stored.items()}
    new = [task for task in new if not match(task, by_id.get(task.id, ""))]
    _name_new(plan, new, source, collection)
    if scope is not None:
        for path, item in stored.items():
            file = source.root / path
            if file.is_relative_to(scope) and not any(map(file.is_relative_to, files.unread)):
                plan.deleted.append(item.id)
    return plan


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
    texts = _captions(entry, payload["path"], names=names, metadata=metadata)
    return IngestTask(entry.id, texts, entry.images, mesh, payload, stamps=stamps)


def _payload(entry: ManifestEntry, source: SourceFolder, size: int, content: str) -> dict[str, Any]:
    path = PurePosixPath(_path(folder.files_of(entry)[0], source))
    return {
        **entry.meta,
        "source": source.name,
        "path": str(path),
        "folder": str(path.parent),
        "format": path.suffix.lower()[1:],
        "size": size,
        "content": content,
    }


def _captions(entry: ManifestEntry, path: str, *, names: bool, metadata: bool) -> tuple[str, ...]:
    return entry.texts or (
        *(name_captions(strip_suffixes(PurePosixPath(path))) if names else ()),
        *(metadata_captions(entry.mesh) if metadata and entry.mesh else ()),
    )


FILE_KEYS = {"source", "path", "folder", "format", "size", "content"}  # of a payload that an ingest makes
NAMED_ONLY = ""  # the content of an item whose files nobody has read yet


def plan_names(
    files: FolderContents, source: SourceFolder, collection: Collection, passed: Mapping[str, FileStamp]
) -> Iterator[PreparedItem]:
    """New items by their names and captions alone, the newest first; no file of theirs is read.

    Left out are paths that are `passed` as long as their stamps are these, ids of other items, and files of
    the size of one that is gone, which may be the same file at another place.
    """
    stored = _source_items(collection, source)
    gone = {item.payload.get("size") for path, item in stored.items() if not (source.root / path).exists()}
    new: list[tuple[int, str, ManifestEntry, int]] = []
    for entry in files.entries:
        path = _path(folder.files_of(entry)[0], source)
        with suppress(OSError):
            stamp = stamp_file(source.root / path)
            if path not in stored and stamp[1] not in gone and passed.get(path) != stamp:
                new.append((-stamp[2], path, entry, stamp[1]))
    taken = {item.id for item in stored.values()}
    for _, path, entry, size in sorted(new, key=lambda one: one[:2]):
        if entry.id not in taken and collection.get(entry.id) is None:
            taken.add(entry.id)
            texts = _captions(entry, path, names=True, metadata=True) or (PurePosixPath(path).stem,)
            yield PreparedItem(entry.id, texts, payload=_payload(entry, source, size, NAMED_ONLY))


def _match(plan: IngestPlan, task: IngestTask, stored: SourceItem | None, *, moved: bool) -> bool:
    """Plan what becomes of the stored item of a task; False if there is none."""
    if stored is None:
        return False
    if task.payload.keys() == FILE_KEYS:  # no .json says more, so what else is there was added by somebody
        task = replace(task, payload={**stored.payload, **task.payload})
    same = stored.payload.get("content") == task.payload["content"]
    said = (stored.texts, dict(stored.payload)) == (task.texts, dict(task.payload))
    if same and stored.complete and said:
        plan.unchanged += 1
    else:
        keeps_pictures = same and (moved or stored.complete)
        keeps_captions = stored.complete and stored.texts == task.texts
        task = replace(task, id=stored.id, keeps_pictures=keeps_pictures, keeps_captions=keeps_captions)
        (plan.moved if moved else plan.changed).append(task)
    return True


def _gone_paths(stored: Mapping[str, SourceItem], source: SourceFolder) -> dict[str, list[str]]:
    """Paths of items whose file is gone, by content; another file of the same content is this one, moved."""
    gone: dict[str, list[str]] = defaultdict(list)
    for path, item in stored.items():
        if not (source.root / path).exists():  # else it is outside of what is ingested now
            gone[str(item.payload.get("content"))].append(path)
    return gone


def _name_new(
    plan: IngestPlan, tasks: Iterable[IngestTask], source: SourceFolder, collection: Collection | None
) -> None:
    taken = {task.id for task in plan.tasks()}
    for task in tasks:
        tail = task.payload["content"][:8]
        tries = (task.id, f"{source.name}/{task.id}", f"{task.id}~{tail}", f"{source.name}/{task.id}~{tail}")
        known = collection.get if collection is not None else lambda _: None
        name = next((one for one in tries if one not in taken and known(one) is None), None)
        if name is None:
            plan.skipped.append(FileProblem(task.id, "its id belongs to another item; rename the file"))
        else:
            taken.add(name)
            plan.added.append(replace(task, id=name))


def _source_items(collection: Collection, source: SourceFolder) -> dict[str, SourceItem]:
    where = parse_filter({"source": source.name})
    items: dict[str, SourceItem] = {}
    after = None
    while page := collection.scroll(after, PAGE_SIZE, where):
        for item in page:
            complete = not item.damaged and _has_all_blobs(item, collection.blobs)
            path = str(item.payload.get("path"))
            items[path] = SourceItem(item.id, item.texts, item.payload, complete)
        after = page[-1].id
    return items


def _path(path: Path, source: SourceFolder) -> str:
    return path.relative_to(source.root).as_posix()


EMPTY_NAMES = """
assets asset img image images dsc dscn dscf pxl photo photos picture pictures pic model models mesh
meshes scan untitled new copy final file files data gltf glb obj ply stl off dae step stp png jpg
jpeg webp gif texture textures src source sources export exports vid mvi
"""  # words that do not describe what a file shows
EMPTY_PART_NAMES = """
scene root rootnode node object obj mesh cube default material group polygon geometry sketchfab model
primitive sphere plane untitled auxscene gltf glb fbx dae export camera world
"""  # words that programs give to parts
SUFFIXES = frozenset((*EXTENSIONS, *folder.PICTURE_SUFFIXES, *folder.HEIF_SUFFIXES))
LARGEST_DESCRIPTION = 4 << 20  # bytes of glTF's JSON; a larger one is not read
LONGEST_CAPTION, MOST_PARTS = 200, 8  # letters of a caption; parts that are named
CAPTION_KEYS = ("title", "name", "description", "part", "tags", "keywords")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+", re.UNICODE)


def strip_suffixes(file: PurePath) -> PurePath:
    """Without its suffix, or both where an exporter left two: `lamp.gltf.glb` is the lamp."""
    while file.suffix.lower() in SUFFIXES:
        file = file.with_suffix("")
    return file


def name_captions(name: PurePath) -> tuple[str, ...]:
    """The words of an item's name, and the same with the nearest folder whose name describes something."""
    own, *parents = (_describing_words(part.name) for part in (name, *name.parents))
    both = [*next(filter(None, parents), []), *own]
    return tuple(dict.fromkeys(" ".join(words) for words in (own, both) if words))


def _split_words(name: str) -> list[str]:
    """`kitchenTable_A-2` as kitchen, table, a, 2."""
    return [word.lower() for word in _WORD.findall(name)]


def _describing_words(name: str) -> list[str]:
    words = _split_words(name)
    return words if any(_is_word(word) and word not in EMPTY_NAMES.split() for word in words) else []


def _is_word(word: str) -> bool:
    return len(word) > 1 and not word.isdigit()


def metadata_captions(mesh: Path) -> tuple[str, ...]:
    """Title and extras of a glTF file as they are, and the names of its parts as words."""
    description = _read_description(mesh) if mesh.suffix.lower() in (".glb", ".gltf") else {}
    nodes = [node for key in ("scenes", "nodes", "meshes") for node in _objects(description.get(key))]
    extras = [text for one in (_dict(description.get("asset")), *nodes) for text in _texts(one.get("extras"))]
    names = dict.fromkeys(" ".join(words) for node in nodes if (words := _part_words(node.get("name"))))
    texts = [*extras[:MOST_PARTS], " ".join(list(names)[:MOST_PARTS])]
    return tuple(dict.fromkeys(text[:LONGEST_CAPTION].strip() for text in texts if text.strip()))


def _read_description(mesh: Path) -> dict[str, Any]:
    """The JSON of the file; nothing if it is damaged, which the renderer will report."""
    try:
        with open(mesh, "rb") as file:
            head = file.read(20)
            is_glb = head.startswith(GLB_MAGIC)
            length = int.from_bytes(head[12:16], "little") if is_glb else LARGEST_DESCRIPTION
            data = head + file.read(min(length, LARGEST_DESCRIPTION))
        raw = data[20 : 20 + length] if is_glb else data
        return _dict(json.loads(raw)) if length <= LARGEST_DESCRIPTION else {}
    except (OSError, ValueError, RecursionError):
        return {}


def _texts(extras: object) -> Iterator[str]:
    for key, value in _dict(extras).items():
        if key.lower() in CAPTION_KEYS:
            values = value if isinstance(value, list) else [value]
            yield from (one for one in values if isinstance(one, str))


def _part_words(name: object) -> list[str]:
    words = _split_words(name) if isinstance(name, str) else []
    words = [word for word in words if word not in EMPTY_PART_NAMES.split()]
    return words if any(map(_is_word, words)) else []


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
