"""What a run over a manifest would do: its payload is the user's own, so what an item was made of is told
by its pictures, and by which views its mesh gave."""

from collections.abc import Iterable

from app.drawn import Drawn
from app.intake.content import Contents
from app.intake.plan import Plan, Work, is_whole
from index.collection import Collection
from multifold.errors import MultifoldError
from multifold.manifest import Entry
from multifold.types import Item, Kind

HASH_LENGTH = 64


def plan(entries: Iterable[Entry], collection: Collection | None, drawn: Drawn, contents: Contents) -> Plan:
    """Compare the entries with the items of these names; nothing is deleted."""
    result = Plan()
    for entry in entries:
        stored = None if collection is None else collection.get(entry.id)
        work = Work(entry.id, entry.texts, entry.images, entry.mesh, entry.meta)
        if collection is None or stored is None:
            result.added.append(work)
        elif _is_there(stored, entry, drawn, contents) and is_whole(stored, collection.blobs):
            result.unchanged += 1
        else:
            result.changed.append(work)
    return result


def _is_there(stored: Item, entry: Entry, drawn: Drawn, contents: Contents) -> bool:
    """Whether the collection holds just what this entry would make."""
    if dict(stored.payload) != dict(entry.meta):
        return False
    try:
        photos = tuple(contents.of(path).hash for path in entry.images)
        views = () if entry.mesh is None else drawn.get(contents.of(entry.mesh).hash)
    except (MultifoldError, OSError):
        return False  # taking it in will say why
    captions = tuple(seen.text for seen in stored.observations if seen.kind == "caption")
    stored_photos = tuple(key[:HASH_LENGTH] for key in _blobs(stored, "photo"))
    return (captions, stored_photos, _blobs(stored, "view")) == (entry.texts, photos, views)


def _blobs(item: Item, kind: Kind) -> tuple[str, ...]:
    return tuple(seen.blob for seen in item.observations if seen.kind == kind and seen.blob is not None)
