"""A backbone's parts, a recipe's wishes and a geometry become a tower."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import nn

from training.geometries.base import Geometry
from training.geometries.lorentz import Lorentz
from training.geometries.oblique import Oblique, ObliqueMulti
from training.geometries.pointcloud import LinearCloud
from training.recipes.schema import OpenClipTextSection, SmallTextSection, TowerSection
from training.towers.base import Tower, TowerError
from training.towers.heads import CloudHead, ModalityScale, ProjectionHead, TowerHead, normal
from training.towers.text import BagTower, Readout, TextParts, TextTower

CausalSection: TypeAlias = SmallTextSection | OpenClipTextSection
Fetch: TypeAlias = Callable[[str, str | None, int], nn.Module]  # model, weights, length of features

WORD, PLACE = 0.02, 0.01  # spread of fresh embeddings and positions in a text, as CLIP has them


@dataclass(frozen=True)
class FeatureSpace:
    """The geometry in which the features of both towers are compared, and its feature length."""

    geometry: Geometry
    dim: int


def head(section: TowerSection, width: int, space: FeatureSpace, own: nn.Module | None = None) -> TowerHead:
    """What reads features from tokens; `own` is a model's own projection of its one class token."""
    hyperbolic = isinstance(space.geometry, Lorentz)
    if section.scale == "none" or (section.scale == "auto" and not hyperbolic):
        return TowerHead(_projection(section, width, space, own), None)
    project = _projection(section, width, space, own)
    return TowerHead(project, ModalityScale(space.dim, clamped=section.scale == "clamped"))


def _projection(section: TowerSection, width: int, space: FeatureSpace, own: nn.Module | None) -> nn.Module:
    geometry = space.geometry
    tokens = section.tokens
    if isinstance(geometry, LinearCloud) != (tokens == "all"):
        raise TowerError("tokens = 'all' and geometries of clouds need each other: cloud_linear, …; set both")
    if isinstance(geometry, LinearCloud):
        return CloudHead(width, space.dim, geometry)
    count = tokens if isinstance(tokens, int) else 1
    spheres = geometry.m if isinstance(geometry, Oblique) else 1
    if count != spheres and (count > 1 or isinstance(geometry, ObliqueMulti)):
        most = f"{geometry.name} takes {spheres} class tokens at most"
        raise TowerError(f"{most}, not {count}; tokens and m must agree")
    if own is not None and tokens == "class":
        return own
    return ProjectionHead(normal(space.dim // count, width, std=width**-0.5))


def text_tower(
    section: CausalSection, parts: TextParts, space: FeatureSpace, own: nn.Module | None
) -> TextTower:
    """A tower over tokens; the treatment of pads is decided here."""
    context, width = parts.positions.shape
    readout = _readout(section, parts)
    tail = None
    tokens = section.tokens
    if isinstance(tokens, int):
        places = torch.cat([parts.positions, normal(tokens, width, std=PLACE)])
        parts, tail = replace(parts, positions=places), normal(tokens, width, std=WORD)
    elif section.pads == "own":
        tail = normal(context - 1, width, std=WORD)
    parts = parts if section.final_norm else replace(parts, norm=nn.Identity())
    return TextTower(parts, readout, tail, head(section, width, space, own))


def set_learning(tower: Tower, section: TowerSection) -> Tower:
    """The tower, the weights that are not trained frozen; activations are checkpointed if wanted."""
    tower.set_checkpointing(section.checkpointing)
    if section.trainable == "all":
        return tower
    if section.trainable == "none":
        return tower.requires_grad_(False)
    blocks = 0 if section.trainable == "head" else section.trainable
    if blocks > tower.depth:
        raise TowerError(f"trainable = {blocks}, but the tower lets {tower.depth} blocks learn alone")
    learning = {id(parameter) for parameter in tower.last(blocks)}
    if not learning:
        raise TowerError("this tower has no head of its own, and nothing would learn; set trainable = 'all'")
    for parameter in tower.parameters():
        parameter.requires_grad_(parameter.requires_grad and id(parameter) in learning)
    return tower


def _readout(section: CausalSection, parts: TextParts) -> Readout:
    """The place where features are read; refused where it needs an end of the text that cannot be found."""
    tokens, pads = section.tokens, section.pads
    if pads != "masked" and tokens != "all":
        raise TowerError(f"pads = {pads!r} is for tokens = 'all': no pad is read otherwise")
    if isinstance(tokens, int) and not (parts.causal and parts.reads == "end"):
        raise TowerError("class tokens are appended to causal towers only; set tokens = 'class' in [text]")
    if tokens == "all" and pads != "kept" and parts.reads == "last":
        raise TowerError("this text tower reads its pads like words; set pads = 'kept' in [text]")
    if tokens == "all":
        return "all but pads" if pads == "masked" else "all"
    return "appended" if isinstance(tokens, int) else parts.reads


def bag_tower(section: SmallTextSection, parts: TextParts, space: FeatureSpace) -> BagTower:
    if section.tokens != "class":
        raise TowerError("a bag of words (depth = 0) is read as a whole: set tokens = 'class' in [text]")
    parts = parts if section.final_norm else replace(parts, norm=nn.Identity())
    return BagTower(parts, head(section, section.width, space))
