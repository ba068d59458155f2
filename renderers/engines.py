"""The engines by name, and the one that draws when nobody says which.

Engines are loaded when they are asked for: some need a GPU, a system library or a heavy package.
"""

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from multifold.errors import MultifoldError
from renderers.contracts import RenderEngineError, Renderer

AUTO = "auto"


@dataclass(frozen=True)
class RenderEngine:
    """One way to draw."""

    name: str
    what: str  # for people
    pixels: str  # the stamp of its pictures: engines that share it draw the same bytes
    where: str  # module:class
    arguments: tuple[Any, ...] = ()

    def open(self) -> Renderer:
        """The engine, ready to draw; an `EngineError` says what it lacks."""
        module, name = self.where.split(":")
        try:
            build: Callable[..., Renderer] = getattr(importlib.import_module(module), name)
            return build(*self.arguments)
        except MultifoldError as error:
            raise RenderEngineError(f"the engine {self.name!r} does not work here: {error}") from error


ENGINES = (
    RenderEngine(
        "numba",
        "our rasteriser, compiled by numba",
        "software-2",
        "renderers.raster.kernels.renderer:CompiledRenderer",
    ),
    RenderEngine(
        "numpy", "our rasteriser, in numpy", "software-2", "renderers.raster.renderer:SoftwareRenderer"
    ),
    RenderEngine(
        "egl", "pyrender on a GPU, or on Mesa", "gl-egl-1", "renderers.gl.renderer:GlRenderer", ("egl",)
    ),
    RenderEngine(
        "osmesa",
        "pyrender on Mesa without a GPU",
        "gl-osmesa-1",
        "renderers.gl.renderer:GlRenderer",
        ("osmesa",),
    ),
)
NAMES = (AUTO, *(engine.name for engine in ENGINES))


def engine(name: str = AUTO) -> RenderEngine:
    """The engine of this name. `auto` is the software renderer, compiled if numba is there."""
    if name == AUTO:
        name = "numba" if importlib.util.find_spec("numba") else "numpy"
    for one in ENGINES:
        if one.name == name:
            return one
    raise RenderEngineError(f"no engine is called {name!r}; there are: {', '.join(NAMES)}.")
