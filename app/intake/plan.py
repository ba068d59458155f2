"""What a run would do: the items of a folder against those that the collection has from it."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from app.intake import metadata as intake_metadata
from app.intake import names as intake_names
from app.intake.content import Contents, Stamp
from app.intake.sources import Source
from index.collection import Collection
from index.truth.blobfolder import FolderBlobs
from index.truth.blobs import Blobs
from index.truth.filters import parse
from multifold.errors import MultifoldError
from multifold.folder import Found, Problem, files, shown
from multifold.manifest import Entry
from multifold.types import Item

PAGE = 500


@dataclass(frozen=True)
class Work:
    """An item to be written: what it is made of, and what it is to be called."""

    id: str
    texts: tuple[str, ...]
    images: tuple[Path, ...]
    mesh: Path | None
    payload: Mapping[str, Any]
    within: Path | None = None  # the folder whose files the mesh may name
    seen: bool = False  # what there is to see is in the collection already: only words have changed
    stamps: tuple[Stamp, ...] = ()  # how its files were when they were hashed


@dataclass
class Plan:
    """What is to be done, and what is not."""

    added: list[Work] = field(default_factory=list)
    changed: list[Work] = field(default_factory=list)
    moved: list[Work] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    unchanged: int = 0
    skipped: list[Problem] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)

    def works(self) -> list[Work]:
        """All that is to be written; what has only moved comes first, for it is quickly done."""
        return [*self.moved, *self.changed, *self.added]


@dataclass(frozen=True)
class Stored:
    """What the collection says of an item from this folder."""

    id: str
    texts: tuple[str, ...]
    payload: Mapping[str, Any]
    whole: bool = True  # its pictures and originals are there


def plan(
    found: Found,
    source: Source,
    scope: Path | None,
    collection: Collection | None,
    contents: Contents,
    *,
    names: bool,
    metadata: bool = True,
    watching: Callable[[Sequence[Entry]], Iterable[Entry]] = iter,
) -> Plan:
    """Compare; what is gone is deleted if it lay below `scope`."""
    result = Plan(skipped=list(found.problems), passed_over=[shown(path) for path in found.others])
    stored = {} if collection is None else _stored(collection, source)
    works: list[Work] = []
    for entry in watching(found.entries):
        try:
            works.append(_work(entry, source, contents, names=names, metadata=metadata))
        except (MultifoldError, OSError) as error:
            result.skipped.append(Problem(entry.id, _sentence(error)))
            stored.pop(_path(files(entry)[0], source), None)  # it stays as it was
    fresh = [work for work in works if not _settle(result, work, stored.pop(work.payload["path"], None))]
    fresh = _match_moved(result, fresh, stored, source)
    fresh = _match_ids(result, fresh, stored)
    _name(result, fresh, source, collection)
    if scope is not None:
        result.deleted = [one.id for one in stored.values() if _is_gone(one, source, scope, found)]
    return result


def _work(entry: Entry, source: Source, contents: Contents, *, names: bool, metadata: bool) -> Work:
    first = files(entry)[0]
    known = [contents.of(path, source.root) for path in files(entry)]
    kinds = "".join("m" if path == entry.mesh else "p" for path in files(entry))
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
        *(intake_names.captions(intake_names.bare(path)) if names else ()),
        *(intake_metadata.captions(entry.mesh) if metadata and entry.mesh else ()),
    )
    stamps = tuple(one for each in known for one in each.stamps)
    return Work(entry.id, texts, entry.images, entry.mesh, payload, source.root, stamps=stamps)


def _settle(result: Plan, work: Work, stored: Stored | None, *, moved: bool = False) -> bool:
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
    result: Plan, fresh: Sequence[Work], stored: dict[str, Stored], source: Source
) -> list[Work]:
    """Files that hold what another held that is gone now: it has moved here."""
    gone: dict[str, list[str]] = defaultdict(list)
    for path, one in stored.items():
        if not (source.root / path).exists():  # else it lies outside what was asked for
            gone[str(one.payload.get("content"))].append(path)
    left = []
    for work in fresh:
        places = gone[work.payload["content"]]
        if places:
            _settle(result, work, stored.pop(places.pop(0)), moved=True)
        else:
            left.append(work)
    return left


def _match_ids(result: Plan, fresh: Sequence[Work], stored: dict[str, Stored]) -> list[Work]:
    """Items of this name whose first file is another one now."""
    paths = {one.id: path for path, one in stored.items()}
    left = []
    for work in fresh:
        path = paths.get(work.id)
        if path is None or not _settle(result, work, stored.pop(path, None)):
            left.append(work)
    return left


def _name(result: Plan, fresh: Iterable[Work], source: Source, collection: Collection | None) -> None:
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
            result.skipped.append(Problem(work.id, "its id belongs to another item; rename the file"))
            continue
        taken.add(name)
        result.added.append(replace(work, id=name))


def _stored(collection: Collection, source: Source) -> dict[str, Stored]:
    """The items of a source, by path."""
    where = parse({"source": source.name})
    found: dict[str, Stored] = {}
    after = None
    while page := collection.scroll(after, PAGE, where):
        for item in page:
            texts = tuple(one.text or "" for one in item.observations if one.kind == "caption")
            whole = is_whole(item, collection.blobs)
            found[str(item.payload.get("path"))] = Stored(item.id, texts, item.payload, whole)
        after = page[-1].id
    return found


def is_whole(item: Item, blobs: Blobs) -> bool:
    """Whether its pictures and originals are there, as far as that is cheap to know."""
    pictures = (one.blob for one in item.observations if one.blob is not None)
    return not isinstance(blobs, FolderBlobs) or all(map(blobs.exists, (*pictures, *item.files)))


def _is_gone(stored: Stored, source: Source, scope: Path, found: Found) -> bool:
    path = source.root / str(stored.payload.get("path"))
    return path.is_relative_to(scope) and not any(path.is_relative_to(folder) for folder in found.unread)


def _path(path: Path, source: Source) -> str:
    return path.relative_to(source.root).as_posix()


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"it cannot be read ({error.strerror}); see its permissions and the disk"
    return str(error)
