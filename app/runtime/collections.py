"""All collections of a service by name, and what works on them beside the requests."""

import logging
import shutil
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from secrets import token_hex

from prometheus_client.core import Metric
from starlette.concurrency import run_in_threadpool

from app.collections.service import CollectionService
from app.collections.workers import Workers
from app.concurrency.clients import Places
from app.encoding.encoders import OpenEncoders
from app.encoding.observations import ObservationEncoder
from app.runtime import collectors
from app.runtime.folder import FolderFollower
from app.runtime.jobs import JobHandler, JobRunner
from app.runtime.probes import DriftMonitor
from app.settings import Settings
from index.collection import Collection
from index.contracts import CollectionLocation, IndexPlan
from index.engine_factory import check_plan
from index.jobs import JobList
from index.maintenance.restore import restore_snapshot
from index.maintenance.snapshot import SnapshotHeader
from index.names import DEFAULT, MAIN
from index.plain_space import PlainSpace
from index.registry import (
    FOLDER,
    CollectionEntry,
    CollectionListing,
    CollectionRegistry,
    NameTakenError,
    NoSuchCollectionError,
)
from index.store.folder_locks import is_read_only
from index.store.postgres import limit_connections
from multifold.bundle.picture_reader import packaged_picture_reader
from multifold.errors import MultifoldError
from renderers.sandbox import Sandbox

log = logging.getLogger("multifold.app")
STREAM_RETRY_SECONDS = 10


class Collections:
    """All collections of a service; see `open_collections`. May be used from several threads."""

    def __init__(
        self,
        encoders: OpenEncoders,
        main: CollectionService,
        registry: CollectionRegistry,
        *,
        read_only: bool = False,
    ) -> None:
        settings = main.settings
        self._read_only = read_only
        self.settings = settings
        self.workers = main.workers
        self.main = main
        self.encoders = encoders
        self.run = main.run  # does work in a thread
        self._registry = registry
        self.shared = registry.shared  # with other processes that write here
        self._services = {MAIN: main}
        self._changing = threading.RLock()
        self._read(registry.listing())
        self.errors: dict[str, str] = {}  # why a collection could not be opened, by its name
        self.jobs = JobList(registry.store, writes=not read_only)
        self.job_runner = JobRunner(self.jobs, exclusive=not registry.shared)
        self.streams = Places(settings.streams, "streams of events", STREAM_RETRY_SECONDS)
        self.is_stopping: Callable[[], bool] = lambda: False  # whether the server was told to end
        self.drift = DriftMonitor(self.services, settings.probe_interval)
        self.follower = None
        if settings.folder is not None and not read_only:
            self.follower = FolderFollower(settings, settings.folder, lambda: self.service(DEFAULT))
        self.workers.telemetry.show(self._metrics)

    @asynccontextmanager
    async def at_work(self, handlers: Mapping[str, JobHandler]) -> AsyncIterator[None]:
        """Jobs, probes and the folder that is followed, on this event loop. In the end they stop."""
        if not self._read_only:
            self.job_runner.start(handlers)
        self.drift.start()
        if self.follower is not None:
            self.follower.start()
        try:
            yield
        finally:
            if self.follower is not None:
                await run_in_threadpool(self.follower.close)
            await self.drift.close()
            if not self._read_only:
                await self.job_runner.close()

    @property
    def store_is_away(self) -> bool:
        """Whether the database has failed, and not worked since."""
        return self._registry.store.is_away

    def services(self) -> list[CollectionService]:
        return list(self._services.values())

    def listing(self) -> CollectionListing:
        if self.shared:
            self._read(self._registry.listing())
        return self._listing

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        """What each alias of several collections names, as of the last request that looked for one."""
        return self._listing.groups

    def place(self, name: str) -> str:
        """The place of the collection of a name or alias, which is never used for another one."""
        return self.listing().place(name)

    def service(self, name: str) -> CollectionService:
        """The collection of a name or alias; it is opened if it is not yet."""
        if (service := self._services.get(self.place(name))) is not None:
            return service
        with self._changing:
            listing = self.listing()
            entry = listing.entries[listing.resolve(name)]
            if entry.place not in self._services:
                self._open(entry, self.encoders.of(entry.vector_id))
                self.errors.pop(entry.name, None)
            return self._services[entry.place]

    async def find(self, name: str = DEFAULT) -> CollectionService:
        """The same on an event loop: in a thread, unless nothing has to be read or opened."""
        if not self.shared and (service := self._services.get(self.place(name))) is not None:
            return service
        return await run_in_threadpool(self.service, name)

    def address(self, service: CollectionService) -> str:
        plain = service.name == MAIN == self.default
        return "/v1" if plain else f"/v1/collections/{service.name}"

    def follower_into(self, service: CollectionService) -> FolderFollower | None:
        return self.follower if service.name == self.default else None

    def open_all(self) -> None:
        """Open every collection; one that cannot be opened is noted in `errors`."""
        for name in self.listing().entries:
            try:
                self.service(name)
            except MultifoldError as error:
                self.errors[name] = str(error)

    def create(
        self, name: str, bundle: str | None, plan: IndexPlan | None, space: PlainSpace | None = None
    ) -> CollectionService:
        """A new, empty collection: for an available bundle, the service's own, or without an encoder."""
        observer = self.encoders.first if bundle is None else self.encoders.named(bundle)
        if space is not None:
            observer = self.encoders.without(space)
        if plan is not None:
            check_plan(plan, observer.encoder)
        with self._changing:
            with self._change():
                entry = self._registry.create(name, observer.encoder.vector_id)
            service = self._open(entry, observer, plan)
        if plan is not None:
            service.collection.ask_for(plan)
        return service

    def restore(self, snapshot: Path, source: CollectionService, name: str) -> SnapshotHeader:
        """A new collection of a snapshot of another one."""
        self.check_restore(name)
        unpacked = self.settings.data / FOLDER / f"c_restored_{token_hex(4)}"  # a crash leaves what is swept
        vector_id = source.encoder.vector_id
        contents = restore_snapshot(snapshot, unpacked, vector_id=vector_id)
        try:
            with self._changing, self._change():
                entry = self._registry.create(name, vector_id)
                unpacked.rename(self._registry.located(entry).folder)
        finally:
            shutil.rmtree(unpacked, ignore_errors=True)
        self.service(name)
        return contents

    def check_restore(self, name: str) -> None:
        """Refuse what a snapshot cannot be restored to."""
        if self.shared or self.settings.bucket is not None:
            raise MultifoldError(
                "a service with a database or a bucket restores nothing itself: use `multifold index restore`"
            )
        self.listing().check_new(name)

    def ensure(self, name: str, bundle: str | None, plan: IndexPlan | None) -> CollectionService:
        try:
            service = self.service(name)
        except NoSuchCollectionError:
            return self.create(name, bundle, plan)
        if bundle is not None and self.encoders.named(bundle).encoder.vector_id != service.encoder.vector_id:
            raise NameTakenError(f"{name!r} is there already, with another encoder; choose another name")
        return service

    def drop(self, name: str) -> None:
        """Remove a collection with all that it holds; searches that it has accepted are answered first."""
        with self._change():
            entry = self._registry.drop(name)
            self.errors.pop(name, None)
        if (service := self._services.pop(entry.place, None)) is not None:
            service.searches.close()
            service.strong_searches.close()
            service.collection.close(discard=True)
        self._registry.clear(entry)

    def set_alias(self, alias: str, *names: str) -> str | None:
        """Point an alias to collections; returns the one that it pointed to before, if it was one."""
        with self._change():
            return self._registry.set_alias(alias, names, self.settings.remote_collections)

    def drop_alias(self, alias: str) -> None:
        with self._change():
            self._registry.drop_alias(alias)

    def close(self) -> None:
        with self._changing:  # what a job is opening is closed too
            services = self.services()
        for service in services:
            service.close()
        self._registry.close()

    @contextmanager
    def _change(self) -> Iterator[None]:
        """Changes of the list, one at a time; it is read again afterwards."""
        with self._changing:
            yield
            self._read(self._registry.listing())

    def _read(self, listing: CollectionListing) -> None:
        """Note the names of one moment."""
        self._listing = listing
        self.default = listing.aliases.get(DEFAULT, MAIN)

    def _open(
        self, entry: CollectionEntry, observer: ObservationEncoder, plan: IndexPlan | None = None
    ) -> CollectionService:
        location = self._registry.located(entry)
        service = _open_service(self.workers, observer, entry.name, location, plan, read_only=self._read_only)
        self._services[entry.place] = service
        return service

    def _metrics(self) -> Iterable[Metric]:
        services = self.services()
        encoders = self.workers.query_encoders()
        waiting = Counter(
            {
                "items": self.workers.reading.waiting,
                "make": self.workers.making.waiting,
                "write": sum(service.changes.waiting for service in services),
                "draw": self.workers.render.waiting,
                "search": sum(service.searches.waiting for service in services),
            }
        )
        for encoder in encoders:
            waiting.update(encoder.waiting)
        counts = [(0, 0, 0), *(encoder.cache_counts for encoder in encoders)]
        hits, misses, size = map(sum, zip(*counts, strict=True))
        yield from collectors.read_contents(services)
        yield from collectors.read_indexes(services)
        yield from collectors.read_searches(services)
        yield from collectors.read_process(self.settings.data)
        yield from collectors.read_probes(self.drift.probes)
        yield from collectors.read_queues(dict(waiting), self.settings.queue)
        yield from collectors.read_cache(hits, misses, size)


@contextmanager
def open_collections(settings: Settings) -> Iterator[Collections]:
    """All collections of a service: bundles verified, collections locked for writing, workers started.

    On a disk that takes nothing they are searched, and changes are refused.
    """
    read_only = settings.database is None and is_read_only(settings.data)
    if read_only:
        log.warning("%s cannot be written to: it is searched, and changes are refused", settings.data)
    if settings.database is not None:
        limit_connections(settings.connections)
    with ExitStack() as stack:
        sandbox = stack.enter_context(Sandbox(workers=settings.renderers, seconds=settings.render_seconds))
        encoders = OpenEncoders(settings, sandbox)
        workers = Workers(settings)
        stack.callback(workers.close)
        main = _open_service(workers, encoders.first, MAIN, settings.place, read_only=read_only)
        stack.callback(main.close)
        registry = CollectionRegistry(settings.data, settings.items_at, settings.bucket, read_only=read_only)
        collections = Collections(encoders, main, registry, read_only=read_only)
        stack.callback(collections.close)
        if not (collections.shared or read_only):
            registry.sweep()
        collections.open_all()
        yield collections


def _open_service(
    workers: Workers,
    observer: ObservationEncoder,
    name: str,
    place: CollectionLocation,
    plan: IndexPlan | None = None,
    *,
    read_only: bool,
) -> CollectionService:
    settings = workers.settings
    collection = Collection.open(
        place.folder,
        observer,
        writer=settings.url,
        read_only=read_only,
        probes=observer.encoder.bundle.probes(),
        database=place.database,
        bucket=place.bucket,
        plan=plan,
        memory=settings.index_memory,
        cluster=settings.cluster,
        reader=observer.encoder.reader,
        picture_reader=packaged_picture_reader() if settings.photo_texts == "auto" else None,
    )
    return CollectionService(workers, collection, observer, name, place.folder)
