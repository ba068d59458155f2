"""The parent's side of one worker: start it, ask it, and kill it when it fails to answer in time."""

import json
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from renderers.contracts import MeshError, RenderEngineError, Views
from renderers.engines import AUTO
from renderers.images.color import channel_count
from renderers.worker_protocol import FRAME_LENGTH, RenderRequest, encode_request

STARTING_SECONDS = 600.0  # the first of all compiles itself, perhaps beside others
_LONGEST_MESSAGE = 1 << 16
# glibc: keep freed memory, since the arrays of one mesh are as large as those of the next
HEAP_SETTINGS = {"MALLOC_MMAP_THRESHOLD_": str(64 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}
_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "NUMBA_CACHE_DIR", "TZ", "SYSTEMROOT")


class WorkerLostError(MeshError):
    """The worker died or gave no answer in time; it can't be asked again."""


class WorkerKilledError(WorkerLostError):
    """Somebody ended the worker: the system, short of memory, or a person. No file does that by itself."""


@dataclass(frozen=True, eq=False)
class RenderedMesh:
    """The views of one mesh, and what a user should know about it."""

    views: Views
    up: str  # the axis that was taken for up
    up_reason: str
    notes: tuple[str, ...]


class Worker:
    """One process that draws meshes. It sees no secrets of ours: its environment is nearly empty."""

    def __init__(self, memory_bytes: int, engine: str = AUTO) -> None:
        self._ready = False
        self._home = tempfile.TemporaryDirectory(prefix="multifold-worker-")
        self._process = subprocess.Popen(  # noqa: S603 (our own module)
            [sys.executable, "-m", "renderers.worker", str(memory_bytes), engine],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._home.name,
            env=_environment(os.environ),
            bufsize=0,
        )

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def draw(self, request: RenderRequest, views: int, seconds: float) -> RenderedMesh:
        """One mesh, drawn; a `MeshError` says what is wrong with it, or that the worker is lost."""
        if not self._ready:
            self._receive(_Deadline(STARTING_SECONDS))
            self._ready = True
        deadline = _Deadline(seconds)
        self._send(encode_request(request))
        answer = self._receive(deadline)
        if answer.get("engine"):
            raise RenderEngineError(str(answer["error"]))
        if "error" in answer:
            raise (WorkerLostError if answer.get("last") else MeshError)(str(answer["error"]))
        shape = (views, request.size, request.size, channel_count(request.background))
        if answer.get("shape") != list(shape):
            raise WorkerLostError("the mesh cannot be drawn: the drawing process gave a senseless answer.")
        pixels = np.frombuffer(self._read(math.prod(shape), deadline), np.uint8).reshape(shape)
        notes = tuple(str(note) for note in answer.get("notes", ()))
        return RenderedMesh(pixels, str(answer.get("up")), str(answer.get("up_reason")), notes)

    def kill(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._home.cleanup()

    def _send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
        except OSError as error:
            raise self._crashed() from error

    def _receive(self, deadline: "_Deadline") -> dict[str, Any]:
        length: int = FRAME_LENGTH.unpack(self._read(FRAME_LENGTH.size, deadline))[0]
        if length > _LONGEST_MESSAGE:
            raise WorkerLostError("the mesh cannot be drawn: the drawing process gave a senseless answer.")
        message: dict[str, Any] = json.loads(self._read(length, deadline))
        return message

    def _read(self, count: int, deadline: "_Deadline") -> bytearray:
        """Exactly so many bytes of the worker's answer."""
        assert self._process.stdout is not None
        pipe, data = self._process.stdout, bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while len(data) < count:
                if not selector.select(deadline.left()):
                    raise WorkerLostError(
                        f"the mesh took longer than {deadline.seconds:g} seconds. Simplify it first."
                    )
                piece = os.read(pipe.fileno(), min(count - len(data), 1 << 20))
                if not piece:
                    raise self._crashed()
                data += piece
        return data

    def _crashed(self) -> WorkerLostError:
        status = self._process.wait()
        kind = WorkerKilledError if status == -signal.SIGKILL else WorkerLostError
        return kind(
            f"the mesh cannot be drawn: it made the drawing process crash (status {status}). "
            "The file may be damaged or need too much memory."
        )


class _Deadline:
    """A moment in the future, and how far away it was in the beginning."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._moment = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds until then, 0 if it has passed."""
        return max(self._moment - time.monotonic(), 0.0)


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    """What a worker needs to start: our import path, one thread, and no more."""
    kept = {name: ours[name] for name in _KEPT_VARIABLES if name in ours}
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
    paths = [os.path.abspath(path) for path in sys.path]
    return {
        **kept,
        **threads,
        **HEAP_SETTINGS,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
