"""Worker processes as their parent sees them: started with limits and without secrets, asked, ended."""

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
from pathlib import Path
from typing import Any

import numpy as np

from renderers.contracts import MeshError, RenderEngineError, channel_count
from renderers.lanes import Deadline
from renderers.messages import (
    FRAME_LENGTH,
    INVALID_ANSWER,
    MeshRequest,
    WorkerKilledError,
    WorkerLostError,
)
from renderers.orders import MeshReport, PointOrder, RenderedMesh, SampledMesh, ViewOrder
from renderers.points import POINT_BYTES, PointSample

log = logging.getLogger(__name__)
LARGEST_GLB = 256 << 20
STARTING_SECONDS = 600.0  # the first worker may compile its engine
_LONGEST_MESSAGE = 1 << 16
# glibc: keep freed memory, since the arrays of one mesh are as large as those of the next
HEAP_SETTINGS = {"MALLOC_MMAP_THRESHOLD_": str(64 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}
_INHERITED_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "NUMBA_CACHE_DIR", "TZ", "SYSTEMROOT")


class Worker:
    """One process that draws meshes. It sees no secrets of ours: its environment is nearly empty."""

    def __init__(self, memory_bytes: int, engine: str) -> None:
        self._ready = False
        self._starting = threading.Lock()
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
                message = self._receive(Deadline(STARTING_SECONDS))
                self._ready = "notice" not in message
                if not self._ready:
                    log.warning("the renderer is %s", message["notice"])

    def draw(self, request: MeshRequest, order: ViewOrder, deadline: Deadline) -> RenderedMesh:
        """One mesh, drawn; a `MeshError` says what is wrong with it, or that the worker is lost."""
        answer = self._answer(request, deadline)
        shape = (len(order.cameras()), order.size, order.size, channel_count(order.background))
        if answer.get("shape") != list(shape):
            raise WorkerLostError(INVALID_ANSWER)
        pixels = np.frombuffer(self._read(math.prod(shape), deadline), np.uint8).reshape(shape)
        sampled = order.points if answer.get("bytes") else None
        points = None if sampled is None else self._points(sampled, answer, deadline)
        return RenderedMesh(pixels, _report(answer), points)

    def sample(self, request: MeshRequest, order: PointOrder, deadline: Deadline) -> SampledMesh:
        """Points of one mesh."""
        answer = self._answer(request, deadline)
        return SampledMesh(self._points(order, answer, deadline), _report(answer))

    def glb(self, request: MeshRequest, deadline: Deadline) -> bytes:
        """One mesh as GLB."""
        size = self._answer(request, deadline).get("bytes")
        if not isinstance(size, int) or not 0 < size <= LARGEST_GLB:
            raise WorkerLostError(INVALID_ANSWER)
        return bytes(self._read(size, deadline))

    def kill(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._home.cleanup()

    def _points(self, order: PointOrder, answer: dict[str, Any], deadline: Deadline) -> PointSample:
        size = order.count * POINT_BYTES
        if answer.get("bytes") != size:
            raise WorkerLostError(INVALID_ANSWER)
        return PointSample.decode(bytes(self._read(size, deadline)), order.count)

    def _answer(self, request: MeshRequest, deadline: Deadline) -> dict[str, Any]:
        """What the worker says of a request, before the bytes that follow."""
        self.wait_until_ready()
        deadline.start(self._processor_seconds)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(request.frame())
        except OSError as error:
            raise self._crash() from error
        answer = self._receive(deadline)
        if answer.get("engine"):
            raise RenderEngineError(str(answer["error"]))
        if "error" in answer:
            raise (WorkerLostError if answer.get("last") else MeshError)(str(answer["error"]))
        return answer

    def _processor_seconds(self) -> float:
        """What it has computed so far; seconds of the clock where the system does not tell."""
        try:
            _, _, told = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(") ")
        except OSError:
            return time.monotonic()
        user, system = told.split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def _receive(self, deadline: Deadline) -> dict[str, Any]:
        length: int = FRAME_LENGTH.unpack(self._read(FRAME_LENGTH.size, deadline))[0]
        if length > _LONGEST_MESSAGE:
            raise WorkerLostError(INVALID_ANSWER)
        message: dict[str, Any] = json.loads(self._read(length, deadline))
        return message

    def _read(self, count: int, deadline: Deadline) -> bytearray:
        """Exactly this many bytes of the worker's answer."""
        assert self._process.stdout is not None
        pipe = self._process.stdout
        data = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while len(data) < count:
                if not selector.select(deadline.seconds_left):
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


def _report(answer: dict[str, Any]) -> MeshReport:
    report = answer.get("report")
    if not isinstance(report, dict):
        raise WorkerLostError(INVALID_ANSWER)
    return MeshReport.decode(report)


def _worker_environment() -> dict[str, str]:
    """What a worker needs to start: our import path, one thread, and no more."""
    return {
        **{name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ},
        **{f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")},
        "PXR_WORK_THREAD_LIMIT": "1",
        **HEAP_SETTINGS,
        "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
