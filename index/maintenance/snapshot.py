"""A live collection as one file.

The store is copied as it is at one moment, whatever is written meanwhile; then come the pictures that this
copy names. Blobs never change, and none is removed while a snapshot is taken, so all of it is of one version.
The file has its name only when it is whole and durable.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from sqlalchemy import Connection, select

from index.maintenance.archive import ArchiveWriter
from index.store import feedback
from index.store.blobs import BlobError, Blobs
from index.store.checksums import find_damage
from index.store.copying import sqlite_copy
from index.store.database import StoreError, is_whole_item
from index.store.folder_locks import keep_blobs
from index.store.item_rows import count_rows, parse_files
from index.store.metadata import last_change
from index.store.schema import VERSION, items, observations
from index.store.store import Store
from multifold.bundle.bundle import file_hash
from multifold.durable import replace_file, temporary_path

log = logging.getLogger(__name__)
FORMAT = 1
ProgressCallback = Callable[[int], object]
HEAD = "multifold.json"
STORE = "store.sqlite"
BLOBS = "blobs/"


class SnapshotError(StoreError):
    """A snapshot cannot be taken or restored; says why."""


@dataclass(frozen=True)
class SnapshotHeader:
    """What a snapshot says of itself before anything else."""

    format: int
    schema: int
    vector_id: str
    version: int
    items: int
    observations: int
    pictures: bool
    made: str
    store_sha256: str


@dataclass(frozen=True)
class SnapshotReport:
    """A snapshot that was taken, and the pictures that were missing or damaged, so it is without them."""

    contents: SnapshotHeader
    size: int
    blobs: int
    absent: tuple[str, ...]
    damaged: tuple[str, ...] = ()  # observations that are not what was written; a sentence each


def take_snapshot(
    store: Store,
    blobs: Blobs,
    path: Path,
    *,
    pictures: bool = True,
    on_progress: ProgressCallback = lambda _: None,
) -> SnapshotReport:
    """Write a snapshot to a new file; `on_progress` is called with bytes of pictures written."""
    if path.exists():
        raise SnapshotError(f"{path} is there already: choose another name, or remove it.")
    if not path.parent.is_dir():
        raise SnapshotError(f"There is no folder {path.parent}: make it first.")
    store_copy = temporary_path(path)
    try:
        with keep_blobs(blobs.home), replace_file(path) as out:
            contents, keys, damaged = _copy_store(store, store_copy, pictures=pictures)
            archive = ArchiveWriter(out)
            archive.add_bytes(HEAD, json.dumps(asdict(contents), indent=1).encode())
            with open(store_copy, "rb") as copy:
                archive.add(STORE, store_copy.stat().st_size, copy)
            absent = [key for key in keys if not _add_blob(archive, blobs, key, on_progress)]
            archive.finish({"blobs": len(keys) - len(absent), "absent": absent, "damaged": damaged})
    except OSError as error:
        raise SnapshotError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        store_copy.unlink(missing_ok=True)
    return SnapshotReport(
        contents, path.stat().st_size, len(keys) - len(absent), tuple(absent), tuple(damaged)
    )


def named_blob_keys(connection: Connection) -> list[str]:
    """The keys of all blobs that a store names, each once, sorted."""
    named = select(observations.c.blob).where(observations.c.blob.is_not(None)).distinct()
    whole = filter(is_whole_item, connection.execute(select(items).where(items.c.files.is_not(None))))
    queries = feedback.blob_keys(connection)
    originals = chain.from_iterable(parse_files(one.files)[0] for one in whole)
    return sorted({*connection.scalars(named), *originals, *queries})


def stored_counts(connection: Connection) -> tuple[int, int, int]:
    """What a snapshot states of its store: the last change, and how many items and observations there are."""
    return last_change(connection), count_rows(connection, items), count_rows(connection, observations)


def _copy_store(store: Store, into: Path, *, pictures: bool) -> tuple[SnapshotHeader, list[str], list[str]]:
    """A copy of the store as it is now: what it holds, the blobs to go with it, and what is damaged in it."""
    with store.moment() as now, sqlite_copy(now, into) as copy:
        version, held, seen = stored_counts(copy)
        keys = named_blob_keys(copy) if pictures else []
        damaged = list(map(str, find_damage(copy)))
    for one in damaged:
        log.error("%s; the snapshot holds it as it is", one)
    header = SnapshotHeader(
        format=FORMAT,
        schema=VERSION,
        vector_id=store.vector_id,
        version=version,
        items=held,
        observations=seen,
        pictures=pictures,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        store_sha256=file_hash(into),
    )
    return header, keys, damaged


def _add_blob(archive: ArchiveWriter, blobs: Blobs, key: str, on_progress: ProgressCallback) -> bool:
    """Put a blob in, if it is there and whole."""
    try:
        data = blobs.get(key)
    except BlobError:
        return False
    archive.add_bytes(f"{BLOBS}{key[:2]}/{key}", data)
    on_progress(len(data))
    return True
