"""What open_clip knows: its models, and their weights by one of its tags, from a file, or random."""

from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

from torch import nn

from multifold.errors import needs_extra
from multifold.preprocess import CLIP_MEAN, CLIP_STD, ImageSpec
from multifold.tokens import Cleaning
from training.sections import OpenClipImage
from training.towers.base import TowerError

with needs_extra("train"):
    import open_clip

Config: TypeAlias = dict[str, Any]

READS = ("argmax", "last")  # where a text tower may be read out: at its highest id, or at the last place


def config(model: str) -> Config:
    """open_clip's description of a model, if towers can be made of it."""
    if model not in (known := open_clip.list_models()):
        near = ", ".join(get_close_matches(model, known, 5, 0.4)) or "nothing like it"
        raise TowerError(f"open_clip knows no model {model!r}; it knows: {near}")
    found: Config = open_clip.get_model_config(model)
    text = found["text_cfg"]
    if "multimodal_cfg" in found or "hf_model_name" in text or text.get("pool_type", "argmax") not in READS:
        raise TowerError(
            f"{model} reads with a network that is no plain CLIP text tower; choose another model"
        )
    return found


def load(model: str, pretrained: str | None, dim: int) -> nn.Module:
    """A model with its two towers, `visual` and `text`; a random one makes features of length `dim`."""
    wanted, weights = config(model), None if pretrained is None else _weights(model, pretrained)
    wanted.pop("custom_text", None)
    if weights is None and wanted["vision_cfg"].get("timm_proj") != "none":
        wanted["embed_dim"] = dim
    built: nn.Module = open_clip.CustomTextCLIP(**wanted)
    if weights is not None:
        _fill(built, weights, model)
    return built


def image_spec(section: OpenClipImage) -> ImageSpec:
    """How a model wants its pictures: as the tag says, or as the model's first tag does."""
    tags = [section.pretrained or "", *open_clip.list_pretrained_tags_by_model(section.model)]
    said: Config = next(filter(None, (open_clip.get_pretrained_cfg(section.model, tag) for tag in tags)), {})
    return ImageSpec(
        size=section.size,
        resize=said.get("resize_mode", "shortest"),
        interpolation=said.get("interpolation", "bicubic"),
        mean=said.get("mean", CLIP_MEAN),
        std=said.get("std", CLIP_STD),
    )


def cleaning(model: str) -> Cleaning:
    """How a model's texts are cleaned."""
    text = config(model)["text_cfg"]
    if "hf_tokenizer_name" not in text:
        return "clip"
    if text.get("tokenizer_kwargs") != {"clean": "canonicalize"}:
        raise TowerError(f"{model} cleans its texts in a way that is not known here; choose another model")
    return "canonicalize"


def reads_to_the_end(model: str) -> bool:
    """Is its text tower causal, and read out where the text ends?"""
    text = config(model)["text_cfg"]
    return text.get("pool_type") != "last" and not text.get("no_causal_mask")


def _weights(model: str, pretrained: str) -> Path:
    if Path(pretrained).is_file():
        return Path(pretrained)
    tag = open_clip.get_pretrained_cfg(model, pretrained)
    if not tag:
        tags = ", ".join(open_clip.list_pretrained_tags_by_model(model)) or "none"
        raise TowerError(f"{pretrained!r} is no file, and no weights of {model}; open_clip has: {tags}")
    if bool(tag.get("quick_gelu")) != bool(config(model).get("quick_gelu")):
        raise TowerError(f"{pretrained!r} has another activation than {model}; one name ends in -quickgelu")
    try:
        return Path(open_clip.download_pretrained(tag))
    except Exception as error:  # whatever the network, the disk or the hub say
        raise TowerError(
            f"the weights {pretrained!r} of {model} are not here and could not be fetched; "
            "fetch their file elsewhere and name it: pretrained = 'FILE'"
        ) from error


def _fill(model: nn.Module, path: Path, name: str) -> None:
    try:
        open_clip.load_checkpoint(model, str(path))
    except Exception as error:  # a file may hold anything
        raise TowerError(f"{path} does not hold the weights of {name}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
