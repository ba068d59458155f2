"""The collections of a service: what each does with its items, and all of them by name."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from app.collections.confidence import ConfidenceFitter
from app.collections.evidence import EvidenceFitter
from app.encoding.encoders import OpenEncoders
from app.encoding.observations import ObservationEncoder
from app.errors import ApiError
from app.ingest import pipeline
from app.ingest.originals import OriginalFiles, find_stored_mesh
from app.ingest.pipeline import EncodedItem, PreparedItem, Written, WrittenItem
from app.ingest.sources import ItemSource
from app.ingest.thumbnails import read_thumbnail
from app.settings import Settings
from index.collection import Collection
from index.contracts import CollectionLocation, IndexPlan
from index.engine_factory import check_plan
from index.jobs import JobList
from index.names import DEFAULT, MAIN, check_name
from index.registry import (
    CollectionEntry,
    CollectionListing,
    CollectionRegistry,
    NameTakenError,
    NoSuchCollectionError,
)
from index.search.evidence_model import EvidenceModel
from index.store.filters import Filter
from index.store.item_rows import ItemError
from multifold.bundle.encoder import Encoder
from multifold.errors import MultifoldError
from multifold.types import SIDE_OF, Feature, Item, Observation
from renderers.messages import RenderedMesh
from renderers.sandbox import Sandbox


def merge_patch(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The target with the patch's values in place of its own; null takes a key away, objects go inwards."""
    result = {key: value for key, value in target.items() if key not in patch}
    for key, value in patch.items():
        if isinstance(value, Mapping):
            inner = target.get(key)
            result[key] = merge_patch(inner if isinstance(inner, Mapping) else {}, value)
        elif value is not None:
            result[key] = value
    return result


@dataclass(frozen=True)
class CollectionService:
    """One collection without its wire. Its methods may be called from several threads."""

    settings: Settings
    collection: Collection
    observer: ObservationEncoder
    name: str
    home: Path  # the folder of the collection
    writing: threading.Lock = field(default_factory=threading.Lock)
    confidence: ConfidenceFitter = field(init=False)
    evidence: EvidenceFitter = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "confidence", ConfidenceFitter(self.observer, self.collection))
        object.__setattr__(self, "evidence", EvidenceFitter(self.observer, self.collection))
        self.collection.on_change = self._heed_change
        self._heed_change()  # what another process wrote before

    @property
    def encoder(self) -> Encoder:
        return self.observer.encoder

    def evidence_model(self) -> EvidenceModel:
        """How evidence is weighted now; it is fitted again if the collection has grown, whoever wrote."""
        if self.collection.version >= self.evidence.next_version:
            self.evidence.fit_aside()
        return self.evidence.model

    def _heed_change(self) -> None:
        self.evidence.changed = time.monotonic()
        self.evidence_model()

    def item(self, name: str) -> Item:
        item = self.collection.get(name)
        if item is None:
            raise ApiError(404, "not_found", f"there is no item {name!r}")
        return item

    def make(self, source: ItemSource, originals: OriginalFiles, drawn: RenderedMesh | None) -> EncodedItem:
        """An item ready to be written, of its source and its mesh as it was drawn."""
        return pipeline.make_item(self.observer, originals, source, drawn)

    def put(self, items: Sequence[EncodedItem]) -> list[Written]:
        with self.writing:
            return pipeline.write_items(self.collection, items)

    def patch(self, name: str, texts: Sequence[str] | None, payload: Mapping[str, Any] | None) -> WrittenItem:
        """Change captions or payload of an item; the rest of it stays."""
        captions = (
            None if texts is None else pipeline.encode_item(self.observer, PreparedItem(name, tuple(texts)))
        )
        with self.writing:
            former = self.item(name)
            if captions is not None:  # the former ones are no longer needed, be they damaged
                former = replace(former, damaged=tuple(o for o in former.damaged if o.kind != "caption"))
            former = self.repaired(former)
            item = replace(former, payload=merge_patch(former.payload, payload or {}))
            if captions is not None:
                others = (one for one in former.observations if one.kind != "caption")
                item = replace(item, observations=(*captions.item.observations, *others))
            warnings = captions.warnings if captions else ()
            return WrittenItem(item, warnings, self.collection.upsert([item]))

    def repair(self, name: str) -> None:
        """Write an item again as far as it is known: its damaged features from its originals."""
        with self.writing:
            if (item := self.collection.get(name)) is not None:
                self.collection.upsert([self.repaired(item)])

    def repaired(self, item: Item) -> Item:
        """An item with its damaged features made anew."""
        if not item.damaged:
            return item

        def place(one: Observation) -> tuple[int, int]:
            return list(SIDE_OF).index(one.kind), one.index

        anew = [replace(one, feature=self._encode_again(item, one)) for one in item.damaged]
        every = [*item.observations, *anew]
        return replace(item, observations=tuple(sorted(every, key=place)), damaged=())

    def _encode_again(self, item: Item, damaged: Observation) -> Feature:
        """A feature anew: of its text, its picture, or the mesh of its item."""
        blobs = self.collection.blobs
        feature: Feature | None = None
        if damaged.text is not None:
            feature = self.encoder.texts([damaged.text]).features[0]
        elif damaged.blob is not None:
            feature = self.encoder.pixels(self.observer.look(blobs.get(damaged.blob))[None])[0]
        elif damaged.kind == "points" and (mesh := find_stored_mesh(blobs, self.home, item)) is not None:
            feature = self.encoder.points([self.observer.sample(mesh).rows()])[0]
        if feature is not None:
            return feature
        raise ItemError(f"Item {item.id!r}: {damaged.kind} {damaged.index} is damaged: write the item again.")

    def delete(self, ids: Sequence[str]) -> int:
        with self.writing:
            return self.collection.delete(ids)

    def delete_where(self, where: Filter) -> int:
        with self.writing:
            return self.collection.delete_where(where)

    def thumbnail(self, key: str) -> bytes:
        return read_thumbnail(self.home, self.collection.blobs, key, self.settings.max_pixels)

    def tokens(self, texts: Sequence[str]) -> int:
        tokenizer = self.encoder.tokenizer
        return int((tokenizer(texts).ids != tokenizer.spec.pad).sum())


MAIN_PLACE = ""


class Collections:
    """All collections of a service; see `open_collections`. May be used from several threads."""

    def __init__(self, encoders: OpenEncoders, main: CollectionService, registry: CollectionRegistry) -> None:
        self.settings, self.encoders, self.main = main.settings, encoders, main
        self._registry, self.shared = registry, registry.shared  # with other processes that write here
        self.jobs = JobList(registry.store)
        self._services = {MAIN_PLACE: main}
        self._changing = threading.RLock()
        self._read(registry.listing())
        self.errors: dict[str, str] = {}  # why a collection could not be opened, by its name

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

    def place(self, name: str) -> str:
        """The place of the collection of a name or alias, which is never used for another one."""
        self.listing()
        place = self._places.get(name)
        if place is None:
            raise NoSuchCollectionError(f"there is no collection {name!r}")
        return place

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

    def open_all(self) -> None:
        """Open every collection; one that cannot be opened is noted in `errors`."""
        for name in self.listing().entries:
            try:
                self.service(name)
            except MultifoldError as error:
                self.errors[name] = str(error)

    def create(self, name: str, bundle: str | None, plan: IndexPlan | None) -> CollectionService:
        """A new, empty collection, for an available bundle or the one that the service was started with."""
        observer = self.encoders.first if bundle is None else self.encoders.named(bundle)
        if plan is not None:
            check_plan(plan, observer.encoder)
        with self._changing:
            with self._change():
                entry = self._registry.create(name, observer.encoder.vector_id)
            service = self._open(entry, observer, plan)
        if plan is not None:
            service.collection.ask_for(plan)
        return service

    def ensure(self, name: str, bundle: str | None, plan: IndexPlan | None) -> CollectionService:
        try:
            service = self.service(name)
        except NoSuchCollectionError:
            return self.create(name, bundle, plan)
        if bundle is not None and self.encoders.named(bundle).encoder.vector_id != service.encoder.vector_id:
            raise NameTakenError(f"{name!r} is there already, with another encoder; choose another name")
        return service

    def check_alias(self, alias: str) -> None:
        check_name(alias)
        if alias == MAIN or alias in self.listing().entries:
            raise NameTakenError(f"{alias!r} is a collection; an alias needs another name")

    def forget(self, name: str) -> CollectionEntry:
        """Drop a collection from the list; requests that hold it may finish."""
        with self._change():
            entry = self._registry.drop(name)
            self.errors.pop(name, None)
        return entry

    def discard(self, entry: CollectionEntry) -> None:
        """Close a forgotten collection, and remove its files."""
        if (service := self._services.pop(entry.place, None)) is not None:
            service.collection.discard()
        self._registry.clear(entry)

    def set_alias(self, alias: str, name: str) -> str | None:
        """Point an alias to a collection; returns the one that it pointed to before."""
        with self._change():
            return self._registry.set_alias(alias, name)

    def drop_alias(self, alias: str) -> None:
        with self._change():
            self._registry.drop_alias(alias)

    def close(self) -> None:
        for service in self._services.values():
            service.collection.close()
        self._registry.close()

    @contextmanager
    def _change(self) -> Iterator[None]:
        """Changes of the list, one at a time; it is read again afterwards."""
        with self._changing:
            yield
            self._read(self._registry.listing())

    def _read(self, listing: CollectionListing) -> None:
        """Note the names of one moment, and what each stands for."""
        places = {MAIN: MAIN_PLACE} | {name: entry.place for name, entry in listing.entries.items()}
        aliases = {DEFAULT: MAIN, **listing.aliases}
        self._places = places | {alias: places[name] for alias, name in aliases.items() if name in places}
        self._listing, self.default = listing, aliases[DEFAULT]

    def _open(
        self, entry: CollectionEntry, observer: ObservationEncoder, plan: IndexPlan | None = None
    ) -> CollectionService:
        place = self._registry.located(entry)
        service = _open_service(self.settings, observer, entry.name, place, plan)
        self._services[entry.place] = service
        return service


@contextmanager
def open_collections(settings: Settings) -> Iterator[Collections]:
    """All collections of a service: bundles verified, collections locked for writing, workers started."""
    if settings.database is not None:
        from index.store.postgres import limit_connections  # its driver is an extra

        limit_connections(settings.connections)
    with ExitStack() as stack:
        sandbox = stack.enter_context(Sandbox(workers=settings.renderers, seconds=settings.render_seconds))
        encoders = OpenEncoders(settings, sandbox)
        main = _open_service(settings, encoders.first, MAIN, settings.place)
        stack.callback(main.collection.close)
        registry = CollectionRegistry(settings.data, settings.items_at, settings.bucket)
        collections = Collections(encoders, main, registry)
        stack.callback(collections.close)
        if not collections.shared:
            registry.sweep()
        collections.open_all()
        yield collections


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
        memory=settings.index_memory,
        cluster=settings.cluster,
        reader=observer.encoder.reader,
    )
    return CollectionService(settings, collection, observer, name, place.folder)
