"""What open_clip knows: its models, and their weights by one of its tags, from a file, or random.

A model may also be a folder as its hub publishes it, `local-dir:FOLDER`: a description, weights, a tokenizer.
"""

import json
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias
from urllib.error import HTTPError
from urllib.request import urlopen

from torch import nn

from multifold.bundle.preprocess import CLIP_MEAN, CLIP_STD, ImageSpec
from multifold.bundle.tokenizer import Cleaning
from multifold.errors import needs_extra
from training.recipes.schema import OpenClipImageSection
from training.towers.base import TowerError

with needs_extra("train"):
    import open_clip
    from huggingface_hub import constants

Config: TypeAlias = dict[str, Any]

FOLDER = "local-dir:"
HUB_TIMEOUT = 8.0  # seconds
DESCRIPTION = "open_clip_config.json"
STEMS = ("open_clip_model", "open_clip_pytorch_model")
WEIGHTS = tuple(f"{stem}.{suffix}" for suffix in ("safetensors", "bin", "pth") for stem in STEMS)
READS = ("argmax", "last")  # where a text tower may be read out: at its highest id, or at the last place


def config(model: str) -> Config:
    """open_clip's description of a model, if towers can be made of it."""
    wanted = _described(model)["model_cfg"] if model.startswith(FOLDER) else _known(model)
    text = wanted["text_cfg"]
    if "multimodal_cfg" in wanted or "hf_model_name" in text or text.get("pool_type", "argmax") not in READS:
        raise TowerError(f"{model} reads with a network that is no plain CLIP text tower; take another model")
    return wanted


def load(model: str, pretrained: str | None, dim: int) -> nn.Module:
    """A model with its two towers, `visual` and `text`; a random one makes features of length `dim`."""
    wanted = config(model)
    weights = None if pretrained is None else find_weights(model, pretrained)
    wanted.pop("custom_text", None)
    if weights is None and wanted["vision_cfg"].get("timm_proj") != "none":
        wanted["embed_dim"] = dim
    built: nn.Module = open_clip.CustomTextCLIP(**wanted)
    if weights is not None:
        try:
            open_clip.load_checkpoint(built, str(weights))
        except Exception as error:  # a file may hold anything
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise TowerError(f"{weights} does not hold the weights of {model}: {reason}") from error
    return built


def with_activation(model: str, pretrained: str) -> str:
    """The name of the same model with the activation that a tag was trained with: ViT-B-16-quickgelu."""
    other = f"{model}-quickgelu"
    quick = open_clip.get_pretrained_cfg(model, pretrained).get("quick_gelu")
    return other if quick and other in open_clip.list_models() else model


def image_spec(section: OpenClipImageSection) -> ImageSpec:
    """How a model wants its pictures: as the tag says, or as the model's first tag does."""
    wanted: Config
    if section.model.startswith(FOLDER):
        wanted = _described(section.model).get("preprocess_cfg", {})
    else:
        tags = [section.pretrained or "", *open_clip.list_pretrained_tags_by_model(section.model)]
        wanted = next(filter(None, (open_clip.get_pretrained_cfg(section.model, tag) for tag in tags)), {})
    return ImageSpec(
        size=section.size,
        resize=wanted.get("resize_mode", "shortest"),
        interpolation=wanted.get("interpolation", "bicubic"),
        mean=tuple(wanted.get("mean", CLIP_MEAN)),
        std=tuple(wanted.get("std", CLIP_STD)),
    )


def cleaning(model: str) -> Cleaning:
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


def _known(model: str) -> Config:
    if model not in (known := open_clip.list_models()):
        near = ", ".join(get_close_matches(model, known, 5, 0.4)) or "nothing like it"
        raise TowerError(f"open_clip knows no model {model!r}; it knows: {near}")
    described: Config = open_clip.get_model_config(model)
    return described


def _described(model: str) -> Config:
    path = Path(model.removeprefix(FOLDER)) / DESCRIPTION
    try:
        described: Config = json.loads(path.read_text(encoding="utf-8"))
        if all(isinstance(described["model_cfg"][side], dict) for side in ("vision_cfg", "text_cfg")):
            return described
    except FileNotFoundError:
        none = f"{path.parent} holds no model as open_clip's hub has them"
        raise TowerError(f"{none}: it lacks {DESCRIPTION}") from None
    except (ValueError, KeyError, TypeError):
        pass
    raise TowerError(f"{path} does not describe a model of open_clip's")


def find_weights(model: str, pretrained: str) -> Path:
    """The file of weights; those that are not here yet are fetched."""
    if Path(pretrained).is_file():
        return Path(pretrained)
    if model.startswith(FOLDER):
        folder = Path(model.removeprefix(FOLDER))
        weights = next((folder / name for name in WEIGHTS if (folder / name).is_file()), None)
        if weights is None:
            raise TowerError(f"{folder} holds no weights; they are called {WEIGHTS[0]} or {WEIGHTS[-3]}")
        return weights
    tag = open_clip.get_pretrained_cfg(model, pretrained)
    if not tag:
        tags = ", ".join(open_clip.list_pretrained_tags_by_model(model)) or "none"
        raise TowerError(f"{pretrained!r} is no file, and no weights of {model}; open_clip has: {tags}")
    if bool(tag.get("quick_gelu")) != bool(config(model).get("quick_gelu")):
        raise TowerError(f"{pretrained!r} has another activation than {model}; one name ends in -quickgelu")
    try:
        return _stored_weights(tag) or _fetched_weights(tag)
    except Exception as error:  # whatever the network, the disk or the hub say
        raise TowerError(
            f"the weights {pretrained!r} of {model} are not here and could not be fetched; "
            "fetch their file elsewhere and name it: pretrained = 'FILE'"
        ) from error


def _stored_weights(tag: Config) -> Path | None:
    """The weights, if they were fetched before."""
    online = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        return Path(open_clip.download_pretrained(tag)) if tag.get("hf_hub") else None
    except FileNotFoundError:
        return None
    finally:
        constants.HF_HUB_OFFLINE = online


def _fetched_weights(tag: Config) -> Path:
    """The weights from their hub; asked once whether it is there, for its library tries for minutes."""
    with suppress(HTTPError):  # an answer, whatever it says
        urlopen(constants.ENDPOINT if tag.get("hf_hub") else tag["url"], timeout=HUB_TIMEOUT).close()  # noqa: S310
    return Path(open_clip.download_pretrained(tag))
