"""All collections of a service by name, each opened once with the encoder that made it."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from app.collections.service import CollectionService
from app.encoding.encoders import OpenEncoders
from app.encoding.observations import ObservationEncoder
from app.settings import Settings
from index.collection import Collection
from index.contracts import IndexPlan
from index.engine_factory import check_plan
from index.jobs import JobList
from index.registry import (
    DEFAULT,
    MAIN,
    CollectionEntry,
    CollectionListing,
    CollectionLocation,
    CollectionRegistry,
    NameTakenError,
    NoSuchCollectionError,
    check_name,
)
from multifold.errors import MultifoldError
from renderers.sandbox import Sandbox

MAIN_PLACE = ""


class Collections:
    """Its methods may be called from several threads; made by `opened`."""

    def __init__(
        self,
        settings: Settings,
        encoders: OpenEncoders,
        main: CollectionService,
        registry: CollectionRegistry,
    ) -> None:
        self.settings, self.encoders, self.main = settings, encoders, main
        self._registry = registry
        self.jobs = JobList(registry.store)
        self._services = {MAIN_PLACE: main}
        self._changing = threading.RLock()
        self._listing = registry.listing()
        self.troubles: dict[str, str] = {}  # why a collection could not be opened, by its name

    @property
    def shared(self) -> bool:
        """Whether other processes may add and remove collections too."""
        return self._registry.shared

    @property
    def default(self) -> str:
        """The collection that is meant where none is named."""
        return self._listing.resolve(DEFAULT)

    def services(self) -> list[CollectionService]:
        """The collections that are at work."""
        return list(self._services.values())

    def listing(self) -> CollectionListing:
        """All names now."""
        if self.shared:
            self._listing = self._registry.listing()
        return self._listing

    def place(self, name: str) -> str:
        """Where the collection of a name or alias lies."""
        listing = self.listing()
        real = listing.resolve(name)
        return MAIN_PLACE if real == MAIN else listing.entries[real].place

    def service(self, name: str) -> CollectionService:
        """The collection of a name or alias at work; it is opened if it is not yet."""
        found = self._services.get(self.place(name))
        if found is not None:
            return found
        with self._changing:
            listing = self.listing()
            entry = listing.entries[listing.resolve(name)]
            if entry.place not in self._services:
                self._services[entry.place] = self._open(entry, self.encoders.of(entry.vector_id))
                self.troubles.pop(entry.name, None)
            return self._services[entry.place]

    def open_all(self) -> None:
        """Open every collection; one that cannot be is told, and keeps the others from nothing."""
        for name in self.listing().entries:
            try:
                self.service(name)
            except MultifoldError as error:
                self.troubles[name] = str(error)

    def create(self, name: str, bundle: str | None, plan: IndexPlan | None) -> CollectionService:
        """A new, empty collection, for a bundle at hand or the one that the service was started with."""
        observer = self.encoders.first if bundle is None else self.encoders.named(bundle)
        if plan is not None:
            check_plan(plan, observer.encoder.dim)
        with self._changing:
            entry = self._registry.create(name, observer.encoder.vector_id)
            self._listing = self._registry.listing()
            service = self._services[entry.place] = self._open(entry, observer, plan)
        if plan is not None:
            service.collection.ask_for(plan)
        return service

    def ensure(self, name: str, bundle: str | None, plan: IndexPlan | None) -> CollectionService:
        """The collection of that name, made if it is not there."""
        try:
            found = self.service(name)
        except NoSuchCollectionError:
            return self.create(name, bundle, plan)
        if bundle is not None and self.encoders.named(bundle).encoder.vector_id != found.encoder.vector_id:
            raise NameTakenError(f"{name!r} is there already, with another encoder; choose another name")
        return found

    def check_alias(self, alias: str) -> None:
        """Refuse what cannot become an alias."""
        check_name(alias)
        if alias == MAIN or alias in self.listing().entries:
            raise NameTakenError(f"{alias!r} is a collection; an alias needs another name")

    def forget(self, name: str) -> CollectionEntry:
        """Drop a collection from the list: nobody gets it from now on, who has it may finish."""
        with self._changing:
            entry = self._registry.drop(name)
            self._listing = self._registry.listing()
            self.troubles.pop(name, None)
        return entry

    def discard(self, entry: CollectionEntry) -> None:
        """Close a forgotten collection, and remove its files."""
        service = self._services.pop(entry.place, None)
        if service is not None:
            service.collection.discard()
        self._registry.clear(entry)

    def set_alias(self, alias: str, name: str) -> str | None:
        """Call a collection so; returns which one was called so before."""
        with self._changing:
            former = self._registry.set_alias(alias, name)
            self._listing = self._registry.listing()
        return former

    def drop_alias(self, alias: str) -> None:
        """Call no collection so any more."""
        with self._changing:
            self._registry.drop_alias(alias)
            self._listing = self._registry.listing()

    def close(self) -> None:
        """Close every collection."""
        for service in self._services.values():
            service.collection.close()
        self._registry.close()

    def _open(
        self, entry: CollectionEntry, observer: ObservationEncoder, plan: IndexPlan | None = None
    ) -> CollectionService:
        return _open_service(self.settings, observer, entry.name, self._registry.located(entry), plan)


@contextmanager
def open_collections(settings: Settings) -> Iterator[Collections]:
    """A service at work: bundles verified, collections locked for writing, workers warm."""
    with ExitStack() as stack:
        sandbox = stack.enter_context(Sandbox(workers=settings.renderers, seconds=settings.render_seconds))
        encoders = OpenEncoders(settings, sandbox)
        main = _open_service(settings, encoders.first, MAIN, settings.place)
        stack.callback(main.collection.close)
        registry = CollectionRegistry(settings.data, settings.items_at, settings.bucket)
        shelf = Collections(settings, encoders, main, registry)
        stack.callback(shelf.close)
        if not shelf.shared:
            registry.sweep()
        shelf.open_all()
        yield shelf


def _open_service(
    settings: Settings,
    observer: ObservationEncoder,
    name: str,
    place: CollectionLocation,
    plan: IndexPlan | None = None,
) -> CollectionService:
    collection = Collection.open(
        place.folder,
        observer,
        writer=settings.url,
        probes=observer.encoder.bundle.probes(),
        database=place.database,
        bucket=place.bucket,
        plan=plan,
        cluster=settings.cluster,
    )
    return CollectionService(settings, collection, observer, name, place.folder)
