"""Where an ingest goes: the folder and the database of a collection, and the service that writes it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.settings import Settings
from index.collection import Collection
from index.engines.cluster import Cluster
from index.names import MAIN, Located
from index.registry import ensured, planned
from index.truth.lock import writer_of
from multifold.client import Client
from multifold.encoder import Encoder

WAIT = 600.0  # seconds for a service that draws and encodes


@dataclass(frozen=True)
class Place:
    """One collection, by its name or an alias."""

    name: str
    at: Located
    service: str | None = None  # the address of who writes it now
    cluster: Cluster | None = None  # where its neighbours are found

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
        return Client(self.service, WAIT, os.environ.get("MULTIFOLD_KEY"), self.name)

    @contextmanager
    def opened(self, encoder: Encoder, *, read_only: bool) -> Iterator[Collection | None]:
        """The collection; to look only, None if there is none."""
        if read_only and self.is_new:
            yield None
            return
        with Collection.open(
            self.home,
            encoder,
            writer=None if read_only else _myself(),
            read_only=read_only,
            probes=encoder.bundle.probes(),
            database=self.at.database,
            bucket=self.at.bucket,
            cluster=self.cluster,
        ) as collection:
            yield collection


def place_of(settings: Settings, name: str, encoder: Encoder, *, create: bool) -> Place:
    """The collection of a name or alias; one that is not there yet is made, unless we only look."""
    main, service = settings.place, _service(settings)
    if name == MAIN:
        return Place(name, main, service, settings.cluster)
    if create and service is None:
        found = ensured(main, name, encoder.vector_id, _myself())
    else:
        if create:
            _ask_for(Place(MAIN, main, service), name)
        found = planned(main, name)
    return Place(name, found, service, settings.cluster)


def _service(settings: Settings) -> str | None:
    """Who writes the folder's collections, if that is a service."""
    if settings.items_at is not None or not settings.data.is_dir():
        return None  # a database is written by anybody
    writer = writer_of(settings.data)
    return writer if writer is not None and writer.startswith("http") else None


def _ask_for(main: Place, name: str) -> None:
    with main.client() as client:
        known = {called for one in client.collections() for called in (one.name, *one.aliases)}
        if name not in known:
            client.create_collection(name)


def _myself() -> str:
    return f"multifold ingest, process {os.getpid()}"
