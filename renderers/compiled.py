"""The software renderer, compiled by numba: the same pixels as `renderers.software`, many times faster."""

import functools

import numpy as np
from jaxtyping import UInt8

from renderers.backdrop import Background, channels, laid_on
from renderers.base import Views, check_size
from renderers.cameras import Rig
from renderers.errors import MeshError
from renderers.glass import MOST_FRAGMENTS, TOO_MANY_CLEAR
from renderers.kernels import view
from renderers.kernels.packed import CLEAR, Layers, addresses, looks_of, scratch_for, shape_of, textures_in
from renderers.light import lamps
from renderers.model import Model
from renderers.pixels import PIXEL
from renderers.raster import TOO_MANY_LARGE, project
from renderers.software import SoftwareRenderer, depth_range, opacity_of


class CompiledRenderer:
    """Draws on the CPU, with the pixels of the software renderer."""

    name = SoftwareRenderer.name
    version = SoftwareRenderer.version

    def __init__(self) -> None:
        self._see, self._paint = _entries()

    def render(self, model: Model, rig: Rig, size: int = 224, background: Background = "white") -> Views:
        """One square sRGB picture for each pose of the rig."""
        check_size(size)
        drawing = _Drawing(self._see, self._paint, model, rig, size)
        views = np.empty((len(rig), size, size, channels(background)), np.uint8)
        for number in range(len(rig)):
            views[number] = drawing.picture(number, background)
        return views


@functools.cache
def _entries() -> tuple[view.See, view.Paint]:
    return view.entries()


class _Drawing:
    """One model before the cameras of a rig: the arrays that kernels read, and room for what they write."""

    def __init__(self, see: view.See, paint: view.Paint, model: Model, rig: Rig, size: int) -> None:
        self._see, self._paint, self._model, self._rig, self._size = see, paint, model, rig, size
        opacities = [opacity_of(model, material) for material in model.materials]
        self._textures = textures_in(model)
        self._shape, self._looks = shape_of(model), looks_of(model, self._textures, opacities)
        self._scratch = scratch_for(model, size)
        self._at = addresses(self._shape, self._looks, self._scratch)
        self._starts = np.empty((size * PIXEL) ** 2 + 1 if CLEAR in opacities else 0, np.int64)
        self._lights = np.concatenate([rig.poses[:, :3, 3].T.astype(np.float32), *lamps(rig.poses)]).T
        colored = bool((model.colors != 1).any())
        sets = 1 if model.uv1 is None else 2
        self._numbers = (len(model.faces), size * PIXEL, sets, colored, *depth_range(rig))

    def picture(self, number: int, background: Background) -> UInt8[np.ndarray, "h w c"]:
        """The view of one camera."""
        self._look_from(number)
        layers = self._layers(*self._seen())
        self._paint(self._at, self._numbers, addresses(layers), len(layers.veil) > 0)
        veil = layers.veil if len(layers.veil) else None
        return laid_on(background, self._scratch.seen, self._scratch.rest, veil).reshape(
            self._size, self._size, channels(background)
        )

    def _look_from(self, number: int) -> None:
        pose, scratch = self._rig.poses[number : number + 1], self._scratch
        scratch.screen[:] = project(self._model.vertices, pose, self._rig.fov_degrees, self._size * PIXEL)[0]
        scratch.lights[:] = self._lights[number]
        scratch.held[:] = -1

    def _seen(self) -> tuple[int, int]:
        """Settle what is nearest; gives how many see-through fragments there are, in all and in one pixel."""
        total, most = self._see(self._at, self._numbers, self._starts.ctypes.data if len(self._starts) else 0)
        if total == view.TOO_MANY_LARGE:
            raise MeshError(TOO_MANY_LARGE)
        if total > MOST_FRAGMENTS:
            raise MeshError(TOO_MANY_CLEAR)
        return total, most

    def _layers(self, total: int, most: int) -> Layers:
        """Room for so many see-through fragments."""
        return Layers(
            self._starts,
            np.empty(total, np.int64),
            np.empty(most, np.int64),
            np.empty((most, 4), np.float32),
            np.repeat(np.array([1, 0], np.float32), [4, 12]),
            np.empty((self._size**2 if len(self._starts) else 0, 3), np.float32),
        )
