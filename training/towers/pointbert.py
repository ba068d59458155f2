"""PointBERT as OpenShape publishes it: 10,000 coloured points in 64 groups, 12 blocks, in CLIP's space.

A published file is a table of weights. Those of the point encoder begin with `pc_encoder.`; the encoder in
the space of ViT-L/14 has them below `ppat.`, and a projection beside it. Every name and shape is checked.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from pickle import UnpicklingError

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import relu

from multifold.bundle.point_groups import PointSpec
from training.recipes.schema import PointBertSection
from training.towers.assemble import FeatureSpace, head, set_learning
from training.towers.base import BlockStack, Tower, TowerError
from training.towers.heads import IdentityHead, ProjectionHead, TowerHead, normal
from training.towers.kinds import PointKind, TowerContext
from training.towers.points import Groups, middles_of
from training.towers.small import TransformerBlock

WIDTH, DEPTH, HEADS, FACTOR = 512, 12, 8, 2
STEM = (9, 64, 64, 128)
LENGTHS = {"vit-b-32": 512, "vit-l-14": 768}  # of features; the first is the width, without a projection
PREFIX = "pc_encoder."


class PointBertTower(Tower):
    """Groups become tokens by shared layers with fixed statistics; a class token is read at the end."""

    def __init__(self, head: TowerHead) -> None:
        super().__init__()
        self.stem = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(STEM))
        self.stem_norms = nn.ModuleList(nn.BatchNorm1d(width) for width in STEM[1:])
        self.lift = nn.Linear(STEM[-1] + 3, WIDTH)
        self.before = nn.LayerNorm(WIDTH)
        self.classes = nn.Parameter(normal(1, WIDTH, std=1.0))
        blocks = (TransformerBlock(WIDTH, HEADS, FACTOR, qkv_bias=False) for _ in range(DEPTH))
        self.blocks = BlockStack(blocks)
        self.norm = nn.Identity()
        self.project, self.scale = head
        self.train()

    def train(self, mode: bool = True) -> "PointBertTower":
        """Train or eval mode; the statistics of the stem do not change."""
        super().train(mode)
        self.stem_norms.eval()
        return self

    def tokens(self, observed: Groups) -> tuple[Float[Tensor, "b 1 w"], Bool[Tensor, "b 1"]]:
        x = observed
        for layer, norm in zip(self.stem, self.stem_norms, strict=True):
            x = relu(norm(layer(x).flatten(0, 2)).unflatten(0, observed.shape[:3]))
        x = self.before(self.lift(torch.cat([middles_of(observed), x.amax(2)], dim=2)))
        x = torch.cat([self.classes.expand(x.shape[0], -1, -1), x], dim=1)
        first = torch.zeros(x.shape[0], 1, dtype=torch.int64, device=x.device)
        x = self.norm(self.blocks(x, None, first))
        return x, torch.ones_like(x[:, :, 0], dtype=torch.bool)


def point_tower(section: PointBertSection, space: FeatureSpace, pretrained: bool) -> Tower:
    """The published architecture, its weights read from a file if the recipe names one."""
    length = LENGTHS[section.clip]
    if section.tokens != "class" or not section.final_norm:
        raise TowerError("PointBERT is read at its class token: leave tokens and final_norm as they are")
    if space.dim != length:
        makes = f"PointBERT in the space of {section.clip} makes features of length {length}"
        raise TowerError(f"{makes}, not {space.dim}; set dim = {length} in [geometry]")
    own = IdentityHead() if length == WIDTH else _projection(length)
    tower = PointBertTower(head(section, WIDTH, space, own))
    if section.pretrained is not None and pretrained:
        load_published(tower, Path(section.pretrained), section.clip)
    return tower


def _projection(length: int) -> ProjectionHead:
    return ProjectionHead(normal(length, WIDTH, std=WIDTH**-0.5), torch.zeros(length))


@dataclass(frozen=True)
class PublishedWeight:
    """Where a weight of ours stands in the published file, and in which shape."""

    name: str
    shape: tuple[int, ...]


def published_weights(tower: PointBertTower, clip: str) -> dict[str, PublishedWeight]:
    """Our names -> those of the published file, for every weight but the counters of the statistics."""
    inner = PREFIX if LENGTHS[clip] == WIDTH else f"{PREFIX}ppat."
    table: dict[str, str] = {"classes": f"{inner}cls_token", "lift.weight": f"{inner}lift.0.weight"}
    table |= {"lift.bias": f"{inner}lift.0.bias"}
    table |= {f"before.{part}": f"{inner}lift.2.{part}" for part in ("weight", "bias")}
    for layer in range(len(STEM) - 1):
        table |= {
            f"stem.{layer}.{part}": f"{inner}sa.mlp_convs.{layer}.{part}" for part in ("weight", "bias")
        }
        for part in ("weight", "bias", "running_mean", "running_var"):
            table[f"stem_norms.{layer}.{part}"] = f"{inner}sa.mlp_bns.{layer}.{part}"
    names = {
        "before_attention": "0.norm",
        "qkv": "0.fn.to_qkv",
        "out": "0.fn.to_out.0",
        "before_mlp": "1.norm",
        "widen": "1.fn.net.0",
        "narrow": "1.fn.net.3",
    }
    for block in range(DEPTH):
        for ours, theirs in names.items():
            for part in ("weight", "bias")[: 1 if ours == "qkv" else 2]:
                table[f"blocks.{block}.{ours}.{part}"] = f"{inner}transformer.layers.{block}.{theirs}.{part}"
    if LENGTHS[clip] != WIDTH:
        table |= {f"project.{part}": f"{PREFIX}proj.{part}" for part in ("weight", "bias")}
    state = tower.state_dict()
    return {ours: PublishedWeight(theirs, _shape(ours, state[ours])) for ours, theirs in table.items()}


def _shape(name: str, weight: Tensor) -> tuple[int, ...]:
    """The published shape: layers over points are convolutions there, and the class token is no row."""
    if name == "classes":
        return tuple(weight.shape[1:])
    convolved = {"stem": (1, 1), "lift": (1,)}.get(name.partition(".")[0], ())
    return (*weight.shape, *convolved) if weight.ndim == 2 else tuple(weight.shape)


def load_published(tower: PointBertTower, path: Path, clip: str) -> None:
    """Fill the tower with the weights of a published file; nothing in the file is executed."""
    stored = {name: weight for name, weight in _read(path).items() if name.startswith(PREFIX)}
    wanted = published_weights(tower, clip)
    state = tower.state_dict()
    counters = {name for name in stored if name.endswith("num_batches_tracked")}
    named = {weight.name for weight in wanted.values()}
    if lacking := sorted(named - stored.keys()):
        raise TowerError(f"{path} is no PointBERT of OpenShape for {clip}: it lacks {lacking[0]}")
    if unknown := sorted(stored.keys() - named - counters):
        raise TowerError(f"{path} is no PointBERT of OpenShape for {clip}: {unknown[0]} is unknown there")
    for ours, weight in wanted.items():
        there = tuple(stored[weight.name].shape)
        if there != weight.shape:
            raise TowerError(f"{path}: {weight.name} has the shape {there}, and not {weight.shape}")
        if not torch.isfinite(stored[weight.name]).all():
            raise TowerError(f"{path}: {weight.name} holds numbers that are not finite")
        state[ours].copy_(stored[weight.name].reshape(state[ours].shape))


def _read(path: Path) -> Mapping[str, Tensor]:
    """The table of weights in a file."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        table = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise TowerError(
            f"there is no file {path}; fetch OpenShape's model.pt elsewhere and name it"
        ) from None
    except Exception as error:  # a file may hold anything
        known = isinstance(error, (RuntimeError, EOFError, UnpicklingError, ValueError, OSError))
        reason = "it is damaged, or holds more than weights" if known else type(error).__name__
        raise TowerError(f"{path} cannot be read as weights: {reason}") from error
    if not isinstance(table, dict) or not all(isinstance(one, Tensor) for one in table.values()):
        raise TowerError(f"{path} is no table of weights")
    return table


class PointBert(PointKind[PointBertSection]):
    def build(self, section: PointBertSection, context: TowerContext) -> Tower:
        return set_learning(point_tower(section, context.space, context.pretrained), section)

    def spec(self, _section: PointBertSection) -> PointSpec:
        return PointSpec(10_000, 64, 256, 0.4, normals=False, colors=True, middle="mean")
