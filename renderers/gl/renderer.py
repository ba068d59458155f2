"""The renderer that draws with OpenGL, by pyrender: through EGL (a GPU, or Mesa) or OSMesa (no GPU at all).

The shaders in `shaders/` say what `light.py` and `shade.py` say, so its views are those of the software
renderer but for rounding and for glass inside glass. OpenGL binds itself to one process and one thread: there
is one such renderer in a process, and a process that has one must not fork.
"""

import importlib
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from jaxtyping import Float32, Float64, UInt8

from multifold.errors import MultifoldError, needs_extra
from renderers.contracts import Background, MeshModel, RenderEngineError, Rig, Views, check_view_size
from renderers.images.color import cut_out, to_srgb

if TYPE_CHECKING:
    from renderers.gl.scene import GlScene

GlPlatform: TypeAlias = Literal["egl", "osmesa"]
SAMPLES_PER_SIDE = 2  # samples along a pixel's side
_PYGLET = ("pyglet", "pyglet.app", "pyglet.clock", "pyglet.gl", "pyglet.window")
_PACKAGES = {
    "egl": "libegl1 libegl-mesa0 libgl1-mesa-dri libopengl0",
    "osmesa": "libosmesa6 libopengl0",
}
_SETTINGS = {  # of Mesa and NVIDIA: no files, and no threads beside ours, for there is a worker on each core
    "MESA_SHADER_CACHE_DISABLE": "true",
    "__GL_SHADER_DISK_CACHE": "0",
    "LP_NUM_THREADS": "0",
}


class GlRenderer:
    """Draws with pyrender."""

    version = "1"

    def __init__(self, platform: GlPlatform) -> None:
        self.name = f"gl-{platform}"
        self._thread = threading.get_ident()
        self._scene = _open(platform)

    def render(self, model: MeshModel, rig: Rig, size: int = 224, background: Background = "white") -> Views:
        """One square sRGB picture for each pose of the rig."""
        check_view_size(size)
        if threading.get_ident() != self._thread:
            raise RenderEngineError("OpenGL draws only in the thread that opened it; ask a sandbox instead.")
        try:
            self._scene.show(model, rig, size * SAMPLES_PER_SIDE)
            if background == "transparent":
                return np.stack([self._cut_out(pose, size) for pose in rig.poses])
            light = float(background == "white")
            return np.stack([to_srgb(_pixels(self._scene.picture(pose, light))) for pose in rig.poses])
        finally:
            self._scene.clear()  # pyrender keeps what it drew last

    def _cut_out(self, pose: Float64[np.ndarray, "4 4"], size: int) -> UInt8[np.ndarray, "h w 4"]:
        """What changes from black to white is background."""
        black, white = (_pixels(self._scene.picture(pose, light)).reshape(-1, 3) for light in (0.0, 1.0))
        pixels = cut_out(black, (white - black).mean(axis=1))
        return pixels.reshape(size, size, 4)


def _pixels(samples: Float32[np.ndarray, "s s 3"]) -> Float32[np.ndarray, "h h 3"]:
    """The mean light of each pixel."""
    above, below = samples[0::2], samples[1::2]
    sums = above[:, 0::2] + above[:, 1::2] + below[:, 0::2] + below[:, 1::2]
    return np.asarray(sums / np.float32(4))


def _open(platform: GlPlatform) -> "GlScene":
    """A place to draw, or a `RenderEngineError` that says what the system lacks."""
    bound = os.environ.setdefault("PYOPENGL_PLATFORM", platform)
    if bound != platform:
        raise RenderEngineError(
            f"this process is bound to OpenGL through {bound}; {platform} needs another one."
        )
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        with needs_extra("gl"), _without_windows():
            module = importlib.import_module("renderers.gl.scene")
        scene: GlScene = module.GlScene(platform)
    except MultifoldError:
        raise
    except Exception as error:  # libraries and drivers fail in every way
        reason = f"{type(error).__name__}: {error}".split("\n")[0]
        raise RenderEngineError(
            f"OpenGL through {platform} does not work here ({reason:.120}). "
            f"On Debian it comes with: apt-get install {_PACKAGES[platform]}"
        ) from error
    return scene


@contextmanager
def _without_windows() -> Iterator[None]:
    """pyrender imports its window toolkit, which wants X11; it gets an empty one while it does."""
    hidden = {name: sys.modules.pop(name) for name in _PYGLET if name in sys.modules}
    sys.modules.update({name: _Stub(name) for name in _PYGLET})
    try:
        yield
    finally:
        for name in _PYGLET:
            del sys.modules[name]
        sys.modules.update(hidden)


class _Stub(ModuleType):
    """A module of submodules and empty classes."""

    options: dict[str, Any] = {}  # noqa: RUF012 (pyrender writes into it, and nobody reads it)

    def __getattr__(self, name: str) -> ModuleType | type:
        if name.startswith("__"):
            raise AttributeError(name)
        return sys.modules.get(f"{self.__name__}.{name}", object)
