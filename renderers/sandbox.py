"""A warm pool of worker processes: a hostile file kills its worker, never the service.

    with Sandbox(workers=2) as sandbox:
        views = sandbox.render(upload, ".glb")

Any number of threads may ask at once. A crash, a time-out or a lack of memory is a `MeshError` for that mesh
alone; its worker is replaced. Uploads are written into folders of their own, so no other file lies beside.

A mesh that takes longer than `QUICK_SECONDS` is slow. Callers who draw for others in turn use the lanes
`quick` and `slow`: slow meshes then leave one worker to quick ones. One that is found to be slow while the
others are taken is a `SlowMeshError`, and drawn anew in the slow lane. Frames are those of messages.py.
"""

import json
import logging
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from multifold.machine import map_ahead
from renderers import cameras, engines
from renderers.contracts import (
    DEFAULT_LIMITS,
    Background,
    MeshError,
    MeshLimits,
    RenderEngineError,
    RigError,
    Up,
    Views,
    channel_count,
    check_view_size,
)
from renderers.mesh.formats.mesh_file import suffix_of
from renderers.messages import (
    FRAME_LENGTH,
    RenderedMesh,
    RenderRequest,
    SampledMesh,
    SandboxClosedError,
    WorkerKilledError,
    WorkerLostError,
)
from renderers.points import POINT_BYTES, PointSample, check_point_count

log = logging.getLogger(__name__)
DEFAULT_SECONDS = 60.0
QUICK_SECONDS = 1.0
LARGEST_GLB = 256 << 20
T = TypeVar("T")
Ask: TypeAlias = Callable[["Worker", RenderRequest, "_Deadline"], T]
RenderLane: TypeAlias = Literal["any", "quick", "slow"]
DEFAULT_MEMORY = 3 << 30
READY = 1  # workers that start before a mesh comes
STARTING_SECONDS = 600.0  # the first worker may compile its engine
_LONGEST_MESSAGE = 1 << 16
# glibc: keep freed memory, since the arrays of one mesh are as large as those of the next
HEAP_SETTINGS = {"MALLOC_MMAP_THRESHOLD_": str(64 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}
_INHERITED_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "NUMBA_CACHE_DIR", "TZ", "SYSTEMROOT")
_INVALID_ANSWER = "the mesh cannot be drawn: the drawing process gave a senseless answer."


class SlowMeshError(WorkerLostError):
    """The mesh is slow, and so are those that are drawn already: ask again in the slow lane."""


def _with_file(
    mesh: bytes | Path, suffix: str | None, within: Path | None, work: Callable[[str, str | None], T]
) -> T:
    """Work on a file: in place with the folder it may read, or an upload, alone in a folder of its own."""
    if isinstance(mesh, Path):
        return work(str(mesh.resolve()), None if within is None else str(within.resolve()))
    with tempfile.TemporaryDirectory(prefix="multifold-mesh-") as upload:
        path = Path(upload, "mesh" + suffix_of(Path("mesh" + (suffix or ""))))
        path.write_bytes(mesh)
        return work(str(path), None)


def message_frame(message: dict[str, Any]) -> bytes:
    """A message with its length before it."""
    data = json.dumps(message).encode()
    return FRAME_LENGTH.pack(len(data)) + data


class Sandbox:
    """Draws meshes in processes with limits, by the engine of this name.

    One starts at once. The others start when they are needed, and once the first has its engine, so that
    only one process compiles it.
    """

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
        self._slow_turns = threading.Semaphore(max(1, workers - 1))
        self._closed = False
        self._turns = threading.Semaphore(workers)
        self._first_start, self._engine_tried = threading.Lock(), threading.Event()
        self._idle = deque(self._start() for _ in range(min(READY, workers)))

    def render(self, *mesh: Any, **style: Any) -> Views:  # noqa: ANN401 (those of `draw`)
        """The views of one mesh."""
        return self.draw(*mesh, **style).views

    def draw(
        self,
        mesh: bytes | Path,
        suffix: str | None = None,
        rig: str = "ring6",
        size: int = 224,
        background: Background = "white",
        up: Up = "auto",
        within: Path | None = None,
        lane: RenderLane = "any",
        view: int | None = None,
        points: int = 0,
        seed: int = 0,
    ) -> RenderedMesh:
        """An uploaded file's bytes and suffix, or a file in place, which may name others in `within`.

        With `points` so many points of its surface, too.
        """
        check_view_size(size)
        style = RenderRequest("", rig, size, background, up, self.limits, view=view, points=points, seed=seed)
        count = len(cameras.rig(rig))
        if view is not None and not 0 <= view < count:
            raise RigError(f"the rig {rig} has no view {view}")
        count = count if view is None else 1
        return self._ask(style, mesh, suffix, within, lane, lambda it, mesh, end: it.draw(mesh, count, end))

    def glb(
        self,
        mesh: bytes | Path,
        suffix: str | None = None,
        up: Up = "auto",
        within: Path | None = None,
        lane: RenderLane = "any",
    ) -> bytes:
        """The same mesh as a GLB file for viewers; see mesh/glb.py."""
        style = RenderRequest("", "ring6", 8, "white", up, self.limits, glb=True)
        return self._ask(style, mesh, suffix, within, lane, Worker.glb)

    def sample(
        self,
        mesh: bytes | Path,
        suffix: str | None = None,
        count: int = 2048,
        seed: int = 0,
        up: Up = "auto",
        within: Path | None = None,
        lane: RenderLane = "any",
    ) -> SampledMesh:
        """Points of its surface; see points.py."""
        check_point_count(count)
        style = RenderRequest("", None, 8, "white", up, self.limits, points=count, seed=seed)
        return self._ask(style, mesh, suffix, within, lane, Worker.sample)

    def draw_many(
        self,
        meshes: Iterable[Path | tuple[Path, Up, Path | None]],
        rig: str = "ring6",
        size: int = 224,
        background: Background = "white",
    ) -> Iterator[RenderedMesh | MeshError]:
        """The same for files in order, by all workers; each may have an up axis and a folder to read from."""

        def attempt(mesh: Path | tuple[Path, Up, Path | None]) -> RenderedMesh | MeshError:
            path, up, within = (mesh, "auto", None) if isinstance(mesh, Path) else mesh
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
        style: RenderRequest,
        mesh: bytes | Path,
        suffix: str | None,
        within: Path | None,
        lane: RenderLane,
        ask: Ask[T],
    ) -> T:
        def work(path: str, folder: str | None) -> T:
            request = replace(style, path=path, within=folder)
            deadline = _Deadline(self.seconds, self._slow_turns if lane == "quick" else None)
            try:
                with self._slow_turns if lane == "slow" else nullcontext():
                    return self._ask_idle(lambda worker: ask(worker, request, deadline))
            finally:
                deadline.end()

        return _with_file(mesh, suffix, within, work)

    def _ask_idle(self, work: "Callable[[Worker], T]") -> T:
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

    def _await_engine(self, first: "Worker") -> None:
        try:
            first.wait_until_ready()
        except (MeshError, OSError, ValueError):
            pass  # it was ended, or whoever asks it hears of it
        finally:
            self._engine_tried.set()

    def _start(self) -> "Worker":
        is_first = self._first_start.acquire(blocking=False)
        if not is_first:
            self._engine_tried.wait()
        worker = Worker(self.memory_bytes, self.engine.name)
        if is_first:
            threading.Thread(target=self._await_engine, args=(worker,), daemon=True).start()
        return worker


class Worker:
    """One process that draws meshes. It sees no secrets of ours: its environment is nearly empty."""

    def __init__(self, memory_bytes: int, engine: str = engines.AUTO) -> None:
        self._ready, self._starting = False, threading.Lock()
        self._home = tempfile.TemporaryDirectory(prefix="multifold-worker-")
        self._process = subprocess.Popen(  # noqa: S603 (our own module)
            [sys.executable, "-m", "renderers.worker", str(memory_bytes), engine],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._home.name,
            env=_worker_environment(),
            bufsize=0,
        )

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def wait_until_ready(self) -> None:
        """Until its engine is there; what it says meanwhile is logged."""
        with self._starting:
            while not self._ready:
                message = self._receive(_Deadline(STARTING_SECONDS))
                self._ready = "notice" not in message
                if not self._ready:
                    log.warning("the renderer is %s", message["notice"])

    def draw(self, request: RenderRequest, views: int, deadline: "_Deadline") -> RenderedMesh:
        """One mesh, drawn; a `MeshError` says what is wrong with it, or that the worker is lost."""
        answer = self._answer(request, deadline)
        shape = (views, request.size, request.size, channel_count(request.background))
        if answer.get("shape") != list(shape):
            raise WorkerLostError(_INVALID_ANSWER)
        pixels = np.frombuffer(self._read(math.prod(shape), deadline), np.uint8).reshape(shape)
        points = self._points(request, answer, deadline) if answer.get("bytes") else None
        return RenderedMesh(pixels, *_remarks(answer), points)

    def sample(self, request: RenderRequest, deadline: "_Deadline") -> SampledMesh:
        """Points of one mesh."""
        answer = self._answer(request, deadline)
        return SampledMesh(self._points(request, answer, deadline), *_remarks(answer))

    def _points(self, request: RenderRequest, answer: dict[str, Any], deadline: "_Deadline") -> PointSample:
        if answer.get("bytes") != request.points * POINT_BYTES:
            raise WorkerLostError(_INVALID_ANSWER)
        return PointSample.decode(bytes(self._read(request.points * POINT_BYTES, deadline)), request.points)

    def glb(self, request: RenderRequest, deadline: "_Deadline") -> bytes:
        """One mesh as GLB."""
        size = self._answer(request, deadline).get("bytes")
        if not isinstance(size, int) or not 0 < size <= LARGEST_GLB:
            raise WorkerLostError(_INVALID_ANSWER)
        return bytes(self._read(size, deadline))

    def _answer(self, request: RenderRequest, deadline: "_Deadline") -> dict[str, Any]:
        """What the worker says of a request, before the bytes that follow."""
        self.wait_until_ready()
        deadline.start()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(message_frame(asdict(request)))
        except OSError as error:
            raise self._crash() from error
        answer = self._receive(deadline)
        if answer.get("engine"):
            raise RenderEngineError(str(answer["error"]))
        if "error" in answer:
            raise (WorkerLostError if answer.get("last") else MeshError)(str(answer["error"]))
        return answer

    def kill(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._home.cleanup()

    def _receive(self, deadline: "_Deadline") -> dict[str, Any]:
        length: int = FRAME_LENGTH.unpack(self._read(FRAME_LENGTH.size, deadline))[0]
        if length > _LONGEST_MESSAGE:
            raise WorkerLostError(_INVALID_ANSWER)
        message: dict[str, Any] = json.loads(self._read(length, deadline))
        return message

    def _read(self, count: int, deadline: "_Deadline") -> bytearray:
        """Exactly this many bytes of the worker's answer."""
        assert self._process.stdout is not None
        pipe, data = self._process.stdout, bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while len(data) < count:
                if not selector.select(max(deadline.moment - time.monotonic(), 0.0)):
                    deadline.pass_on()
                    continue
                piece = os.read(pipe.fileno(), min(count - len(data), 1 << 20))
                if not piece:
                    raise self._crash()
                data += piece
        return data

    def _crash(self) -> WorkerLostError:
        status = self._process.wait()
        return (WorkerKilledError if status == -signal.SIGKILL else WorkerLostError)(
            f"the mesh cannot be drawn: it made the drawing process crash (status {status}). "
            "The file may be damaged or need too much memory."
        )


class _Deadline:
    """A moment in the future; for a mesh in the quick lane a nearer one first."""

    def __init__(self, seconds: float, slow_turns: threading.Semaphore | None = None) -> None:
        self._seconds, self._slow_turns, self._is_slow = seconds, slow_turns, slow_turns is None
        self.start()

    def start(self) -> None:
        self._begun = time.monotonic()
        self.moment = self._begun + (self._seconds if self._is_slow else min(QUICK_SECONDS, self._seconds))

    def pass_on(self) -> None:
        """The moment is over: go on as a slow mesh if there is a turn for one, else give up."""
        sentence = f"the mesh took longer than {self._seconds:g} seconds. Simplify it first."
        if self._is_slow or self._slow_turns is None or self._seconds <= QUICK_SECONDS:
            raise WorkerLostError(sentence)
        if not self._slow_turns.acquire(blocking=False):
            raise SlowMeshError(sentence)
        self._is_slow, self.moment = True, self._begun + self._seconds

    def end(self) -> None:
        """Give the turn back."""
        if self._is_slow and self._slow_turns is not None:
            self._slow_turns.release()


def _remarks(answer: dict[str, Any]) -> tuple[str, str, tuple[str, ...]]:
    """The up axis of a mesh, who says so, and what else a user should know."""
    return str(answer.get("up")), str(answer.get("up_reason")), tuple(map(str, answer.get("notes", ())))


def _worker_environment() -> dict[str, str]:
    """What a worker needs to start: our import path, one thread, and no more."""
    return {
        **{name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ},
        **{f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")},
        **HEAP_SETTINGS,
        "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
