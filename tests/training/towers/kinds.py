"""One recipe for every kind of tower, all so small that a test can run them; open_clip's among them."""

import json
from pathlib import Path
from typing import Any

import open_clip
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from training.recipes.schema import Recipe, parse_recipe
from training.towers import build_model

VIT, RESNET, SIGLIP = "tiny-vit", "tiny-resnet", "tiny-siglip"
VOCABULARY, DIM = 300, 24
TEXT = {"context_length": 12, "vocab_size": VOCABULARY, "width": 32, "heads": 4, "layers": 2}
BOTH_WAYS = {"no_causal_mask": True, "proj_bias": True, "pool_type": "last", "hf_tokenizer_name": "none"}
CONFIGS = {
    VIT: ({"image_size": 32, "layers": 2, "width": 32, "head_width": 8, "patch_size": 16}, TEXT, 24),
    RESNET: ({"image_size": 64, "layers": [1, 1, 1, 1], "width": 8, "patch_size": None}, TEXT, 24),
    SIGLIP: (
        {"image_size": 160, "timm_model_name": "test_vit", "timm_pool": "map", "timm_proj": "none"},
        {**TEXT, **BOTH_WAYS, "tokenizer_kwargs": {"clean": "canonicalize"}},
        64,
    ),
}

SMALL_IMAGE = {"size": 32, "stem": [8, 16], "width": 32, "depth": 2, "heads": 2}
SMALL_TEXT = {"vocabulary": VOCABULARY, "context": 12, "width": 32, "depth": 2, "heads": 2}
BERT = {"kind": "bert", **SMALL_TEXT}
VIT_IMAGE = {"kind": "openclip", "model": VIT, "size": 32}
VIT_TEXT = {"kind": "openclip", "model": VIT, "context": 12}
RESNET_IMAGE = {"kind": "openclip", "model": RESNET, "size": 64}
SIGLIP_IMAGE = {"kind": "openclip", "model": SIGLIP, "size": 160}
SIGLIP_TEXT = {"kind": "openclip", "model": SIGLIP, "context": 12}
CLIP = {"name": "clip", "dim": DIM}
MULTI = {"name": "oblique_multi", "dim": DIM, "params": {"m": 3}}
CLOUD = {"name": "cloud_gaussian", "dim": DIM, "params": {"frequencies": 8}}

KINDS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "small": (SMALL_IMAGE, SMALL_TEXT, CLIP),
    "small, hyperbolic, no final norm": (
        {**SMALL_IMAGE, "final_norm": False},
        {**SMALL_TEXT, "final_norm": False},
        {"name": "lorentz", "dim": DIM},
    ),
    "small, class tokens": ({**SMALL_IMAGE, "tokens": 3}, {**SMALL_TEXT, "tokens": 3}, MULTI),
    "small, cloud": ({**SMALL_IMAGE, "tokens": "all"}, {**SMALL_TEXT, "tokens": "all"}, CLOUD),
    "bert": (SMALL_IMAGE, BERT, CLIP),
    "bert, class tokens": ({**SMALL_IMAGE, "tokens": 3}, {**BERT, "tokens": 3}, MULTI),
    "bert, cloud": ({**SMALL_IMAGE, "tokens": "all"}, {**BERT, "tokens": "all"}, CLOUD),
    "vit": (VIT_IMAGE, VIT_TEXT, CLIP),
    "vit, class tokens": ({**VIT_IMAGE, "tokens": 3}, {**VIT_TEXT, "tokens": 3}, MULTI),
    "vit, cloud": ({**VIT_IMAGE, "tokens": "all"}, {**VIT_TEXT, "tokens": "all", "pads": "own"}, CLOUD),
    "resnet": (RESNET_IMAGE, SMALL_TEXT, CLIP),
    "siglip": (SIGLIP_IMAGE, SIGLIP_TEXT, {"name": "clip", "dim": 64}),
}


def register(folder: Path) -> None:
    """Make the tiny models known to open_clip."""
    for name, (vision, text, dim) in CONFIGS.items():
        described = {"embed_dim": dim, "vision_cfg": vision, "text_cfg": text}
        (folder / f"{name}.json").write_text(json.dumps(described), encoding="utf-8")
    open_clip.add_model_config(folder)


def recipe(image: dict[str, Any], text: dict[str, Any], geometry: dict[str, Any]) -> Recipe:
    """A recipe with these towers."""
    about = {"name": "towers", "about": "Towers.", "data": {}}
    return parse_recipe({**about, "image": image, "text": text, "geometry": geometry}, "towers")


def build(
    image: dict[str, Any], text: dict[str, Any], geometry: dict[str, Any], vocabulary: int = VOCABULARY
) -> Any:  # noqa: ANN401
    """A model with these towers, of a type that lets tests look inside."""
    torch.manual_seed(0)
    return build_model(recipe(image, text, geometry), vocabulary).eval()


def built(kind: str) -> Any:  # noqa: ANN401
    """The model of a kind."""
    return build(*KINDS[kind])


def pixels(size: int, count: int = 4) -> UInt8[Tensor, "b h w 3"]:
    """Noise to look at."""
    seed = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, size, size, 3), generator=seed, dtype=torch.uint8)


def tokens(context: int = 12) -> Int64[Tensor, "b t"]:
    """Texts of several lengths, among them an empty and a full one."""
    seed, end = torch.Generator().manual_seed(0), VOCABULARY - 1
    ids = torch.zeros(4, context, dtype=torch.int64)
    for row, length in zip(ids, (2, 5, 9, context), strict=True):
        row[:length] = torch.randint(2, end, (length,), generator=seed)
        row[0], row[length - 1] = 1, end
    return ids
