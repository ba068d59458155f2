"""Several models before the cameras of one rig, as tensors. A *pair* is a face in a view.

Legend: n vertices · f faces · q pairs · t textures, of all models.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int64
from torch import Tensor

from renderers.cameras import Rig
from renderers.kernels.packed import looks_of, shape_of, textures_in
from renderers.light import lamps
from renderers.model import Model
from renderers.pixels import PIXEL
from renderers.raster import project
from renderers.software import depth_range, opacity_of


@dataclass(frozen=True, eq=False)
class Batch:
    """Everything that is drawn together."""

    device: torch.device
    views: int  # of all models
    side: int  # of a view, in samples
    depths: tuple[float, float]
    vertices: Float32[Tensor, "n 3"]
    faces: Int64[Tensor, "f 3"]
    normals: Float32[Tensor, "f 3 3"]
    uv: Float32[Tensor, "2 n 2"]  # both sets
    colors: Float32[Tensor, "n 4"]
    material_of: Int64[Tensor, " f"]
    opacity_of: Int64[Tensor, " m"]
    colored: Bool[Tensor, " m"]  # whether vertices of its model have colours of their own
    materials: Float32[Tensor, "m 11"]
    textures_of: Int64[Tensor, "m 5"]
    texels: Float32[Tensor, " x"]
    maps: Int64[Tensor, "t 8"]  # as packed.Looks has them, but the first column counts floats in `texels`
    moves: Float32[Tensor, "t 8"]
    levels: Int64[Tensor, "t l 3"]
    lights: Float32[Tensor, "v 9"]
    screen: Float64[Tensor, "p 3"]  # the corners of models in views, model after model, view after view
    pair_view: Int64[Tensor, " q"]
    pair_face: Int64[Tensor, " q"]
    pair_corners: Int64[Tensor, "q 3"]  # rows of `screen`


def batch_of(models: Sequence[Model], rig: Rig, size: int, device: torch.device) -> Batch:
    """These models on a device, each seen by every camera."""
    side, views = size * PIXEL, len(rig)
    screens = [project(model.vertices, rig.poses, rig.fov_degrees, side) for model in models]
    lights = np.concatenate([rig.poses[:, :3, 3].T.astype(np.float32), *lamps(rig.poses)]).T
    arrays = {name: np.concatenate(parts) for name, parts in _parts(models, screens, views).items()}
    tables = _tables(models)
    on_device = {
        name: torch.from_numpy(_wide(np.ascontiguousarray(one))).to(device)
        for name, one in {**arrays, **tables, "lights": np.tile(lights, (len(models), 1))}.items()
    }
    uv = torch.stack([on_device.pop("uv"), on_device.pop("uv1")])
    return Batch(device, len(models) * views, side, depth_range(rig), uv=uv, **on_device)


def _wide(array: np.ndarray) -> np.ndarray:
    """Whole numbers as torch indexes by."""
    return array.astype(np.int64) if array.dtype.kind in "iu" else array


def _parts(models: Sequence[Model], screens: Sequence[np.ndarray], views: int) -> dict[str, list[np.ndarray]]:
    """Geometry and pairs of each model, numbered over all of them."""
    parts: dict[str, list[np.ndarray]] = {}
    vertex = face = material = corner = 0
    for number, (model, screen) in enumerate(zip(models, screens, strict=True)):
        shape, count = shape_of(model), len(model.vertices)
        shown = np.arange(views)[:, None, None] * count + model.faces
        own = {
            **shape._asdict(),
            "faces": model.faces + vertex,
            "material_of": model.material_of + material,
            "screen": screen.reshape(-1, 3),
            "pair_view": np.repeat(np.arange(views) + number * views, len(model.faces)),
            "pair_face": np.tile(np.arange(len(model.faces)) + face, views),
            "pair_corners": shown.reshape(-1, 3) + corner,
        }
        for name, array in own.items():
            parts.setdefault(name, []).append(array)
        vertex, face = vertex + count, face + len(model.faces)
        material, corner = material + len(model.materials), corner + views * count
    return parts


def _tables(models: Sequence[Model]) -> dict[str, np.ndarray]:
    """The looks of all models as one, and all texels in one row."""
    materials = tuple(material for model in models for material in model.materials)
    opacities = [opacity_of(model, material) for model in models for material in model.materials]
    every = replace(models[0], materials=materials)
    textures = textures_in(every)
    looks = looks_of(every, textures, opacities)._asdict()
    sizes = [texture.texels.size for texture in textures]
    looks["maps"][:, 0] = np.cumsum([0, *sizes])[:-1]
    texels = [np.zeros(1, np.float32), *(texture.texels.ravel() for texture in textures)]
    looks["maps"][:, 0] += 1
    colored = np.repeat([model.colored for model in models], [len(model.materials) for model in models])
    return {**looks, "colored": colored, "texels": np.concatenate(texels)}


def chosen(batch: Batch, opacity: int) -> Int64[Tensor, " c"]:
    """The pairs whose faces have this opacity."""
    found: Tensor = torch.nonzero(batch.opacity_of[batch.material_of[batch.pair_face]] == opacity)[:, 0]
    return found
