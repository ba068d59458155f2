"""A warm pool of worker processes: a hostile file kills its worker, never the service.

    with Sandbox(workers=2) as sandbox:
        views = sandbox.draw(MeshSource(upload, ".glb"), ViewOrder("ring6")).views

Any number of threads may ask at once. A crash, a time-out or a lack of memory is a `MeshError` for that mesh
alone; its worker is replaced. Uploads are written into folders of their own, so no other file lies beside.
"""

import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from multifold.machine import map_ahead
from renderers import engines
from renderers.contracts import DEFAULT_LIMITS, MeshError, MeshLimits
from renderers.lanes import Deadline, Lanes, RenderLane
from renderers.mesh.formats.mesh_file import suffix_of
from renderers.messages import MeshRequest, WorkerKilledError, WorkerLostError
from renderers.orders import GlbOrder, MeshSource, Order, PointOrder, RenderedMesh, SampledMesh, ViewOrder
from renderers.processes import Worker

DEFAULT_SECONDS = 60.0
DEFAULT_MEMORY = 3 << 30
READY = 1  # workers that start before a mesh comes
T = TypeVar("T")


class SandboxClosedError(RuntimeError):
    """The sandbox was asked after it had been closed."""


class Sandbox:
    """Draws meshes in processes with limits, by the engine of this name.

    `ready` of them (one) start at once. The others start when they are needed, and once the first has its
    engine, so that only one process compiles it.
    """

    def __init__(
        self,
        workers: int = 1,
        *,
        seconds: float = DEFAULT_SECONDS,
        memory_bytes: int = DEFAULT_MEMORY,
        limits: MeshLimits = DEFAULT_LIMITS,
        engine: str = engines.AUTO,
        ready: int | None = None,
    ) -> None:
        self.workers, self.memory_bytes, self.limits = workers, memory_bytes, limits
        self.engine = engines.engine(engine)
        self._lanes = Lanes(workers, seconds)
        self._turns = threading.Semaphore(workers)
        self._closed = False
        self._first_start = threading.Lock()
        self._engine_tried = threading.Event()
        self._idle = deque(self._start() for _ in range(min(READY if ready is None else ready, workers)))

    def draw(
        self, source: MeshSource, order: ViewOrder | None = None, lane: RenderLane = "any"
    ) -> RenderedMesh:
        """The views of one mesh."""
        wanted = order or ViewOrder()
        return self._ask(source, wanted, lane, lambda worker, request, end: worker.draw(request, wanted, end))

    def sample(
        self, source: MeshSource, order: PointOrder | None = None, lane: RenderLane = "any"
    ) -> SampledMesh:
        """Points of its surface."""
        wanted = order or PointOrder()
        return self._ask(
            source, wanted, lane, lambda worker, request, end: worker.sample(request, wanted, end)
        )

    def glb(self, source: MeshSource, lane: RenderLane = "any") -> bytes:
        """The same mesh as a GLB file for viewers."""
        return self._ask(source, GlbOrder(), lane, lambda worker, request, end: worker.glb(request, end))

    def draw_many(
        self, sources: Iterable[MeshSource], order: ViewOrder | None = None
    ) -> Iterator[RenderedMesh | MeshError]:
        """The views of many meshes in order, by all workers."""

        def attempt(source: MeshSource) -> RenderedMesh | MeshError:
            try:
                return self.draw(source, order)
            except MeshError as error:
                return error

        return map_ahead(attempt, sources, self.workers, 2 * self.workers + 1)

    def close(self) -> None:
        """End the workers; those still drawing end when they are done."""
        if self._closed:
            return
        self._closed = True
        with ExitStack() as turns:
            for _ in range(self.workers):
                turns.enter_context(self._turns)
            for worker in self._idle:
                worker.kill()

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(
        self,
        source: MeshSource,
        order: Order,
        lane: RenderLane,
        ask: Callable[[Worker, MeshRequest, Deadline], T],
    ) -> T:
        order.check()
        with _file_of(source) as path:
            within = None if source.within is None else str(source.within.resolve())
            request = MeshRequest(str(path), within, source.up, self.limits, order)
            with self._lanes.enter(lane) as deadline:
                return self._ask_idle(lambda worker: ask(worker, request, deadline))

    def _ask_idle(self, work: Callable[[Worker], T]) -> T:
        with self._turns:
            if self._closed:
                raise SandboxClosedError("this sandbox is closed")
            try:
                worker = self._idle.pop()  # the one that worked last
            except IndexError:
                worker = self._start()
            try:
                try:
                    return work(worker)
                except WorkerKilledError:  # perhaps while it was idle: one more attempt
                    worker.kill()
                    worker = self._start()
                    return work(worker)
            except BaseException as error:
                if isinstance(error, WorkerLostError) or not isinstance(error, MeshError):
                    worker.kill()  # its answer, if any, would be taken for the next one
                    worker = self._start()
                raise
            finally:
                self._idle.append(worker)

    def _start(self) -> Worker:
        is_first = self._first_start.acquire(blocking=False)
        if not is_first:
            self._engine_tried.wait()
        worker = Worker(self.memory_bytes, self.engine.name)
        if is_first:
            threading.Thread(target=self._await_engine, args=(worker,), daemon=True).start()
        return worker

    def _await_engine(self, first: Worker) -> None:
        try:
            first.wait_until_ready()
        except (MeshError, OSError, ValueError):
            pass  # it was ended, or whoever asks it hears of it
        finally:
            self._engine_tried.set()


@contextmanager
def _file_of(source: MeshSource) -> Iterator[Path]:
    """The file in place, or an upload, alone in a folder of its own."""
    if isinstance(source.mesh, Path):
        yield source.mesh.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="multifold-mesh-") as upload:
        path = Path(upload, "mesh" + suffix_of(Path("mesh" + (source.suffix or ""))))
        path.write_bytes(source.mesh)
        yield path
