"""Where an ingest goes: a collection of our own, or the service that has the collection open.

Files go to a service as uploads, so it reads no path that a client names. With its setting `roots` it copies
none of those whose place we note in the collection's folder."""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.ingest.caches import ViewCache, stamp_file
from app.ingest.originals import OriginalFiles
from app.ingest.plan import IngestTask
from app.settings import Settings
from index.cluster.contracts import MilvusAddress
from index.collection import Collection
from index.registry import MAIN, CollectionLocation, ensure_collection, locate_planned_collection
from index.store.folder_locks import writer_of
from multifold.bundle.encoder import Encoder
from multifold.client.client import Client, ServiceError
from multifold.errors import MultifoldError
from multifold.files.folder import FileProblem
from multifold.machine import map_ahead
from renderers.mesh.formats.mesh_file import digest_content

SERVICE_TIMEOUT = 600.0  # seconds for a service that draws and encodes


@dataclass(frozen=True)
class IngestDestination:
    """One collection, by its name or an alias."""

    name: str
    at: CollectionLocation
    service: str | None = None  # the address of who writes it now
    cluster: MilvusAddress | None = None  # where its neighbours are found

    @property
    def home(self) -> Path:
        """Its folder."""
        return self.at.folder

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever written there."""
        return self.at.database is None and not (self.home / "store.sqlite").is_file()

    def client(self) -> Client:
        """The service that writes here, with the key that it may ask for."""
        assert self.service is not None
        return Client(self.service, SERVICE_TIMEOUT, os.environ.get("MULTIFOLD_KEY"), self.name)

    @contextmanager
    def opened(self, encoder: Encoder, *, read_only: bool) -> Iterator[Collection | None]:
        """The collection; to look only, None if there is none."""
        if read_only and self.is_new:
            yield None
            return
        with Collection.open(
            self.home,
            encoder,
            writer=None if read_only else _writer_name(),
            read_only=read_only,
            probes=encoder.bundle.probes(),
            database=self.at.database,
            bucket=self.at.bucket,
            cluster=self.cluster,
        ) as collection:
            yield collection


def find_destination(settings: Settings, name: str, encoder: Encoder, *, create: bool) -> IngestDestination:
    """The collection of a name or alias; one that is not there yet is made, unless we only look."""
    main, service = settings.place, _serving_address(settings)
    if name == MAIN:
        return IngestDestination(name, main, service, settings.cluster)
    if create and service is None:
        found = ensure_collection(main, name, encoder.vector_id, _writer_name())
    else:
        if create:
            _create_at_service(IngestDestination(MAIN, main, service), name)
        found = locate_planned_collection(main, name)
    return IngestDestination(name, found, service, settings.cluster)


def _serving_address(settings: Settings) -> str | None:
    """Who writes the folder's collections, if that is a service."""
    if settings.items_at is not None or not settings.data.is_dir():
        return None  # a database is written by anybody
    writer = writer_of(settings.data)
    return writer if writer is not None and writer.startswith("http") else None


def _create_at_service(main: IngestDestination, name: str) -> None:
    with main.client() as client:
        known = {called for one in client.collections() for called in (one.name, *one.aliases)}
        if name not in known:
            client.create_collection(name)


def _writer_name() -> str:
    return f"multifold ingest, process {os.getpid()}"


SEND_THREADS = 4  # requests at once
SEND_AHEAD = 16
SEND_TRIES = 100  # of a request that a busy service sent away
BUSY_STATUSES = (429, 503)


class SendError(MultifoldError):
    """An item that cannot be sent."""


class ServiceSender:
    """Sends items; what the service refuses is skipped and reported."""

    def __init__(self, client: Client, collection: Collection | None, drawn: ViewCache) -> None:
        self._client, self._collection, self._drawn = client, collection, drawn
        self._originals = None if collection is None else OriginalFiles(collection.blobs, copy=False)
        self._in_place = bool(client.info().get("in_place"))
        self.skipped: list[FileProblem] = []

    def take(self, works: Iterable[IngestTask]) -> Iterator[int]:
        """Send items; yields how many more are done with."""
        for problem in map_ahead(self._attempt, works, SEND_THREADS, SEND_AHEAD):
            if problem is not None:
                self.skipped.append(problem)
            yield 1

    def _attempt(self, work: IngestTask) -> FileProblem | None:
        try:
            self._patiently(work)
        except ServiceError as error:
            if error.status is None:
                raise  # nobody is there: the rest would fare no better
            return FileProblem(work.id, error.message)
        except (MultifoldError, OSError) as error:
            return FileProblem(work.id, str(error))
        return None

    def _patiently(self, work: IngestTask) -> None:
        for left in reversed(range(SEND_TRIES)):
            try:
                return self._send(work)
            except ServiceError as error:
                if error.status not in BUSY_STATUSES or not left:
                    raise
                time.sleep(error.retry_after or 1.0)
        return None

    def _send(self, work: IngestTask) -> None:
        if work.seen:
            self._note(work)
            former = self._client.get(work.id).payload
            self._client.update(work.id, payload=diff_patch(former, work.payload), texts=work.texts)
            return
        mesh = None if work.mesh is None else _single_file(work.mesh, work.within)
        images = [path.read_bytes() for path in work.images]
        if any(stamp_file(Path(one[0])) != one for one in work.stamps):
            raise SendError("it changed while it was read; run it again")
        if self._originals is not None and self._in_place:
            self._originals.offer(work, images)
        self._client.upsert(work.id, texts=work.texts, images=images, mesh=mesh, payload=work.payload)
        if work.mesh is not None and work.within is None:
            self._remember(work)

    def _note(self, work: IngestTask) -> None:
        """Where the files of an item lie that an ingest before us did not copy."""
        stored = None if self._collection is None else self._collection.get(work.id)
        if stored is not None and self._originals is not None:
            self._originals.again(work, stored)
            self._originals.note()

    def _remember(self, work: IngestTask) -> None:
        """Which views the mesh gave: that is how a manifest's item is known again."""
        stored = None if self._collection is None else self._collection.get(work.id)
        if stored is not None and work.mesh is not None:
            keys = tuple(one.blob for one in stored.observations if one.kind == "view" and one.blob)
            self._drawn.put(digest_content(work.mesh).hash, keys)


def diff_patch(former: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch that makes one object another."""
    changed: dict[str, Any] = dict.fromkeys(former.keys() - wanted.keys())
    for key, value in wanted.items():
        old = former.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        changed[key] = diff_patch(old, value) if both else value  # type: ignore[arg-type]
    return changed


def _single_file(mesh: Path, within: Path | None) -> Path:
    """A mesh that is one file."""
    others = digest_content(mesh, within=within).files[1:]
    if others:
        raise SendError(
            f"{mesh.name} names other files ({others[0].name}), and a service takes a mesh as one file: "
            "convert it to glb, or stop the service and run this again"
        )
    return mesh
