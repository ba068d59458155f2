"""Towers of a bundle, which do not learn: what is trained beside them meets the features that they serve."""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from multifold.bundle.bundle import ViewSpec
from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import Encoder
from multifold.bundle.preprocess import ImageSpec
from multifold.bundle.tokenizer import TextSpec
from training.geometries import build
from training.geometries.base import Geometry
from training.recipes.schema import BundleSection, Recipe
from training.towers.base import TowerError
from training.towers.kinds import ImageKind, TextKind, TowerContext
from training.towers.tokenizers import TrainedTokenizer

ALIKE = 1e-4  # how far index vectors of the recipe's geometry may be from those of the bundle


class BundleTower(nn.Module):
    """One side of a bundle. A checkpoint has none of its weights, but the `vector_id` of the bundle."""

    def __init__(self, bundle: str, side: Literal["image", "text"]) -> None:
        super().__init__()
        encoder = opened(bundle)
        self.bundle = bundle
        self.vector_id = encoder.vector_id
        self.encode = encoder.pixels if side == "image" else encoder.tokens

    def forward(self, observed: Tensor) -> Float[Tensor, "b n"]:
        """The features of pixels or tokens."""
        return torch.from_numpy(self.encode(observed.cpu().numpy())).to(observed.device)

    def get_extra_state(self) -> Tensor:
        return torch.tensor(list(self.vector_id.encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Refuse a bundle that has other towers than that which the checkpoint was trained beside."""
        trained = bytes(state.tolist()).decode()
        if trained != self.vector_id:
            there = f"{self.bundle} has the vectors {self.vector_id}"
            raise TowerError(f"{there}, and this was trained beside {trained}")


@lru_cache(maxsize=1)
def opened(bundle: str) -> Encoder:
    """The encoder of a bundle: images and texts share it."""
    return open_encoder(Path(bundle), torch.get_num_threads())


def bundle_of(recipe: Recipe) -> str | None:
    """The bundle whose towers a recipe has in the place of its own, if it has."""
    sections = (recipe.image, recipe.text)
    named = {one.bundle if isinstance(one, BundleSection) else None for one in sections}
    if len(named) > 1:
        raise TowerError("towers of a bundle go together: [image] and [text] must name the same one")
    return named.pop()


def bundle_geometry(recipe: Recipe, bundle: str) -> Geometry:
    """The recipe's geometry, with the numbers that the bundle states; it must make the bundle's vectors."""
    encoder = opened(bundle)
    section = recipe.geometry
    stated = encoder.bundle.geometry
    params = {**stated.params, **section.params} if section.name == stated.name else section.params
    geometry = build(section.name, section.dim, **params)
    kinds = [(one.feature_dim, one.dim, one.metric) for one in (geometry, stated)]
    if kinds[0] == kinds[1]:
        if encoder.bundle.prefixes:
            geometry.nest().adopt(torch.from_numpy(encoder.vectors(np.eye(section.dim, dtype=np.float32))))
        geometry.eval()
        features = torch.randn(4, stated.feature_dim, generator=torch.Generator().manual_seed(0))
        with torch.inference_mode():
            ours = geometry.index_vectors(features)
        if torch.allclose(ours, torch.from_numpy(encoder.vectors(features.numpy())), atol=ALIKE):
            return geometry
    wanted = f"name = '{stated.name}', dim = {stated.feature_dim}"
    raise TowerError(f"[geometry] is not that of {bundle}, which has {wanted}")


class BundleImage(ImageKind[BundleSection]):
    def build(self, section: BundleSection, _context: TowerContext) -> nn.Module:
        return BundleTower(section.bundle, "image")

    def spec(self, section: BundleSection) -> ImageSpec:
        return opened(section.bundle).bundle.image


class BundleText(TextKind[BundleSection]):
    def build(self, section: BundleSection, _context: TowerContext) -> nn.Module:
        return BundleTower(section.bundle, "text")

    def spec(self, section: BundleSection, _tokenizer: TrainedTokenizer) -> TextSpec:
        return opened(section.bundle).bundle.text

    def tokenizer(self, section: BundleSection, _texts: Iterable[str]) -> TrainedTokenizer:
        bundle = opened(section.bundle).bundle
        definition = bundle.path("tokenizer.json").read_text(encoding="utf-8")
        spec = bundle.text
        return TrainedTokenizer(definition, spec.start, spec.end, spec.pad, spec.cleaning)


def bundle_views(recipe: Recipe, bundle: str) -> ViewSpec:
    """How a bundle wants shapes drawn, if the recipe says the same."""
    views = opened(bundle).bundle.views
    for name, value in recipe.views.model_dump().items():
        if (stated := getattr(views, name)) != value:
            raise TowerError(f"[views] {name} = {value!r}, and {bundle} was made with {stated!r}")
    return views
