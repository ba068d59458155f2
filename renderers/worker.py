"""A process that loads and draws meshes for its parent, who may kill it at any time.

Requests come in on stdin and answers go out on stdout, as messages.py says. Text that libraries print goes
to stderr.

While a mesh is loaded, an audit hook lets Python open no file outside the folder of the mesh, start no
process, open no connection and write nothing. Our readers keep to the folder by themselves; the hook stops
a library that does not. What Python's own libraries need is open to reading.
"""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from multifold.errors import MultifoldError
from renderers import engines
from renderers.contracts import MeshError, RenderEngineError, Renderer
from renderers.mesh.glb import encode_glb
from renderers.mesh.load import load_model
from renderers.messages import FRAME_LENGTH, MeshRequest, message_frame
from renderers.orders import GlbOrder, MeshReport, PointOrder
from renderers.points import sample_points

_FORBIDDEN = ("socket.connect", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.fork")
_FORBIDDEN_CHANGES = ("os.remove", "os.rename", "os.link", "os.symlink", "os.mkdir", "os.rmdir", "os.chmod")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class FileAccessGuard:
    """Watches what this process does from now on, but only within `reading`; made once in a process."""

    def __init__(self) -> None:
        libraries = {sys.prefix, sys.base_prefix, *(path or os.getcwd() for path in sys.path)}
        self._libraries = tuple(os.path.realpath(path) for path in libraries)
        self._folder: str | None = None
        sys.addaudithook(self._audit)

    @contextmanager
    def reading(self, folder: Path) -> Iterator[None]:
        """Only this folder is open to reading until the end of the block."""
        self._folder = os.path.realpath(folder)
        try:
            yield
        finally:
            self._folder = None

    def _audit(self, event: str, args: tuple[object, ...]) -> None:
        folder = self._folder
        if folder is None:
            return
        if event in _FORBIDDEN or event in _FORBIDDEN_CHANGES:
            raise PermissionError(f"{event} is not allowed while a mesh is loaded")
        if event == "open":
            path, _, flags = args
            if not self._may_open(folder, path, flags):
                raise PermissionError("no file outside its folder is read while a mesh is loaded")

    def _may_open(self, folder: str, path: object, flags: object) -> bool:
        if not isinstance(path, (str, bytes)):
            return True  # a descriptor that is open already
        writing = isinstance(flags, int) and flags & _WRITING != 0
        real = os.path.realpath(os.fsdecode(path))
        roots = (root.rstrip(os.sep) for root in (folder, *self._libraries))
        return not writing and any(real == root or real.startswith(root + os.sep) for root in roots)


OUT_OF_MEMORY = "there is not enough memory for this file. Simplify it first."


def main(memory_bytes: int, engine_name: str) -> None:
    """Answer requests until the parent hangs up or memory has run out."""
    # our own ends of stdin and stdout; what libraries print goes to stderr
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    engine: Renderer | RenderEngineError
    notices = _Notices(answers)
    logging.getLogger().addHandler(notices)
    try:  # while files may be written: some engines store what they compile
        engine = engines.engine(engine_name).open()
    except RenderEngineError as error:
        engine = error
    logging.getLogger().removeHandler(notices)
    _limit_resources(memory_bytes)
    _answer(answers, {"ready": True})
    guard = FileAccessGuard()
    while header := requests.read(FRAME_LENGTH.size):
        request = MeshRequest.decode(requests.read(FRAME_LENGTH.unpack(header)[0]))
        try:
            if isinstance(engine, RenderEngineError):
                raise RenderEngineError(str(engine))
            message, data = _fulfil(request, engine, guard)
            _answer(answers, message, data)
        except MemoryError:
            # what is left of this process may be in pieces: a fresh one is safer
            _answer(answers, {"error": OUT_OF_MEMORY, "last": True})
            return
        except MultifoldError as error:
            _answer(answers, {"error": str(error), "engine": isinstance(error, RenderEngineError)})
        except Exception as error:  # noqa: BLE001 (one bad file must not end the worker)
            _answer(answers, {"error": f"the mesh cannot be drawn: {type(error).__name__}: {error!s:.200}"})


def _fulfil(
    request: MeshRequest, engine: Renderer, guard: FileAccessGuard
) -> tuple[dict[str, object], bytes]:
    """The answer to a request, and the bytes that follow it."""
    order = request.order
    path = Path(request.path)
    within = None if request.within is None else Path(request.within)
    with guard.reading(within or path.parent):
        model = load_model(path, request.limits, request.up, within)
    if isinstance(order, GlbOrder):
        glb = encode_glb(model)
        return {"bytes": len(glb)}, glb
    report = asdict(MeshReport.of(model))
    if isinstance(order, PointOrder):
        points = sample_points(model, order.count, order.seed).encode()
        return {"report": report, "bytes": len(points)}, points
    points = b""
    if order.points is not None:
        with suppress(MeshError):  # with views to show, a mesh without surface is no mistake
            points = sample_points(model, order.points.count, order.points.seed).encode()
    views = engine.render(model, order.cameras(), order.size, order.background)
    return {"report": report, "bytes": len(points), "shape": views.shape}, views.tobytes() + points


class _Notices(logging.Handler):
    """Tells the parent what is logged."""

    def __init__(self, answers: BinaryIO) -> None:
        super().__init__(logging.WARNING)
        self._answers = answers

    def emit(self, record: logging.LogRecord) -> None:
        _answer(self._answers, {"notice": record.getMessage()})


def _answer(answers: BinaryIO, message: dict[str, object], data: bytes = b"") -> None:
    answers.write(message_frame(message) + data)
    answers.flush()


def _limit_resources(memory_bytes: int) -> None:
    """At most this much memory beyond what imports took, no files written, no core dumps. (POSIX only.)"""
    if sys.platform == "win32":
        return
    import resource

    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.is_file() else []
    private = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData")), 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, memory_bytes))  # files in memory (step.py)
    resource.setrlimit(resource.RLIMIT_DATA, (private + memory_bytes, private + memory_bytes))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
