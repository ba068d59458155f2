"""Towers made of open_clip's models."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from multifold.bundle.preprocess import ImageSpec
from multifold.bundle.tokenizer import TextSpec
from multifold.errors import needs_extra
from training.recipes.schema import OpenClipImageSection, OpenClipTextSection
from training.towers import catalogue
from training.towers.assemble import head, set_learning, text_tower
from training.towers.base import BlockStack, Tower, TowerError
from training.towers.heads import IdentityHead, ProjectionHead, normal
from training.towers.image import ImageParts, PatchTower, WholeTower
from training.towers.kinds import ImageKind, TextKind, TowerContext, text_spec
from training.towers.text import TextParts
from training.towers.tokenizers import TrainedTokenizer, clip_tokenizer, read_definition

with needs_extra("train"):
    import open_clip


class OpenClipImage(ImageKind[OpenClipImageSection]):
    """The image side of a model: taken apart if it is a plain vision transformer, else whole."""

    def build(self, section: OpenClipImageSection, context: TowerContext) -> Tower:
        network: Any = context.fetch(*_source(section, context.space.dim)).visual
        _check_image(section, network)
        spec = self.spec(section)
        if is_plain(network):
            classes = section.tokens if isinstance(section.tokens, int) else 1
            parts = image_parts(network, classes)
            own = projection(network.proj)
            project = head(section, parts.positions.shape[1], context.space, own)
            return set_learning(PatchTower(section, spec, parts, project), section)
        if section.trainable != "all":
            network = open_clip.utils.freeze_batch_norm_2d(network)
        project = head(section, 1, context.space, IdentityHead())
        return set_learning(WholeTower(spec, network, project, section.still), section)

    def find_weights(self, section: OpenClipImageSection) -> None:
        _find_weights(section)

    def spec(self, section: OpenClipImageSection) -> ImageSpec:
        return catalogue.image_spec(section)


class OpenClipText(TextKind[OpenClipTextSection]):
    """The text side of a model, taken apart."""

    def build(self, section: OpenClipTextSection, context: TowerContext) -> Tower:
        network: Any = context.fetch(*_source(section, context.space.dim)).text
        parts = text_parts(network)
        length = len(parts.positions)
        known = parts.embed.num_embeddings
        if section.context != length:
            raise TowerError(f"{section.model} reads {length} tokens; set context = {length} in [text]")
        if context.vocabulary > known:
            ids = f"the tokenizer has {context.vocabulary} ids, {section.model} knows {known}"
            raise TowerError(f"{ids}; name its own")
        own = projection(network.text_projection)
        return set_learning(text_tower(section, parts, context.space, own), section)

    def find_weights(self, section: OpenClipTextSection) -> None:
        _find_weights(section)

    def spec(self, section: OpenClipTextSection, tokenizer: TrainedTokenizer) -> TextSpec:
        dynamic = section.tokens == "class" and catalogue.reads_to_the_end(section.model)
        return text_spec(tokenizer, section.context, dynamic=dynamic)

    def tokenizer(self, section: OpenClipTextSection, _texts: Iterable[str]) -> TrainedTokenizer:
        cleaning = catalogue.cleaning(section.model)
        if cleaning == "clip":
            if section.tokenizer is not None:
                raise TowerError(f"{section.model} reads with CLIP's tokenizer; remove tokenizer from [text]")
            return clip_tokenizer()
        if section.tokenizer is None:
            reads = f"{section.model} does not read as CLIP does"
            raise TowerError(f"{reads}; name its tokenizer.json: tokenizer = 'FILE'")
        return read_definition(Path(section.tokenizer), cleaning)


def is_plain(network: nn.Module) -> bool:
    """Is this open_clip's vision transformer, read out at its class token?"""
    return (
        isinstance(network, open_clip.transformer.VisionTransformer)
        and network.attn_pool is None
        and network.pool_type == "tok"
        and not network.final_ln_after_pool
    )


def image_parts(network: Any, classes: int) -> ImageParts:  # noqa: ANN401 (open_clip is not typed)
    """A plain vision transformer taken apart; extra class tokens and their positions are fresh."""
    positions = network.positional_embedding
    (width,) = network.class_embedding.shape
    extra, places = (normal(classes - 1, width, std=width**-0.5) for _ in range(2))
    return ImageParts(
        stem=network.conv1,
        classes=torch.cat([network.class_embedding[None], extra]),
        positions=torch.cat([positions[:1], places, positions[1:]]),
        before=network.ln_pre,
        blocks=BlockStack(network.transformer.resblocks),
        norm=network.ln_post,
    )


def text_parts(network: Any) -> TextParts:  # noqa: ANN401
    return TextParts(
        embed=network.token_embedding,
        positions=network.positional_embedding,
        blocks=BlockStack(network.transformer.resblocks),
        norm=network.ln_final,
        causal=network.attn_mask is not None,
        reads="last" if network.pool_type == "last" else "end",
    )


def projection(own: nn.Parameter | nn.Linear | None) -> nn.Module:
    """A network's own last matrix, as a head."""
    if own is None:
        return IdentityHead()
    return ProjectionHead(own.weight, own.bias) if isinstance(own, nn.Linear) else ProjectionHead(own.T)


def _find_weights(section: OpenClipImageSection | OpenClipTextSection) -> None:
    if section.pretrained:
        catalogue.find_weights(section.model, section.pretrained)


def _source(section: OpenClipImageSection | OpenClipTextSection, dim: int) -> tuple[str, str | None, int]:
    """What to load. Where the model's own projection is read, its length must be the geometry's."""
    wanted = catalogue.config(section.model)
    fixed = section.pretrained is not None or wanted["vision_cfg"].get("timm_proj") == "none"
    length = wanted["embed_dim"]
    if section.tokens == "class" and fixed and length != dim:
        makes = f"{section.model} makes features of length {length}"
        raise TowerError(f"{makes}, not {dim}; set dim in [geometry]")
    return section.model, section.pretrained, dim


def _check_image(section: OpenClipImageSection, network: nn.Module) -> None:
    wants = catalogue.config(section.model)["vision_cfg"]["image_size"]
    if section.size != wants:
        raise TowerError(f"{section.model} sees {wants} pixels; set size = {wants} in [image]")
    if not is_plain(network) and (section.tokens != "class" or not section.final_norm):
        only = "only tokens = 'class' with its final norm"
        raise TowerError(f"{section.model} is no plain vision transformer: {only}")
    if section.checkpointing and isinstance(network, open_clip.modified_resnet.ModifiedResNet):
        raise TowerError(f"open_clip offers no checkpointing for {section.model}; set checkpointing = false")
