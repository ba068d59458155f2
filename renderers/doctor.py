"""Which engines work here: each draws a small known mesh in a process of its own, with a time limit."""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from multifold.errors import MultifoldError
from renderers.contracts import Views
from renderers.engines import AUTO, ENGINES, RenderEngine, engine
from renderers.orders import MeshSource, ViewOrder
from renderers.sandbox import Sandbox

SECONDS = 120.0  # some compile themselves first
_ORDER = ViewOrder("ring6", 96)
_CLOSE = 3.0  # mean difference, of 255, to the first engine's views
_CRYSTAL = """OFF
6 8 0
1 0 0
-1 0 0
0 1 0
0 -1 0
0 0 1
0 0 -1
3 0 2 4
3 2 1 4
3 1 3 4
3 3 0 4
3 2 0 5
3 1 2 5
3 3 1 5
3 0 3 5
"""


@dataclass(frozen=True)
class EngineCheck:
    engine: RenderEngine
    works: bool
    chosen: bool  # by `auto`
    note: str

    def __str__(self) -> str:
        name = f"{self.engine.name}{' (auto)' if self.chosen else ''}"
        return f"{'works' if self.works else '  -  '}  {name:14} {self.engine.what}: {self.note}"


def check_engines() -> Iterator[EngineCheck]:
    """Try every engine; the others are compared with the first that works."""
    with tempfile.TemporaryDirectory(prefix="multifold-doctor-") as folder:
        crystal = Path(folder, "crystal.off")
        crystal.write_text(_CRYSTAL)
        first: Views | None = None
        for one in ENGINES:
            chosen = one == engine(AUTO)
            try:
                views, seconds = _draw(one, crystal)
            except MultifoldError as error:
                yield EngineCheck(one, False, chosen, str(error))
                continue
            first = views if first is None else first
            yield _compare(one, chosen, views, first, seconds)


def _draw(one: RenderEngine, crystal: Path) -> tuple[Views, float]:
    """The views, and how long they took once the engine was warm."""
    with Sandbox(1, seconds=SECONDS, engine=one.name) as sandbox:
        sandbox.draw(MeshSource(crystal), _ORDER)
        start = time.perf_counter()
        return sandbox.draw(MeshSource(crystal), _ORDER).views, time.perf_counter() - start


def _compare(one: RenderEngine, chosen: bool, views: Views, first: Views, seconds: float) -> EngineCheck:
    difference = float(np.abs(views.astype(int) - first).mean())
    if difference > _CLOSE:
        return EngineCheck(one, False, chosen, f"its pictures are off by {difference:.1f} of 255 on average")
    off = "" if views is first else f", {difference:.2f} of 255 off on average"
    return EngineCheck(one, True, chosen, f"{1000 * seconds / len(views):.0f} ms a view{off}")
