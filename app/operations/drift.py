"""Drift: searches whose right answers are known, repeated every few minutes.

The bundle's canaries are checked again. For some items of each collection, a caption is encoded and searched
with: the share that finds its item among ten is a number to watch, no measure of quality. It
falls where an encoder, a library or an index goes wrong, or where a collection becomes crowded.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from app.collections.collections import Collections, CollectionService
from multifold.bundle import canary
from multifold.errors import MultifoldError, needs_extra
from multifold.types import SIDE_OF, Item, Query, Side, Vector

with needs_extra("serve"):
    from starlette.concurrency import run_in_threadpool

log = logging.getLogger("multifold.app")
ITEMS_READ, MOST_QUERIES = 200, 32  # items whose captions are read, and captions that are searched with
PROBE_DEPTH = 10


@dataclass(frozen=True)
class ProbeResult:
    """One round: whether the encoder answers as recorded, and how many captions find their item."""

    sound: bool
    queries: int
    hits: int
    at: float


class DriftMonitor:
    """Probes all collections every so many seconds; 0: never."""

    def __init__(self, collections: Collections, every: float) -> None:
        self._collections, self._every = collections, every
        self.probes: dict[str, ProbeResult] = {}
        self._loop = asyncio.create_task(self._work()) if every else None

    def readings(
        self, read: Callable[[ProbeResult], float | None]
    ) -> Iterator[tuple[Mapping[str, str], float]]:
        """A number of each collection that was probed, with its labels."""
        for name, result in list(self.probes.items()):
            if (value := read(result)) is not None:
                yield {"collection": name}, value

    async def close(self) -> None:
        if self._loop is not None:
            self._loop.cancel()
            with suppress(asyncio.CancelledError):
                await self._loop

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            services = self._collections.services()
            names = {service.name for service in services}
            self.probes = {name: result for name, result in self.probes.items() if name in names}
            for service in services:
                try:
                    self.probes[service.name] = await run_in_threadpool(partial(probe_collection, service))
                except MultifoldError:
                    log.exception("the collection %s cannot be probed", service.name)


def probe_collection(service: CollectionService) -> ProbeResult:
    """One round for one collection."""
    try:
        canary.check(service.encoder)
        sound = True
    except MultifoldError:
        log.exception("the encoder of %s does not answer its canaries as it should", service.name)
        sound = False
    captions = list(_captions(service.collection.scroll(limit=ITEMS_READ)))[:MOST_QUERIES]
    if not captions:
        return ProbeResult(sound, 0, 0, time.time())
    vectors = service.encoder.vectors(service.encoder.texts([text for _, text, _ in captions]).features)
    queries = zip(captions, vectors, strict=True)
    hits = sum(_finds_item(service, vector, name, side) for (name, _, side), vector in queries)
    return ProbeResult(sound, len(captions), hits, time.time())


def _captions(items: Sequence[Item]) -> Iterator[tuple[str, str, Side]]:
    """The first caption of each item, and a side other than text that it should find."""
    for item in items:
        text = next((one.text for one in item.observations if one.text is not None), None)
        side = next((SIDE_OF[one.kind] for one in item.observations if one.text is None), None)
        if text is not None and side is not None:
            yield item.id, text, side


def _finds_item(service: CollectionService, vector: Vector, name: str, side: Side) -> bool:
    return any(hit.id == name for hit in service.collection.search(Query(vector, side, PROBE_DEPTH)))
