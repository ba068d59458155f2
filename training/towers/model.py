"""The model that a recipe asks for."""

from functools import cache
from importlib import import_module
from types import ModuleType

from torch import nn

from training.geometries import build
from training.geometries.base import Geometry
from training.recipes.schema import (
    BertTextSection,
    OpenClipImageSection,
    OpenClipTextSection,
    Recipe,
    SmallImageSection,
    SmallTextSection,
)
from training.towers import small
from training.towers.assemble import FeatureSpace, Fetch, head, patch_tower, scale, set_learning, text_tower
from training.towers.base import Tower
from training.towers.bert import BertTower


class TwoTowerModel(nn.Module):
    """Two towers and the geometry in which their features meet."""

    def __init__(self, image: nn.Module, text: nn.Module, geometry: Geometry) -> None:
        super().__init__()
        self.image, self.text, self.geometry = image, text, geometry


def build_model(recipe: Recipe, vocabulary: int, pretrained: bool = True) -> TwoTowerModel:
    """A fresh model, with pretrained weights if the recipe names them."""
    dim = recipe.geometry.dim
    meeting = FeatureSpace(build(recipe.geometry.name, dim, **recipe.geometry.params), dim)
    fetch = cache(lambda name, weights, dim: catalogue().load(name, weights if pretrained else None, dim))
    image = _image_tower(recipe.image, meeting, fetch)
    text = _text_tower(recipe.text, vocabulary, meeting, fetch)
    set_learning(image, recipe.image)
    set_learning(text, recipe.text)
    return TwoTowerModel(image, text, meeting.geometry)


def catalogue() -> ModuleType:
    """The catalogue of open_clip, imported on demand: that takes seconds."""
    return import_module("training.towers.catalogue")


def _openclip() -> ModuleType:
    return import_module("training.towers.openclip")


def _image_tower(
    section: SmallImageSection | OpenClipImageSection, meeting: FeatureSpace, fetch: Fetch
) -> Tower:
    if isinstance(section, OpenClipImageSection):
        tower: Tower = _openclip().image_tower(section, meeting, fetch)
        return tower
    classes = section.tokens if isinstance(section.tokens, int) else 0
    return patch_tower(section, small.image_spec(section), small.image_parts(section, classes), meeting)


def _text_tower(
    section: SmallTextSection | BertTextSection | OpenClipTextSection,
    vocabulary: int,
    meeting: FeatureSpace,
    fetch: Fetch,
) -> Tower:
    if isinstance(section, OpenClipTextSection):
        tower: Tower = _openclip().text_tower(section, vocabulary, meeting, fetch)
        return tower
    if isinstance(section, BertTextSection):
        project = head(section, section.width, meeting)
        return BertTower(section, vocabulary, project, scale(section, meeting))
    return text_tower(section, small.text_parts(section, vocabulary), meeting)
