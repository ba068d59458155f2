"""A process that loads and draws meshes for its parent, who may kill it at any time.

Requests come in on stdin and answers go out on stdout, each a frame (see request.py); an answer with
views is followed by their bytes. Nothing is pickled, so a worker that a hostile file has taken over can
show wrong pictures to its parent and no more. Text that libraries print goes to stderr.
"""

import os
import sys
from pathlib import Path
from typing import BinaryIO

from multifold.errors import MultifoldError
from renderers import cameras, engines
from renderers.base import EngineError, Renderer, Views
from renderers.guard import Guard
from renderers.mesh import load_model
from renderers.model import Model
from renderers.request import LENGTH, Request, decode, frame

OUT_OF_MEMORY = "there is not enough memory for this file. Simplify it first."


def main(memory_bytes: int, engine: str) -> None:
    """Answer requests until the parent hangs up or memory has run out."""
    requests, answers = _take_over_pipes()
    opened = _opened(engine)
    _limit_resources(memory_bytes)
    _answer(answers, {"ready": True})
    guard = Guard()
    while header := requests.read(LENGTH.size):
        request = decode(requests.read(LENGTH.unpack(header)[0]))
        try:
            model, views = draw(request, opened, guard)
            _answer(answers, {"shape": views.shape, **_told(model)}, views.tobytes())
        except MemoryError:
            # what is left of this process may be in pieces: a fresh one is safer
            _answer(answers, {"error": OUT_OF_MEMORY, "last": True})
            return
        except MultifoldError as error:
            _answer(answers, {"error": str(error), "engine": isinstance(error, EngineError)})
        except Exception as error:  # noqa: BLE001 (one bad file must not end the worker)
            _answer(answers, {"error": f"the mesh cannot be drawn: {type(error).__name__}: {error!s:.200}"})


def _opened(engine: str) -> Renderer | EngineError:
    """The engine, while files may be written, since some keep what they compile; or why it does not work."""
    try:
        return engines.engine(engine).open()
    except EngineError as error:
        return error


def draw(request: Request, engine: Renderer | EngineError, guard: Guard) -> tuple[Model, Views]:
    """One mesh and its views."""
    if isinstance(engine, EngineError):
        raise EngineError(str(engine))
    path, within = Path(request.path), None if request.within is None else Path(request.within)
    with guard.reading(within or path.parent):
        model = load_model(path, request.limits, request.up, within)
    rig = cameras.rig(request.rig)
    return model, engine.render(model, rig, request.size, request.background)


def _told(model: Model) -> dict[str, object]:
    """What a user should know about a mesh, cut to what fits into an answer."""
    return {
        "up": model.up,
        "up_reason": model.up_reason[:200],
        "notes": [note[:200] for note in model.notes[:20]],
    }


def _answer(answers: BinaryIO, message: dict[str, object], data: bytes = b"") -> None:
    answers.write(frame(message) + data)
    answers.flush()


def _take_over_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Our own ends of stdin and stdout; what anyone else prints goes to stderr."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return requests, answers


def _limit_resources(memory_bytes: int) -> None:
    """At most this much memory beyond what imports took, no files written, no core dumps. (POSIX only.)"""
    if sys.platform == "win32":
        return
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, memory_bytes))  # only files in memory, see files/step.py
    most = _memory_now() + memory_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _memory_now() -> int:
    """The private memory of this process in bytes; 0 where the system does not say."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmData")), 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
