"""The model that a recipe asks for, and how its pictures and texts must be prepared."""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from torch import nn

from multifold.bundle.point_groups import PointSpec
from multifold.bundle.preprocess import ImageSpec
from multifold.bundle.tokenizer import TextSpec
from training.geometries import build
from training.geometries.base import Geometry
from training.recipes.schema import ImageSection, PointsSection, Recipe, TextSection
from training.towers.assemble import FeatureSpace
from training.towers.base import TowerError
from training.towers.bundled import bundle_geometry, bundle_of
from training.towers.kinds import ImageKind, PointKind, TextKind, TowerContext
from training.towers.tokenizers import TrainedTokenizer

# By side and `kind`: a class in its module, which is imported on demand (open_clip takes seconds).
KINDS: Mapping[str, Mapping[str, str]] = {
    "image": {
        "small": "small.SmallImage",
        "openclip": "openclip.OpenClipImage",
        "bundle": "bundled.BundleImage",
    },
    "text": {
        "small": "small.SmallText",
        "bert": "bert.BertText",
        "openclip": "openclip.OpenClipText",
        "bundle": "bundled.BundleText",
    },
    "points": {"small": "points.SmallPoints", "pointbert": "pointbert.PointBert"},
}


class TwoTowerModel(nn.Module):
    """Two towers and the geometry in which their features meet; perhaps a point tower."""

    def __init__(
        self, image: nn.Module, text: nn.Module, geometry: Geometry, points: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.image = image
        self.text = text
        self.geometry = geometry
        self.points = points


def build_model(recipe: Recipe, vocabulary: int, pretrained: bool = True) -> TwoTowerModel:
    """A fresh model, with pretrained weights if the recipe names them."""
    dim = recipe.geometry.dim
    geometry = _geometry(recipe)
    fetch = cache(lambda name, weights, dim: catalogue().load(name, weights if pretrained else None, dim))
    context = TowerContext(FeatureSpace(geometry, dim), vocabulary, fetch, pretrained)
    image = image_kind(recipe.image).build(recipe.image, context)
    text = text_kind(recipe.text).build(recipe.text, context)
    points = None if recipe.points is None else point_kind(recipe.points).build(recipe.points, context)
    return TwoTowerModel(image, text, geometry, points)


def _geometry(recipe: Recipe) -> Geometry:
    """The recipe's geometry, or its bundle's; nested, it learns how vectors are turned that can be cut."""
    section = recipe.geometry
    bundle = bundle_of(recipe)
    if bundle is not None:
        if recipe.loss.nested:
            raise TowerError(f"the vectors of {bundle} stay what they are: leave nested out of [loss]")
        return bundle_geometry(recipe, bundle)
    geometry = build(section.name, section.dim, **section.params)
    if recipe.loss.nested:
        if recipe.loss.nested[-1] >= section.dim:
            raise TowerError(f"[loss] nested names lengths below the geometry's own, which is {section.dim}")
        geometry.nest()
    return geometry


def fetch_weights(recipe: Recipe) -> None:
    """Look for pretrained weights, before work that is in vain without them."""
    image_kind(recipe.image).find_weights(recipe.image)
    text_kind(recipe.text).find_weights(recipe.text)


def image_spec(section: ImageSection) -> ImageSpec:
    return image_kind(section).spec(section)


def text_spec(section: TextSection, tokenizer: TrainedTokenizer) -> TextSpec:
    return text_kind(section).spec(section, tokenizer)


def point_spec(section: PointsSection) -> PointSpec:
    """How a point tower wants meshes sampled and their points grouped."""
    return point_kind(section).spec(section)


def tokenizer_for(section: TextSection, texts: Iterable[str]) -> TrainedTokenizer:
    """The tower's tokenizer: its model's own, a named one, or one learned from `texts`."""
    return text_kind(section).tokenizer(section, texts)


def image_kind(section: ImageSection) -> ImageKind[Any]:
    kind: ImageKind[Any] = _kind("image", section.kind)
    return kind


def text_kind(section: TextSection) -> TextKind[Any]:
    kind: TextKind[Any] = _kind("text", section.kind)
    return kind


def point_kind(section: PointsSection) -> PointKind[Any]:
    kind: PointKind[Any] = _kind("points", section.kind)
    return kind


def _kind(side: str, named: str) -> Any:  # noqa: ANN401 (a kind of any side)
    module, name = KINDS[side][named].split(".")
    return getattr(import_module(f"training.towers.{module}"), name)()


def catalogue() -> ModuleType:
    """The catalogue of open_clip, imported on demand: that takes seconds."""
    return import_module("training.towers.catalogue")
