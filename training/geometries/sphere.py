"""The unit sphere: features are compared by their cosine (CLIP)."""

from math import log

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from training.geometries.base import Geometry, Temperature


class Clip(Geometry):
    """Cosine similarity with CLIP's temperature: 1/0.07 at the start, at most 100."""

    name = "clip"
    metric = "ip"

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.temperature = Temperature(log(1 / 0.07), low=0.0, high=log(100))

    def similarity(self, query: Float[Tensor, "q n"], gallery: Float[Tensor, "g n"]) -> Float[Tensor, "q g"]:
        return self.index_vectors(query) @ self.index_vectors(gallery).T

    def logits(self, query: Float[Tensor, "q n"], gallery: Float[Tensor, "g n"]) -> Float[Tensor, "q g"]:
        scaled: Tensor = self.temperature(self.similarity(query, gallery))
        return scaled

    def index_vectors(self, features: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
        return normalize(features.float(), dim=-1, eps=1e-8)
