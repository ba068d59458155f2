"""Which patches and words made the index score of a checkpoint's model with another vector, by gradients.

grad-cam: what enters the last block, times the gradient of the score there averaged over the places; positive
shares only. Class tokens, and what frames and fills a text, are no places. points: exact, for point clouds,
whose score is a sum over points. `other` is the index vector of the other side, signs applied.
"""

from collections.abc import Sequence
from math import isqrt

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor, nn
from torch.nn.functional import relu

from multifold.analysis.explanation import ExplanationError, HeatMap, WordShares
from multifold.types import ExplanationMethod, Pixels, Vector
from training.geometries.base import Geometry
from training.retrieval.directions import RetrievalEncoder
from training.retrieval.encoder import TorchEncoder
from training.towers.base import Tower
from training.towers.bert import BertTower
from training.towers.heads import CloudHead
from training.towers.image import PatchTower
from training.towers.text import BagTower


class GradientExplainer:
    """Explains the scores of one model."""

    def __init__(self, encoder: RetrievalEncoder, method: ExplanationMethod | None = None) -> None:
        assert isinstance(encoder, TorchEncoder)
        model = encoder.model
        cloud = all(isinstance(getattr(one, "project", None), CloudHead) for one in (model.image, model.text))
        self.method: ExplanationMethod = method or ("points" if cloud else "grad-cam")
        if self.method == "occlusion" or (self.method == "points" and not cloud):
            raise ExplanationError(f"a checkpoint of these towers is not explained by {method}; try grad-cam")
        self.model, self.device = model, encoder.device
        self.tokenizer = encoder.tokenizer

    @property
    def tokens(self) -> int:
        """How many parts of a vector are compared pair by pair."""
        return int(self.model.geometry.stated().get("m", 1))

    def picture(self, square: Pixels, other: Vector) -> HeatMap:
        """The shares of a picture's patches."""
        tower = self.model.image
        seen = torch.from_numpy(square[None].copy())
        if not isinstance(tower, PatchTower):
            raise ExplanationError("these towers have no patches; export a bundle, and explain that")
        count = len(tower.positions)
        classes = 0 if tower.classes is None else len(tower.classes)
        shares = self._shares(tower, seen, other, range(classes, count))
        side = isqrt(len(shares))
        return HeatMap(self.method, shares.reshape(side, side))

    def text(self, text: str, other: Vector) -> WordShares:
        """The shares of a text's words."""
        tower = self.model.text
        words = self.tokenizer.words(text)
        if not isinstance(tower, Tower):
            raise ExplanationError("these towers are those of a bundle: explain that")
        first = tower.count - 1 if isinstance(tower, BertTower) and self.method == "grad-cam" else 0
        places = [first + place for _, held in words for place in held]
        ids = torch.from_numpy(self.tokenizer([text]).ids)
        shares = dict(zip(places, self._shares(tower, ids, other, places).tolist(), strict=True))
        each = ((word, sum(shares[first + place] for place in held)) for word, held in words)
        return WordShares(self.method, tuple(each))

    def _shares(
        self, tower: Tower, observed: Tensor, other: Vector, places: Sequence[int]
    ) -> Float32[np.ndarray, " p"]:
        """Of each of these places."""
        towards, observed = torch.from_numpy(other).to(self.device), observed.to(self.device)
        if self.method == "points":
            with torch.inference_mode():
                shares = (tower.points(observed)[0] @ towards)[[*places]]
        else:
            shares = grad_cam(tower, self.model.geometry, observed, towards, places)
        return np.asarray(shares.cpu(), np.float32)


def grad_cam(
    tower: Tower, geometry: Geometry, observed: Tensor, other: Float[Tensor, " d"], places: Sequence[int]
) -> Float[Tensor, " p"]:
    """The positive shares of these places of one picture or text; of a bag, what each word adds."""
    held: list[Tensor] = []

    def hold(value: Tensor) -> Tensor:
        held.append(value.detach().requires_grad_())
        return held[0]

    def hold_entering(_block: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (hold(given[0]), *given[1:])

    def hold_embedded(_embed: nn.Module, _given: tuple[Tensor, ...], out: Tensor) -> Tensor:
        return hold(out)

    bag = isinstance(tower, BagTower)
    if bag:
        hook = tower.get_submodule("embed").register_forward_hook(hold_embedded)
    else:
        hook = tower.blocks[-1].register_forward_pre_hook(hold_entering)
    try:
        vector = geometry.index_vectors(tower(observed))[0]
    finally:
        hook.remove()
    score = vector @ other if geometry.metric == "ip" else -(vector - other).square().sum()
    (gradient,) = torch.autograd.grad(score, held[0])
    seen = held[0].detach()[0, [*places]]
    slope = gradient[0, [*places]]
    return relu((seen * (slope if bag else slope.mean(0))).sum(1))
