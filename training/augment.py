"""Pictures turned, mirrored and cut: one affine map a picture, borders repeated.

A mirrored chair has its left leg on the right: `mirror` is for captions that never say left or right.
"""

import numpy as np
import torch
from jaxtyping import Float32, UInt8
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from training.recipe import Augment


def places(wanted: Augment, count: int, rng: np.random.Generator) -> Float32[Tensor, "b 2 3"] | None:
    """For each picture, where its pixels are taken from: coordinates run from −1 to 1."""
    if wanted == Augment():
        return None
    angle = np.deg2rad(rng.uniform(-wanted.turn, wanted.turn, count))
    across = np.where(wanted.mirror & (rng.random(count) < 0.5), -1, 1)
    down = np.where(wanted.upside_down & (rng.random(count) < 0.5), -1, 1)
    room = 1 - 1 / wanted.zoom
    offsets = rng.uniform(-room, room, (2, count))
    cos, sin = np.cos(angle) / wanted.zoom, np.sin(angle) / wanted.zoom
    rows = np.array([[across * cos, -down * sin, offsets[0]], [across * sin, down * cos, offsets[1]]])
    return torch.from_numpy(rows.transpose(2, 0, 1).astype(np.float32))


def moved(pixels: UInt8[Tensor, "b h w 3"], where: Float32[Tensor, "b 2 3"]) -> UInt8[Tensor, "b h w 3"]:
    """The pictures as they are seen through these maps."""
    planes = pixels.permute(0, 3, 1, 2).float()
    grid = affine_grid(where, list(planes.shape), align_corners=False)
    seen = grid_sample(planes, grid, mode="bilinear", padding_mode="border", align_corners=False)
    return seen.permute(0, 2, 3, 1).add(0.5).clamp(0, 255).to(torch.uint8).contiguous()
