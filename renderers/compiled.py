"""The software renderer, compiled by numba: the same pixels as `renderers.software`, many times faster."""

import functools
from typing import get_args

import numpy as np
from jaxtyping import UInt8

from renderers.backdrop import Background, channels
from renderers.base import Views, check_size
from renderers.cameras import Rig
from renderers.errors import MeshError
from renderers.glass import MOST_FRAGMENTS, MOST_LAYERS, TOO_MANY_CLEAR
from renderers.kernels import view
from renderers.kernels.packed import CLEAR, addresses, looks_of, room_for, scratch_for, shape_of, textures_in
from renderers.light import lamps
from renderers.model import Model
from renderers.pixels import PIXEL
from renderers.raster import TOO_MANY_LARGE, zoom_of
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
            drawing.draw(number, background, views[number])
        return views


@functools.cache
def _entries() -> tuple[view.See, view.Paint]:
    return view.entries()


class _Drawing:
    """One model before the cameras of a rig: the arrays that kernels read, and room for what they write."""

    def __init__(self, see: view.See, paint: view.Paint, model: Model, rig: Rig, size: int) -> None:
        self._see, self._paint, self._rig, self._size = see, paint, rig, size
        opacities = [opacity_of(model, material) for material in model.materials]
        self._textures = textures_in(model)
        self._shape, self._looks = shape_of(model), looks_of(model, self._textures, opacities)
        self._scratch = scratch_for(model, size)
        self._at = addresses(self._shape, self._looks, self._scratch)
        self._starts = np.empty((size * PIXEL) ** 2 + 1 if CLEAR in opacities else 0, np.int64)
        self._lights = np.concatenate([rig.poses[:, :3, 3].T.astype(np.float32), *lamps(rig.poses)]).T
        sets = 1 if model.uv1 is None else 2
        counts = len(model.vertices), len(model.faces), size * PIXEL
        self._numbers = (*counts, sets, model.colored, *depth_range(rig))

    def draw(self, number: int, background: Background, picture: UInt8[np.ndarray, "h w c"]) -> None:
        """Fill in the view of one camera."""
        self._look_from(number)
        layers, most = self._seen()
        in_row, glass = min(most, self._size * MOST_LAYERS), len(self._starts) > 0
        room = room_for(self._size, in_row, layers, self._starts)
        behind = get_args(Background).index(background)
        self._paint(self._at, self._numbers, addresses(room), picture.ctypes.data, glass, behind)

    def _look_from(self, number: int) -> None:
        pose, zoom = self._rig.poses[number], zoom_of(self._rig.fov_degrees, self._size * PIXEL)
        self._scratch.camera[:] = [*pose[:3, 3], *pose[:3, :3].ravel(), zoom]
        self._scratch.lights[:] = self._lights[number]

    def _seen(self) -> tuple[int, int]:
        """Settle what is nearest; gives how many see-through fragments there are, in all and in one row."""
        total, most = self._see(self._at, self._numbers, self._starts.ctypes.data if len(self._starts) else 0)
        if total == view.TOO_MANY_LARGE:
            raise MeshError(TOO_MANY_LARGE)
        if total > MOST_FRAGMENTS:
            raise MeshError(TOO_MANY_CLEAR)
        return total, most
