"""Published encoders as they are: a model of open_clip's with weights from the hub, a file, or a folder.

open_clip:ViT-B-16/openai      a model and one of its tags
open_clip:ViT-B-16/FILE        a model and a file of weights
open_clip:FOLDER               a folder as the hub publishes it
"""

from pathlib import Path

import torch

from training import towers
from training.checkpoint import Checkpoint
from training.recipes.schema import (
    DataSection,
    GeometrySection,
    OpenClipImageSection,
    OpenClipTextSection,
    Recipe,
    ViewsSection,
)
from training.towers import build_model
from training.towers.base import TowerError
from training.towers.model import catalogue

SCHEME = "open_clip:"
HIGHEST_SCALE = 100.0  # of the scales that CLIP trains with


def load_published(source: str, tokenizer: Path | None, data: DataSection) -> Checkpoint:
    """The encoder that a source names, as a checkpoint; `data` is what it is measured on."""
    model, weights = _parts(source.removeprefix(SCHEME))
    recipe = _recipe(model, weights, tokenizer, data)
    trained = towers.tokenizer_for(recipe.text, ())
    return Checkpoint(recipe, trained, build_model(recipe, trained.vocabulary).eval())


def _parts(source: str) -> tuple[str, str]:
    if Path(source).is_dir():
        return f"{catalogue().FOLDER}{Path(source).resolve()}", "own"
    model, _, weights = source.partition("/")
    if not weights:
        raise TowerError(f"{source!r} is no folder, and names no weights; say open_clip:MODEL/TAG")
    return catalogue().with_activation(model, weights), weights


def _recipe(model: str, weights: str, tokenizer: Path | None, data: DataSection) -> Recipe:
    config = catalogue().config(model)
    size = config["vision_cfg"]["image_size"]
    name = Path(model.rpartition(":")[2]).name
    definition = tokenizer or _beside(model)
    learned = catalogue().load(model, weights, 0).logit_scale
    scale = torch.as_tensor(learned).exp().item()
    params = {"scale": scale, "scale_max": max(scale, HIGHEST_SCALE)}
    return Recipe(
        name=f"{name} {Path(weights).stem}".removesuffix(" own"),
        about=f"Open weights: {name}, as they were published.",
        data=data,
        views=ViewsSection(size=size),
        image=OpenClipImageSection(model=model, pretrained=weights, size=size),
        text=OpenClipTextSection(
            model=model,
            pretrained=weights,
            tokenizer=None if definition is None else str(definition),
            context=config["text_cfg"].get("context_length", 77),
        ),
        geometry=GeometrySection(name="clip", dim=config["embed_dim"], params=params),
    )


def _beside(model: str) -> Path | None:
    """The tokenizer in a published folder, for models with other cleaning than CLIP's."""
    folder = catalogue().FOLDER
    path = Path(model.removeprefix(folder)) / "tokenizer.json"
    own = model.startswith(folder) and catalogue().cleaning(model) != "clip" and path.is_file()
    return path if own else None
