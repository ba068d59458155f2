"""A torch model with the interface of an exported encoder, for retrieval while it trains."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float32
from torch import Tensor

from multifold.bundle.encoder import EncodedTexts
from multifold.bundle.tokenizer import Tokenizer
from multifold.types import Features, Metric, PixelBatch, Vector, Vectors
from training.geometries.base import RescoringGeometry
from training.towers import TwoTowerModel

INPUTS_AT_ONCE = 256


class TorchEncoder:
    """Runs the towers in torch, without gradient."""

    def __init__(self, model: TwoTowerModel, tokenizer: Tokenizer) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer

    @property
    def device(self) -> torch.device:
        return _device(self.model)

    @property
    def metric(self) -> Metric:
        return self.model.geometry.metric

    @property
    def query_signs(self) -> Vector | None:
        signs = self.model.geometry.query_signs
        return None if signs is None else signs.cpu().numpy()

    @property
    def rescores(self) -> bool:
        return isinstance(self.model.geometry, RescoringGeometry)

    def rescore(self, query: Vectors, candidates: Float32[np.ndarray, "q k d"]) -> Float32[np.ndarray, "q k"]:
        """The geometry's own similarity of each query's index vector to those of its candidates."""
        geometry = self.model.geometry
        assert isinstance(geometry, RescoringGeometry)
        with torch.inference_mode():
            return np.asarray(geometry.rescore(torch.from_numpy(query), torch.from_numpy(candidates)))

    def pixels(self, batch: PixelBatch) -> Features:
        return _run(self.model.image, batch)

    def grouped_points(self, groups: Float32[np.ndarray, "b g k c"]) -> Features:
        """Features of items by their points."""
        assert self.model.points is not None
        return _run(self.model.points, groups)

    def texts(self, texts: Sequence[str]) -> EncodedTexts:
        tokens = self.tokenizer(texts)
        return EncodedTexts(_run(self.model.text, tokens.ids), tuple(tokens.cut))

    def vectors(self, features: Features) -> Vectors:
        with torch.inference_mode():
            vectors = self.model.geometry.index_vectors(torch.from_numpy(features).to(self.device))
            return np.asarray(vectors.cpu())


def _run(tower: torch.nn.Module, observed: np.ndarray) -> Features:
    with torch.inference_mode():
        device = _device(tower)
        return torch.cat([tower(part.to(device)).cpu() for part in _parts(observed)]).numpy()


def _device(module: torch.nn.Module) -> torch.device:
    """Where its weights lie; the towers of a bundle have none here."""
    weight = next(module.parameters(), None)
    return torch.device("cpu") if weight is None else weight.device


def _parts(observed: np.ndarray) -> Iterator[Tensor]:
    for start in range(0, len(observed), INPUTS_AT_ONCE):
        yield torch.from_numpy(np.array(observed[start : start + INPUTS_AT_ONCE]))
