"""The engines by name; the first is the default one.

Engines are loaded when they are opened: some need a GPU, a system library or a heavy package.
"""

import importlib
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
        """The engine, ready to draw; a `RenderEngineError` says what it lacks."""
        module, name = self.where.split(":")
        try:
            build: Callable[..., Renderer] = getattr(importlib.import_module(module), name)
            return build(*self.arguments)
        except MultifoldError as error:
            raise RenderEngineError(f"the engine {self.name!r} does not work here: {error}") from error


_NUMBA = "renderers.raster.renderer:SoftwareRenderer"
_GL = "renderers.gl.renderer:GlRenderer"
ENGINES = (
    RenderEngine("numba", "our rasteriser, compiled by numba", "software-2", _NUMBA),
    RenderEngine("egl", "pyrender on a GPU, or on Mesa", "gl-egl-1", _GL, ("egl",)),
    RenderEngine("osmesa", "pyrender on Mesa without a GPU", "gl-osmesa-1", _GL, ("osmesa",)),
)
NAMES = (AUTO, *(engine.name for engine in ENGINES))
ALIASES = {AUTO: ENGINES[0].name, "numpy": "numba"}  # numpy: for one version


def engine(name: str = AUTO) -> RenderEngine:
    """The engine of this name. `auto` is the software renderer."""
    for one in ENGINES:
        if one.name == ALIASES.get(name, name):
            return one
    raise RenderEngineError(f"no engine is called {name!r}; there are: {', '.join(NAMES)}.")
