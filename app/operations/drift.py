"""Whether a service still answers as it should: known queries with known answers, asked every few minutes.

The bundle's canaries are asked again, and for some items of each collection one of their captions is read
anew and searched with: the share that finds its item among ten is a number to watch, not to boast of. It
falls where an encoder, a library or an index goes wrong, or where a collection becomes crowded.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from app.collections.collections import Collections
from app.collections.service import CollectionService
from app.operations.metrics import Labels
from multifold.bundle import canary
from multifold.errors import MultifoldError, needs_extra
from multifold.types import SIDE_OF, Hit, Item, Query, Side, Vector

with needs_extra("serve"):
    from starlette.concurrency import run_in_threadpool

log = logging.getLogger("multifold.app")
ITEMS_READ, CAPTIONS_ASKED = 200, 32  # items that are looked at for captions, and captions that are asked
PROBE_DEPTH = 10
GOOD_CONFIDENCE = 0.5  # the confidence from which a hit matches well


@dataclass(frozen=True)
class ProbeResult:
    """One round: whether the encoder answers as recorded, and how many of its items captions find."""

    sound: bool
    asked: int
    found: int
    at: float


class DriftMonitor:
    """Probes all collections of a shelf again and again; `every` 0: never."""

    def __init__(self, shelf: Collections, every: float) -> None:
        self._shelf, self._every = shelf, every
        self.probes: dict[str, ProbeResult] = {}
        self._loop = asyncio.create_task(self._work()) if every else None

    def readings(self, look: Callable[[ProbeResult], float | None]) -> Iterator[tuple[Labels, float]]:
        """A number of each collection that was probed."""
        for name, one in list(self.probes.items()):
            if (value := look(one)) is not None:
                yield {"collection": name}, value

    async def close(self) -> None:
        """Stop."""
        if self._loop is not None:
            self._loop.cancel()
            with suppress(asyncio.CancelledError):
                await self._loop

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            services = self._shelf.services()
            self.probes = {
                name: one for name, one in self.probes.items() if name in {s.name for s in services}
            }
            for service in services:
                try:
                    self.probes[service.name] = await run_in_threadpool(partial(probe_collection, service))
                except MultifoldError:
                    log.exception("the collection %s cannot be probed", service.name)


def probe_collection(service: CollectionService) -> ProbeResult:
    """Ask once."""
    try:
        canary.check(service.encoder)
        sound = True
    except MultifoldError:
        log.exception("the encoder of %s does not answer its canaries as it should", service.name)
        sound = False
    known = list(_known_captions(service.collection.scroll(limit=ITEMS_READ)))[:CAPTIONS_ASKED]
    if not known:
        return ProbeResult(sound, 0, 0, time.time())
    vectors = service.encoder.vectors(service.encoder.texts([text for _, text, _ in known]).features)
    asked = zip(known, vectors, strict=True)
    found = sum(_finds_item(service, vector, name, side) for (name, _, side), vector in asked)
    return ProbeResult(sound, len(known), found, time.time())


def rate_match(hits: Sequence[Hit]) -> str:
    """How well the best hit of a search matches, as far as anybody knows."""
    sure = [hit.confidence for hit in hits if hit.confidence is not None]
    if not hits:
        return "nothing"
    return "unknown" if not sure else "well" if max(sure) >= GOOD_CONFIDENCE else "poorly"


def _known_captions(items: Sequence[Item]) -> Iterator[tuple[str, str, Side]]:
    """Items that can be found by their first caption, on a side that is not words."""
    for item in items:
        text = next((one.text for one in item.observations if one.text is not None), None)
        side = next((SIDE_OF[one.kind] for one in item.observations if one.text is None), None)
        if text is not None and side is not None:
            yield item.id, text, side


def _finds_item(service: CollectionService, vector: Vector, name: str, side: Side) -> bool:
    return any(hit.id == name for hit in service.collection.search(Query(vector, side, PROBE_DEPTH)))
