"""The typed clients of the REST service; both have the same methods.

with Client("http://127.0.0.1:8000") as client:
    for hit in client.search(text="a red chair with four black legs").hits:
        print(hit.id, hit.score, hit.matched.url)

async with AsyncClient("http://127.0.0.1:8000") as client:
    found = await client.search(text="a red chair with four black legs")
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from multifold.client.administration import AdminMethods
from multifold.client.calls import Call, path_segment
from multifold.client.collection import CollectionMethods
from multifold.client.events import EventReader
from multifold.client.labels import LabelMethods
from multifold.client.transport import AsyncServiceConnection, ServiceConnection, ServiceError
from multifold.durable import replace_file
from multifold.errors import MultifoldError
from multifold.wire.administration import JobStatus

LONGEST_WAIT = 3600.0  # seconds, unless another limit is given
READY = Call("GET", "/readyz", lambda response: bool(response.json()["status"] == "ok"))


class Client(CollectionMethods, LabelMethods, AdminMethods, ServiceConnection):
    """Talks to one service about one collection. Safe to share between threads; close it, or use a `with`."""

    def ready(self) -> bool:
        """Whether the service answers queries now."""
        try:
            return self._perform(READY)
        except ServiceError:
            return False

    def follow(self, id: str) -> Iterator[JobStatus]:
        """The job as it stands, then each time that it has changed, until it has ended."""
        events = EventReader(JobStatus)
        for piece in self._stream(f"/v1/jobs/{path_segment(id)}/events"):
            yield from events.read(piece)

    def wait(self, id: str, every: float = 0.5, limit: float = LONGEST_WAIT) -> JobStatus:
        """The job once it has ended: done, failed or cancelled; `limit`: seconds after which to give up."""
        end = time.monotonic() + limit
        while not (job := self.job(id)).ended:
            if time.monotonic() > end:
                raise _unfinished(job, limit)
            time.sleep(every)
        return job

    def fetch_snapshot(self, name: str, path: Path | str) -> Path:
        """Write a snapshot into a new file here; `multifold index restore` makes a collection of it."""
        with _new_file(Path(path)) as out:
            for piece in self._stream(f"{self._at}/snapshots/{path_segment(name)}"):
                out.write(piece)
        return Path(path)


class AsyncClient(CollectionMethods, LabelMethods, AdminMethods, AsyncServiceConnection):
    """The same for programs with an event loop: every method is awaited; `items`, `judgements` and
    `follow` are iterated over by `async for`."""

    async def ready(self) -> bool:
        """Whether the service answers queries now."""
        try:
            return await self._perform(READY)
        except ServiceError:
            return False

    async def follow(self, id: str) -> AsyncIterator[JobStatus]:
        """The job as it stands, then each time that it has changed, until it has ended."""
        events = EventReader(JobStatus)
        async for piece in self._stream(f"/v1/jobs/{path_segment(id)}/events"):
            for job in events.read(piece):
                yield job

    async def wait(self, id: str, every: float = 0.5, limit: float = LONGEST_WAIT) -> JobStatus:
        """The job once it has ended: done, failed or cancelled; `limit`: seconds after which to give up."""
        end = time.monotonic() + limit
        while not (job := await self.job(id)).ended:
            if time.monotonic() > end:
                raise _unfinished(job, limit)
            await asyncio.sleep(every)
        return job

    async def fetch_snapshot(self, name: str, path: Path | str) -> Path:
        """Write a snapshot into a new file here; `multifold index restore` makes a collection of it."""
        with _new_file(Path(path)) as out:
            async for piece in self._stream(f"{self._at}/snapshots/{path_segment(name)}"):
                out.write(piece)
        return Path(path)


def _unfinished(job: JobStatus, limit: float) -> MultifoldError:
    far = f"{job.done} of {job.total} done" if job.total else f"{job.done} done"
    sentence = f"The {job.kind} {job.id} of {job.collection} is {job.state} after {limit:g} s, {far}"
    return MultifoldError(f"{sentence}. It goes on: wait again, or cancel it.")


@contextmanager
def _new_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that is there once all of it is written; one that is there already is left alone."""
    if path.exists():
        raise MultifoldError(f"{path} is there already: choose another name, or remove it.")
    try:
        with replace_file(path) as out:
            yield out
    except OSError as error:
        raise MultifoldError(f"{path} cannot be written: {error.strerror or error}.") from error
