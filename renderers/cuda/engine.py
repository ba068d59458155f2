"""The engine: batches of models in, views out."""

from collections.abc import Sequence

import numpy as np

from multifold.errors import needs_extra
from renderers.backdrop import Background, channels, laid_on
from renderers.base import EngineError, Views, check_size
from renderers.cameras import Rig
from renderers.cuda.batch import Batch, batch_of
from renderers.cuda.glass import draw_cut_outs, glass
from renderers.cuda.samples import corners_of, draw_nearest, mean_of, rows_of, seen_in
from renderers.cuda.surface import shade
from renderers.kernels.packed import CLEAR, CUT, SOLID
from renderers.model import Model

with needs_extra("train"):
    import torch


class CudaRenderer:
    """Draws with torch, on a GPU unless told otherwise."""

    name = "cuda"
    version = "2"

    def __init__(self, device: str = "cuda") -> None:
        if device.startswith("cuda") and not torch.cuda.is_available():
            raise EngineError("torch finds no CUDA GPU on this machine.")
        self._device = torch.device(device)

    def render(self, model: Model, rig: Rig, size: int = 224, background: Background = "white") -> Views:
        """One square sRGB picture for each pose of the rig."""
        return self.render_many([model], rig, size, background)[0]

    def render_many(
        self, models: Sequence[Model], rig: Rig, size: int = 224, background: Background = "white"
    ) -> list[Views]:
        """The views of several models, drawn together."""
        check_size(size)
        with torch.inference_mode():
            seen, rest, veil = _draw(batch_of(models, rig, size, self._device))
        pixels = laid_on(background, seen.cpu().numpy(), rest.cpu().numpy(), veil.cpu().numpy())
        shape = (len(models), len(rig), size, size, channels(background))
        return [np.ascontiguousarray(views) for views in pixels.reshape(shape)]


def _draw(batch: Batch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The light of every pixel, the share of the background, and what glass adds."""
    keys = torch.zeros(batch.views * batch.side**2, dtype=torch.int64, device=batch.device)
    draw_nearest(keys, rows_of(batch, SOLID))
    draw_cut_outs(batch, keys, rows_of(batch, CUT))
    through, veil = glass(batch, keys, rows_of(batch, CLEAR))
    seen, free = seen_in(batch, keys), corners_of(keys, batch) == 0
    light = shade(batch, seen.fragments)[:3] * mean_of(seen.shown * through[:, seen.pixel])
    sums = torch.zeros((free.shape[1], 3), dtype=torch.float64, device=batch.device)
    sums.index_add_(0, seen.pixel, light.double().T)
    return sums.float(), mean_of(free * through), veil
