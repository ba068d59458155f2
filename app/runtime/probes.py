"""Searches whose right answers are known: the readiness check, and drift, which is measured again and again.

The share of captions that find their item among ten is a number to watch, no measure of quality. It falls
where an encoder, a library or an index goes wrong, or where a collection becomes crowded. Each round also
compares the checksums of some stored observations; damaged features are repaired from their originals.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

import numpy as np
from starlette.concurrency import run_in_threadpool

from app.collections.service import CollectionService
from index.cluster.contracts import ClusterError
from index.search.query import Query
from index.store.checksums import START, find_damage_after
from index.store.database import StoreError
from index.store.item_rows import ItemError
from index.store.metadata import changed_items
from multifold.bundle import canary
from multifold.errors import MultifoldError
from multifold.types import SIDE_OF, Aspect, Feature, Item, Side, features_of, pool_mean

log = logging.getLogger("multifold.app")
ITEMS_READ, MOST_QUERIES = 200, 32  # items whose captions are read, and captions that are searched with
PROBE_DEPTH = 10
ROWS_CHECKED = 10_000  # observations in one round
SCORE_SLACK = 1e-3


@dataclass(frozen=True)
class ProbeResult:
    """One round: whether the encoder answers as recorded, and how many captions find their item."""

    sound: bool
    queries: int
    hits: int
    at: float
    damaged: int = 0  # observations that were found damaged since the start
    repaired: int = 0  # those that were repaired
    checked: int = START  # the last row whose checksums were compared


class DriftMonitor:
    """Probes all collections at an interval in seconds; 0: never."""

    def __init__(self, services: Callable[[], Iterable[CollectionService]], every: float) -> None:
        self._services = services
        self._every = every
        self.probes: dict[str, ProbeResult] = {}
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._loop = asyncio.create_task(self._work()) if self._every else None

    async def close(self) -> None:
        if self._loop is not None:
            self._loop.cancel()
            with suppress(asyncio.CancelledError):
                await self._loop

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            services = list(self._services())
            names = {service.name for service in services}
            self.probes = {name: result for name, result in self.probes.items() if name in names}
            for service in services:
                try:
                    work = partial(probe_collection, service, self.probes.get(service.name))
                    self.probes[service.name] = await run_in_threadpool(work)
                except (StoreError, ClusterError):
                    break  # it is logged there, and keeps the others too
                except MultifoldError as error:
                    log.warning("the collection %s cannot be probed: %s", service.name, error)


def probe_collection(service: CollectionService, former: ProbeResult | None = None) -> ProbeResult:
    """One round after a `former` one: repairs what is stored, then searches for what is known."""
    former = former or ProbeResult(sound=True, queries=0, hits=0, at=0.0)
    damaged, repaired, checked = _check_stored(service, former.checked)
    damaged, repaired = former.damaged + damaged, former.repaired + repaired
    return replace(_search_for_known(service), damaged=damaged, repaired=repaired, checked=checked)


def _check_stored(service: CollectionService, after: int) -> tuple[int, int, int]:
    """How many of the next observations are damaged and repaired, and the last row that was checked."""
    damage, last = service.collection.read(find_damage_after, after, ROWS_CHECKED)
    repaired = 0
    for name, of_item in groupby(sorted(damage), key=lambda one: one.item):
        parts = list(of_item)
        damages = "; ".join(map(str, parts))
        try:
            if not all(one.mendable for one in parts):
                raise ItemError("write it again")
            service.repair(name)
        except MultifoldError as error:
            log.error("%s; it cannot be repaired: %s", damages, error)
        else:
            repaired += len(parts)
            log.warning("%s; it was repaired", damages)
    return len(damage), repaired, last


def _search_for_known(service: CollectionService) -> ProbeResult:
    if not service.encoder.encodes:
        return ProbeResult(sound=True, queries=0, hits=0, at=time.time())
    try:
        canary.check(service.encoder)
        sound = True
    except MultifoldError:
        log.exception("the encoder of %s does not answer its canaries as it should", service.name)
        sound = False
    captions: list[tuple[str, str, Side]] = []
    for item in service.collection.scroll(limit=ITEMS_READ):
        sides = [SIDE_OF[one.kind] for one in item.observations if one.text is None]
        if item.texts and sides and len(captions) < MOST_QUERIES:
            captions.append((item.id, item.texts[0], sides[0]))
    if not captions:
        return ProbeResult(sound, 0, 0, time.time())
    vectors = service.encoder.vectors(service.encoder.texts([text for _, text, _ in captions]).features)
    hits = 0
    for (name, _, side), vector in zip(captions, vectors, strict=True):
        hits += name in [
            hit.id for hit in service.collection.search(Query(vector, side, PROBE_DEPTH, strong=False))
        ]
    return ProbeResult(sound, len(captions), hits, time.time())


def check_readiness(service: CollectionService) -> None:
    """Check the canaries, then search for an item whose score is known; raise what went wrong."""
    if not service.encoder.encodes:
        return
    canary.check(service.encoder)
    seen = service.collection.version
    for item in service.collection.scroll(limit=1):
        if item.observations and not _is_found(service, item):  # all of them may be damaged
            _, changed = service.collection.read(changed_items, seen)
            # A search need not see what is being written.
            if changed is not None and item.id not in changed:
                raise MultifoldError(f"the item {item.id!r} is not found where its score puts it")


def _is_found(service: CollectionService, item: Item) -> bool:
    """The item is found by one of its sides, unless as many others are just as close."""
    encoder = service.encoder
    side = SIDE_OF[item.observations[-1].kind]
    shown: dict[Aspect, Feature] = {side: pool_mean(np.stack(features_of(item.observations, side)))}
    points = [one.feature for one in item.observations if one.kind == "points"]
    if side == "shape" and points:
        shown["points"] = pool_mean(np.stack(points))
    own = dict(zip(shown, encoder.vectors(np.stack(list(shown.values()))), strict=True))
    hits = service.collection.search(Query(own[side], side, PROBE_DEPTH, side=side, own=own, strong=False))
    crowded = len(hits) == PROBE_DEPTH and hits[0].score - hits[-1].score <= SCORE_SLACK
    return crowded or item.id in [hit.id for hit in hits]
