"""Items through the service that has the collection: it draws, encodes and writes, and is searched meanwhile.

Files travel as uploads, so the service reads no path that somebody names to it. Where it is told to (its
setting `roots`), it makes no copy of those whose place we note in the collection's folder, which is ours too.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from app.drawn import Drawn
from app.intake.content import stamp
from app.intake.originals import Originals
from app.intake.plan import Work
from index.collection import Collection
from multifold.client import Client, ServiceError
from multifold.errors import MultifoldError
from multifold.folder import Problem
from multifold.machine import ahead
from renderers.content import content

THREADS = 4  # requests at once
AHEAD = 16
TRIES = 100  # of a request that a busy service sent away
BUSY = (429, 503)


class SendError(MultifoldError):
    """An item that cannot be sent."""


class Sender:
    """Sends items; what the service refuses is skipped and reported."""

    def __init__(self, client: Client, collection: Collection | None, drawn: Drawn) -> None:
        self._client, self._collection, self._drawn = client, collection, drawn
        self._originals = None if collection is None else Originals(collection.blobs, copy=False)
        self._in_place = bool(client.info().get("in_place"))
        self.skipped: list[Problem] = []

    def take(self, works: Iterable[Work]) -> Iterator[int]:
        """Send items; yields how many more are done with."""
        for problem in ahead(self._attempt, works, THREADS, AHEAD):
            if problem is not None:
                self.skipped.append(problem)
            yield 1

    def _attempt(self, work: Work) -> Problem | None:
        try:
            self._patiently(work)
        except ServiceError as error:
            if error.status is None:
                raise  # nobody is there: the rest would fare no better
            return Problem(work.id, error.message)
        except (MultifoldError, OSError) as error:
            return Problem(work.id, str(error))
        return None

    def _patiently(self, work: Work) -> None:
        for left in reversed(range(TRIES)):
            try:
                return self._send(work)
            except ServiceError as error:
                if error.status not in BUSY or not left:
                    raise
                time.sleep(error.retry_after or 1.0)
        return None

    def _send(self, work: Work) -> None:
        if work.seen:
            self._note(work)
            former = self._client.get(work.id).payload
            self._client.update(work.id, payload=patch(former, work.payload), texts=work.texts)
            return
        mesh = None if work.mesh is None else _alone(work.mesh, work.within)
        images = [path.read_bytes() for path in work.images]
        if any(stamp(Path(one[0])) != one for one in work.stamps):
            raise SendError("it changed while it was read; run it again")
        if self._originals is not None and self._in_place:
            self._originals.offer(work, images)
        self._client.upsert(work.id, texts=work.texts, images=images, mesh=mesh, payload=work.payload)
        if work.mesh is not None and work.within is None:
            self._remember(work)

    def _note(self, work: Work) -> None:
        """Where the files of an item lie that an ingest before us did not copy."""
        stored = None if self._collection is None else self._collection.get(work.id)
        if stored is not None and self._originals is not None:
            self._originals.again(work, stored)
            self._originals.note()

    def _remember(self, work: Work) -> None:
        """Which views the mesh gave: that is how a manifest's item is known again."""
        stored = None if self._collection is None else self._collection.get(work.id)
        if stored is not None and work.mesh is not None:
            keys = tuple(one.blob for one in stored.observations if one.kind == "view" and one.blob)
            self._drawn.put(content(work.mesh).hash, keys)


def patch(former: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch that makes one object another."""
    changed: dict[str, Any] = dict.fromkeys(former.keys() - wanted.keys())
    for key, value in wanted.items():
        old = former.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        changed[key] = patch(old, value) if both else value  # type: ignore[arg-type]
    return changed


def _alone(mesh: Path, within: Path | None) -> Path:
    """A mesh that is one file."""
    others = content(mesh, within=within).files[1:]
    if others:
        raise SendError(
            f"{mesh.name} names other files ({others[0].name}), and a service takes a mesh as one file: "
            "convert it to glb, or stop the service and run this again"
        )
    return mesh
