"""What is evaluated: a bundle as a service runs it, or a checkpoint in torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multifold.bundle import ViewSpec
from multifold.canary import open_encoder
from multifold.errors import MultifoldError
from multifold.preprocess import ImageSpec
from training.evaluate.retrieval import Encodes


@dataclass(frozen=True)
class Subject:
    """An encoder, and how it wants to see."""

    encoder: Encodes
    image: ImageSpec
    views: ViewSpec
    geometry: str
    about: Mapping[str, Any]  # where it comes from, for the report


def open_subject(path: Path) -> Subject:
    """A bundle's folder, or a checkpoint's file."""
    if path.is_dir():
        return of_bundle(path)
    if not path.is_file():
        raise MultifoldError(f"there is neither a bundle nor a checkpoint at {path}")
    return _of_checkpoint(path)


def of_bundle(folder: Path) -> Subject:
    """A verified bundle; no torch is needed."""
    encoder = open_encoder(folder)
    bundle = encoder.bundle
    about = {"bundle": bundle.name, "bundle_id": bundle.bundle_id, "vector_id": bundle.vector_id}
    return Subject(encoder, bundle.image, bundle.views, bundle.geometry.name, about)


def _of_checkpoint(path: Path) -> Subject:
    from multifold.bundle import file_hash
    from training import checkpoint, prepare
    from training.evaluate.live import LiveEncoder

    trained = checkpoint.load(path)
    recipe = trained.recipe
    encoder = LiveEncoder(trained.model, prepare.reader(recipe, trained.tokenizer))
    about = {"checkpoint": path.name, "sha256": file_hash(path), "recipe": recipe.name}
    return Subject(
        encoder, prepare.image_spec(recipe), prepare.view_spec(recipe), trained.model.geometry.name, about
    )
