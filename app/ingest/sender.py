"""Sends items to the service that has the collection open, as uploads: it reads no path that a client names.

With its setting `in_place_folders` it copies no file whose place is noted in the collection's folder.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from app.ingest.caches import ViewCache
from app.ingest.originals import OriginalFiles
from app.ingest.sources import IngestTask
from index.collection import Collection
from multifold.client import Client, ServiceError
from multifold.errors import MultifoldError
from multifold.files.folder import FileProblem
from multifold.machine import map_ahead
from multifold.types import Item
from renderers.mesh.formats.mesh_file import digest_content

SEND_THREADS = 4  # requests at once
SEND_AHEAD = 16
SEND_TRIES = 100  # of a request that a busy service refuses
BUSY_STATUSES = (429, 503)


class ServiceSender:
    """Sends items; what the service refuses is skipped and reported."""

    def __init__(self, client: Client, collection: Collection | None, views: ViewCache) -> None:
        self._client = client
        self._collection = collection
        self._views = views
        self._originals = None if collection is None else OriginalFiles(collection.blobs, copy=False)
        self._in_place = bool(client.info().get("in_place"))
        self.skipped: list[FileProblem] = []
        self.warnings: list[FileProblem] = []

    def run(self, tasks: Iterable[IngestTask]) -> Iterator[int]:
        """Carry out the tasks; yields how many more are done."""
        for problem in map_ahead(self._attempt, tasks, SEND_THREADS, SEND_AHEAD):
            if problem is not None:
                self.skipped.append(problem)
            yield 1

    def _attempt(self, task: IngestTask) -> FileProblem | None:
        for left in reversed(range(SEND_TRIES)):
            try:
                self._send(task)
            except ServiceError as error:
                if error.status is None:
                    raise  # the service is gone: the other items would fail too
                if error.status not in BUSY_STATUSES or not left:
                    return FileProblem(task.id, error.message)
                time.sleep(error.retry_after or 1.0)
            except (MultifoldError, OSError) as error:
                return FileProblem(task.id, str(error))
            else:
                break
        return None

    def _send(self, task: IngestTask) -> None:
        if task.keeps_pictures:
            if self._originals is not None and (stored := self._stored(task)) is not None:
                self._originals.move(task, stored)
                self._originals.flush()
            former = self._client.get(task.id).payload
            self._client.update(task.id, payload=diff_patch(former, task.payload), texts=task.texts)
            return
        mesh = None if task.mesh is None else _single_file(task.mesh.path, task.mesh.within)
        images = [path.read_bytes() for path in task.images]
        task.check_unchanged()
        if self._originals is not None and self._in_place:
            self._originals.offer(task, images)
        written = self._client.upsert(
            task.id, texts=task.texts, images=images, mesh=mesh, payload=task.payload
        )
        self.warnings += [FileProblem(task.id, one) for one in written.warnings]
        if task.mesh is not None and task.mesh.within is None and (stored := self._stored(task)) is not None:
            self._views.put(digest_content(task.mesh.path).hash, stored.pictures("view"))

    def _stored(self, task: IngestTask) -> Item | None:
        return None if self._collection is None else self._collection.get(task.id)


def diff_patch(former: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch that makes one object another."""
    changed: dict[str, Any] = dict.fromkeys(former.keys() - wanted.keys())
    for key, value in wanted.items():
        old = former.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        changed[key] = diff_patch(old, value) if both else value  # type: ignore[arg-type]
    return changed


def _single_file(mesh: Path, within: Path | None) -> Path:
    others = digest_content(mesh, within=within).files[1:]
    if others:
        raise MultifoldError(
            f"{mesh.name} names other files ({others[0].name}), and a service takes a mesh as one file: "
            "convert it to glb, or stop the service and run this again"
        )
    return mesh
