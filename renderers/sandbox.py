"""A warm pool of worker processes: a hostile file kills its worker, never the service.

    with Sandbox(workers=2) as sandbox:
        views = sandbox.render(upload, ".glb")

Any number of threads may ask at once. A crash, a time-out or a lack of memory is a `MeshError` for that mesh
alone; its worker is replaced. Uploads are written into folders of their own, so no other file lies beside.
"""

import queue
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType

from multifold.machine import map_ahead
from renderers import cameras, engines
from renderers.contracts import DEFAULT_LIMITS, Background, MeshError, MeshLimits, Views, check_view_size
from renderers.mesh.formats.mesh_file import suffix_of
from renderers.mesh.up_axis import Up
from renderers.worker_process import RenderedMesh, Worker, WorkerKilledError, WorkerLostError
from renderers.worker_protocol import RenderRequest

DEFAULT_SECONDS = 60.0
DEFAULT_MEMORY = 3 << 30


class SandboxClosedError(RuntimeError):
    """The sandbox was asked after it had been closed."""


class Sandbox:
    """Draws meshes in processes with limits, by the engine of this name."""

    def __init__(
        self,
        workers: int = 1,
        *,
        seconds: float = DEFAULT_SECONDS,
        memory_bytes: int = DEFAULT_MEMORY,
        limits: MeshLimits = DEFAULT_LIMITS,
        engine: str = engines.AUTO,
    ) -> None:
        self.workers, self.seconds, self.memory_bytes, self.limits = workers, seconds, memory_bytes, limits
        self.engine = engines.engine(engine)
        self._closed = False
        self._idle: queue.Queue[Worker | None] = queue.Queue()
        for _ in range(workers):
            self._idle.put(Worker(memory_bytes, self.engine.name))

    def render(
        self,
        mesh: bytes | Path,
        suffix: str | None = None,
        rig: str = "ring6",
        size: int = 224,
        background: Background = "white",
        up: Up = "auto",
    ) -> Views:
        """The views of one mesh: an uploaded file's bytes with their suffix, or a file in place."""
        return self.draw(mesh, suffix, rig, size, background, up).views

    def draw(
        self,
        mesh: bytes | Path,
        suffix: str | None = None,
        rig: str = "ring6",
        size: int = 224,
        background: Background = "white",
        up: Up = "auto",
        within: Path | None = None,
    ) -> RenderedMesh:
        """The same, with what a user should know; a file in place may name others in the folder `within`."""
        check_view_size(size)
        if isinstance(mesh, Path):
            return self._draw(self._request(mesh.resolve(), rig, size, background, up, within))
        name = "mesh" + suffix_of(Path("mesh" + (suffix or "")))
        with tempfile.TemporaryDirectory(prefix="multifold-mesh-") as folder:
            path = Path(folder, name)
            path.write_bytes(mesh)
            return self._draw(self._request(path, rig, size, background, up))

    def render_many(
        self,
        paths: Iterable[Path],
        rig: str = "ring6",
        size: int = 224,
        background: Background = "white",
        up: Up = "auto",
    ) -> Iterator[Views | MeshError]:
        """Views or the reason against them, for each file in order, drawn by all workers."""
        drawn = self.draw_many(((path, up, None) for path in paths), rig, size, background)
        return (one if isinstance(one, MeshError) else one.views for one in drawn)

    def draw_many(
        self,
        meshes: Iterable[tuple[Path, Up, Path | None]],
        rig: str = "ring6",
        size: int = 224,
        background: Background = "white",
    ) -> Iterator[RenderedMesh | MeshError]:
        """The same as `draw` for files that each have an axis that is up and a folder they may read from."""

        def attempt(mesh: tuple[Path, Up, Path | None]) -> RenderedMesh | MeshError:
            path, up, within = mesh
            try:
                return self.draw(path, None, rig, size, background, up, within)
            except MeshError as error:
                return error

        return map_ahead(attempt, meshes, self.workers, 2 * self.workers + 1)

    def close(self) -> None:
        """End the workers; those still drawing end when they are done."""
        if self._closed:
            return
        self._closed = True
        for _ in range(self.workers):
            worker = self._idle.get()
            assert worker is not None
            worker.kill()
        self._idle.put(None)

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _request(
        self, path: Path, rig: str, size: int, background: Background, up: Up, within: Path | None = None
    ) -> RenderRequest:
        folder = None if within is None else str(within.resolve())
        return RenderRequest(str(path), rig, size, background, up, self.limits, folder)

    def _draw(self, request: RenderRequest) -> RenderedMesh:
        views = len(cameras.rig(request.rig))
        worker = self._idle.get()
        if worker is None:
            self._idle.put(None)
            raise SandboxClosedError("this sandbox is closed")
        try:
            try:
                drawn = worker.draw(request, views, self.seconds)
            except WorkerKilledError:  # perhaps while it had nothing to do
                worker = self._replaced(worker)
                drawn = worker.draw(request, views, self.seconds)
        except BaseException as error:
            if isinstance(error, WorkerLostError) or not isinstance(error, MeshError):
                worker = self._replaced(worker)  # its answer, if any, would be taken for the next one
            raise
        finally:
            self._idle.put(worker)
        return drawn

    def _replaced(self, worker: Worker) -> Worker:
        worker.kill()
        return Worker(self.memory_bytes, self.engine.name)
