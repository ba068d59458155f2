"""From a snapshot to a collection in a new folder, which has its name only when all of it has been checked.

The file may come from anywhere: names are known ones, bytes match their hashes, the store is sound SQLite
with our tables and no code in it, and holds what the snapshot says. The restored collection is one of its
own, so its indexes are derived again.
"""

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

from index.maintenance.archive import ArchiveError, ArchiveMember, ArchiveReader
from index.maintenance.snapshot import (
    BLOBS,
    FORMAT,
    HEAD,
    STORE,
    ProgressCallback,
    SnapshotError,
    SnapshotHeader,
    named_blob_keys,
    stored_counts,
)
from index.store.blobs import BlobError, BlobKey, FolderBlobs
from index.store.checksums import find_damage
from index.store.folder_locks import refuse_network
from index.store.schema import VERSION, tables
from index.store.store import Store
from multifold.durable import TEMPORARY_PREFIX, make_folder, sync_folder
from multifold.errors import MultifoldError

OTHERS = "SELECT name FROM sqlite_master WHERE type <> 'index'"  # tables, and what runs by itself


def restore_snapshot(
    path: Path, folder: Path, *, vector_id: str | None = None, on_progress: ProgressCallback = lambda _: None
) -> SnapshotHeader:
    """Make a folder of a snapshot; `on_progress` is called with the bytes that were read.

    With a `vector_id` the snapshot of any other encoder is refused.
    """
    refuse_network(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SnapshotError(f"{folder} is not empty: restore into a new folder.")
    make_folder(folder.resolve().parent)
    unpacked = folder.resolve().with_name(f"{TEMPORARY_PREFIX}{folder.resolve().name}")
    shutil.rmtree(unpacked, ignore_errors=True)  # what a killed process left
    try:
        unpacked.mkdir()
        contents = _unpack(path, unpacked, vector_id, on_progress)
        for inner in (unpacked, *filter(Path.is_dir, unpacked.rglob("*"))):
            sync_folder(inner)
        os.rename(unpacked, folder.resolve())
        sync_folder(folder.resolve().parent)
    except OSError as error:
        raise SnapshotError(f"{path} cannot be restored: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
    return contents


def _unpack(path: Path, into: Path, vector_id: str | None, on_progress: ProgressCallback) -> SnapshotHeader:
    blobs = FolderBlobs(into / "blobs")
    with open(path, "rb") as source:
        archive = ArchiveReader(path, source)
        members = archive.members()
        contents = _contents(next(members, None), path)
        _check_encoder(contents, path, vector_id)
        store = next(members, None)
        if store is None or store.name != STORE:
            raise archive.damage("it holds no store")
        if _take(store, into / STORE) != contents.store_sha256:
            raise archive.damage("its store is not the one it describes")
        count = 0
        for member in members:
            _take_blob(member, blobs, path)
            on_progress(member.size)
            count += 1
    if count != archive.end.get("blobs"):
        raise archive.damage(f"it holds {count} pictures and states another number")
    absent = archive.end.get("absent")
    if not isinstance(absent, list) or not all(isinstance(key, str) for key in absent):
        raise archive.damage("it does not say which pictures are absent")
    _check_store(into / STORE, path)
    _check_contents(into / STORE, blobs, contents, archive.end, path)
    return contents


def _contents(member: ArchiveMember | None, path: Path) -> SnapshotHeader:
    if member is None or member.name != HEAD:
        raise ArchiveError(f"{path} is no snapshot of a collection: it does not begin with {HEAD}.")
    raw = member.json()
    if raw.get("format") != FORMAT:
        raise SnapshotError(f"{path} has the format {raw.get('format')}; this version reads {FORMAT}.")
    if {name: type(value) for name, value in raw.items()} != {f.name: f.type for f in fields(SnapshotHeader)}:
        raise ArchiveError(f"{path} is damaged: {HEAD} does not describe a collection.")
    return SnapshotHeader(**raw)


def _check_encoder(contents: SnapshotHeader, path: Path, vector_id: str | None) -> None:
    if vector_id not in (None, contents.vector_id):
        raise SnapshotError(
            f"{path} was taken of a collection of the encoder {contents.vector_id!r}, not of {vector_id!r}: "
            "their vectors do not compare. Give the bundle that it was made with."
        )
    if contents.schema > VERSION:
        raise SnapshotError(
            f"{path} has the schema {contents.schema}, this program reads up to {VERSION}. "
            "Restore it with the version of Multifold that took it."
        )


def _take_blob(member: ArchiveMember, blobs: FolderBlobs, path: Path) -> None:
    key = BlobKey(member.name.rpartition("/")[2])
    try:
        target = blobs.path(key)
    except BlobError:
        target = None
    if target is None or member.name != f"{BLOBS}{key[:2]}/{key}" or target.exists():
        raise ArchiveError(f"{path} is no snapshot: it holds {member.name!r}.")
    target.parent.mkdir(parents=True, exist_ok=True)
    if _take(member, target) != key.hash:
        raise ArchiveError(f"{path} is damaged: the bytes of {member.name} do not match its name.")


def _take(member: ArchiveMember, target: Path) -> str:
    """Write a member to a file that is durable then; returns its sha256."""
    digest = hashlib.sha256()
    with open(target, "xb") as out:
        for piece in member.pieces():
            digest.update(piece)
            out.write(piece)
        out.flush()
        os.fsync(out.fileno())
    return digest.hexdigest()


def _check_store(store: Path, path: Path) -> None:
    """Sound, and nothing in it but tables and indexes."""
    try:
        with closing(sqlite3.connect(f"file:{store}?mode=ro&immutable=1", uri=True)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            problems = [row[0] for row in connection.execute("PRAGMA integrity_check(1)")]
            holds = {row[0] for row in connection.execute(OTHERS)}
    except sqlite3.Error as error:
        raise ArchiveError(f"{path} is damaged: its store cannot be read ({error}).") from error
    if problems != ["ok"]:
        raise ArchiveError(f"{path} is damaged: its store is not sound ({problems[0]}).")
    if not holds <= set(tables.tables):
        raise ArchiveError(f"{path} is no snapshot: its store holds {min(holds - set(tables.tables))!r}.")


def _check_contents(
    file: Path, blobs: FolderBlobs, contents: SnapshotHeader, end: Mapping[str, Any], path: Path
) -> None:
    """The store holds what the snapshot says: pictures that it names are there or known to be absent."""
    try:
        store = Store(file, contents.vector_id)  # an older one is brought up to date
    except MultifoldError as error:
        raise ArchiveError(f"{path} is damaged: its store cannot be opened ({error})") from error
    with closing(store), store.moment() as now:
        stored = stored_counts(now)
        unknown = {str(one) for one in find_damage(now)}.difference(end.get("damaged", ()))
        keys = set(named_blob_keys(now)) if contents.pictures else set()
    if stored != (contents.version, contents.items, contents.observations):
        raise ArchiveError(f"{path} is damaged: its store does not hold what it states.")
    kept = keys.difference(end["absent"])
    if end["blobs"] != len(kept) or not all(map(blobs.exists, kept)):
        raise ArchiveError(f"{path} is damaged: it does not hold just the pictures that its items name.")
    if unknown:
        raise ArchiveError(f"{path} is damaged: {min(unknown)}.")
