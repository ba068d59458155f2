"""A run, written down: everything that decides a training is in one TOML file."""

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from multifold.errors import MultifoldError


class RecipeError(MultifoldError):
    """A recipe that cannot be followed."""


class Section(BaseModel):
    """A part of a recipe; a key that nobody reads is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Data(Section):
    """Where the items come from: a manifest, or the furniture set made on the spot."""

    manifest: str | None = None
    furniture_items: int = 0
    furniture_seed: int = 0
    train_split: str = "train"
    test_split: str = "test"
    test_items: int = 300


class Views(Section):
    """How shapes are rendered; the bundle promises the same to its users."""

    rig: str = "ring6"
    size: int = 224
    background: Literal["white", "black"] = "white"
    up: Literal["auto", "y", "z"] = "auto"


class ImageTower(Section):
    """A convolutional stem and a transformer over its grid."""

    size: int = 96
    stem: tuple[int, ...] = (32, 64, 128)
    width: int = 192
    depth: int = 4
    heads: int = 4


class TextTower(Section):
    """A causal transformer over a small vocabulary of its own, read out at the end of the text."""

    vocabulary: int = 1000
    context: int = 64
    width: int = 192
    depth: int = 3
    heads: int = 4


class Geometry(Section):
    """How features are compared."""

    name: str = "clip"
    dim: int = 128
    params: dict[str, float] = {}


class Train(Section):
    """The run itself."""

    seed: int = 0
    steps: int = 1000
    items: int = 128  # items a step
    views: int = 1  # views an item a step, their features averaged
    rate: float = 1e-3
    warmup: int = 100
    weight_decay: float = 0.05
    clip: float = 1.0  # largest gradient norm
    shift: int = 6  # random translation of a view, in pixels


class Recipe(Section):
    """The whole recipe."""

    name: str
    about: str
    data: Data
    views: Views = Views()
    image: ImageTower = ImageTower()
    text: TextTower = TextTower()
    geometry: Geometry = Geometry()
    train: Train = Train()


def load(path: Path) -> Recipe:
    """Read and check a recipe."""
    try:
        return parse(tomllib.loads(path.read_text(encoding="utf-8")), str(path))
    except FileNotFoundError:
        raise RecipeError(f"there is no recipe {path}") from None
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{path} is not TOML: {error}") from error


def parse(raw: dict[str, Any], source: str) -> Recipe:
    """Check a recipe that is already a dictionary; errors name the key."""
    try:
        return Recipe.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise RecipeError(f"{source}: {key}: {first['msg']}") from error
