"""The model that a recipe asks for, and how its pictures and texts must be prepared."""

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Literal

from torch import nn

from multifold.bundle.preprocess import ImageSpec
from multifold.bundle.tokenizer import TextSpec
from training.geometries import build
from training.geometries.base import Geometry
from training.recipes.schema import (
    BertTextSection,
    BundleSection,
    ImageSection,
    OpenClipImageSection,
    OpenClipTextSection,
    PointBertSection,
    PointsSection,
    Recipe,
    SmallImageSection,
    SmallTextSection,
    TextSection,
    TowerSection,
)
from training.towers import pointbert, small
from training.towers.assemble import FeatureSpace, Fetch, bag_tower, head, set_learning, text_tower
from training.towers.base import Tower, TowerError
from training.towers.bert import PAD, BertTower
from training.towers.bundled import BundleTower, bundle_geometry, bundle_of, bundle_tokenizer, opened
from training.towers.image import PatchTower
from training.towers.points import GroupTower, point_spec
from training.towers.tokenizers import (
    TrainedTokenizer,
    clip_tokenizer,
    read_definition,
    reader_tokenizer,
    train_definition,
)


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
    dim, bundle = recipe.geometry.dim, bundle_of(recipe)
    if bundle is None:
        space = FeatureSpace(build(recipe.geometry.name, dim, **recipe.geometry.params), dim)
    else:
        space = FeatureSpace(bundle_geometry(recipe, bundle), dim)
    if recipe.loss.nested:
        _nest(space.geometry, recipe, bundle)
    fetch = cache(lambda name, weights, dim: catalogue().load(name, weights if pretrained else None, dim))
    image = _image_tower(recipe.image, space, fetch)
    text = _text_tower(recipe.text, vocabulary, space, fetch, pretrained)
    for tower, section in ((image, recipe.image), (text, recipe.text)):
        if isinstance(tower, Tower) and isinstance(section, TowerSection):
            set_learning(tower, section)
    points = None if recipe.points is None else _point_tower(recipe.points, space, pretrained)
    return TwoTowerModel(image, text, space.geometry, points)


def _nest(geometry: Geometry, recipe: Recipe, bundle: str | None) -> None:
    """Let the geometry learn how vectors are turned that can be cut."""
    if bundle is not None:
        raise TowerError(f"the vectors of {bundle} stay what they are: leave nested out of [loss]")
    if recipe.loss.nested[-1] >= recipe.geometry.dim:
        raise TowerError(
            f"[loss] nested names lengths below the geometry's own, which is {recipe.geometry.dim}"
        )
    geometry.nest()


def fetch_weights(recipe: Recipe) -> None:
    """Look for pretrained weights, before work that is in vain without them."""
    for section in (recipe.image, recipe.text):
        if isinstance(section, OpenClipImageSection | OpenClipTextSection) and section.pretrained:
            catalogue().find_weights(section.model, section.pretrained)
    if isinstance(recipe.text, SmallTextSection):
        small.word_vectors(recipe.text)


def catalogue() -> ModuleType:
    """The catalogue of open_clip, imported on demand: that takes seconds."""
    return import_module("training.towers.catalogue")


def _image_tower(section: ImageSection, space: FeatureSpace, fetch: Fetch) -> nn.Module:
    if isinstance(section, BundleSection):
        return BundleTower(section.bundle, "image")
    if isinstance(section, OpenClipImageSection):
        from training.towers import openclip

        return openclip.image_tower(section, space, fetch)
    classes = section.tokens if isinstance(section.tokens, int) else 0
    parts = small.image_parts(section, classes)
    return PatchTower(section, small.image_spec(section), parts, head(section, section.width, space))


def _text_tower(
    section: TextSection, vocabulary: int, space: FeatureSpace, fetch: Fetch, pretrained: bool
) -> nn.Module:
    if isinstance(section, BundleSection):
        return BundleTower(section.bundle, "text")
    if isinstance(section, OpenClipTextSection):
        from training.towers import openclip

        return openclip.text_tower(section, vocabulary, space, fetch)
    if isinstance(section, BertTextSection):
        return BertTower(section, vocabulary, head(section, section.width, space))
    words = small.word_vectors(section) if pretrained else None
    parts = small.text_parts(section, vocabulary, words)
    if section.depth == 0:
        return bag_tower(section, parts, space)
    return text_tower(section, parts, space, None)


def _point_tower(section: PointsSection, space: FeatureSpace, pretrained: bool) -> Tower:
    if isinstance(section, PointBertSection):
        tower: Tower = pointbert.point_tower(section, space, pretrained)
    elif section.tokens != "class":
        raise TowerError("a small point tower is read as a whole: set tokens = 'class' in [points]")
    else:
        tower = GroupTower(section, point_spec(section), head(section, section.width, space))
    set_learning(tower, section)
    return tower


def image_spec(section: ImageSection) -> ImageSpec:
    if isinstance(section, SmallImageSection):
        return small.image_spec(section)
    if isinstance(section, BundleSection):
        return opened(section.bundle).bundle.image
    spec: ImageSpec = catalogue().image_spec(section)
    return spec


def text_spec(section: TextSection, tokenizer: TrainedTokenizer) -> TextSpec:
    if isinstance(section, BundleSection):
        return opened(section.bundle).bundle.text
    return TextSpec(
        cleaning=tokenizer.cleaning,
        context=section.context,
        start=tokenizer.start,
        end=tokenizer.end,
        pad=tokenizer.pad,
        length=_length(section),
    )


def tokenizer_for(section: TextSection, texts: Iterable[str]) -> TrainedTokenizer:
    """The tower's tokenizer: its model's own, a named one, or one learned from `texts`."""
    if isinstance(section, OpenClipTextSection):
        return _own_tokenizer(section)
    if isinstance(section, BundleSection):
        return bundle_tokenizer(section.bundle)
    if isinstance(section, SmallTextSection) and section.words is not None:
        return reader_tokenizer(Path(section.words))
    if isinstance(section, SmallTextSection) or section.tokenizer is None:
        return train_definition(texts, section.vocabulary)
    named = read_definition(Path(section.tokenizer), "bert")
    if named.start is None or named.pad != PAD:
        raise TowerError(f"{section.tokenizer} is not BERT's kind: a class id in front, and {PAD} as its pad")
    return named


def _own_tokenizer(section: OpenClipTextSection) -> TrainedTokenizer:
    cleaning = catalogue().cleaning(section.model)
    if cleaning == "clip":
        if section.tokenizer is not None:
            raise TowerError(f"{section.model} reads with CLIP's tokenizer; remove tokenizer from [text]")
        return clip_tokenizer()
    if section.tokenizer is None:
        reads = f"{section.model} does not read as CLIP does"
        raise TowerError(f"{reads}; name its tokenizer.json: tokenizer = 'FILE'")
    return read_definition(Path(section.tokenizer), cleaning)


def _length(section: SmallTextSection | BertTextSection | OpenClipTextSection) -> Literal["dynamic", "fixed"]:
    """Only where the end of the text is read by a causal tower, what comes after it may be cut."""
    if section.tokens != "class" or isinstance(section, BertTextSection):
        return "fixed"
    causal = isinstance(section, SmallTextSection) or catalogue().reads_to_the_end(section.model)
    return "dynamic" if causal else "fixed"
