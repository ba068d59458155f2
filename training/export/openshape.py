"""OpenShape's published point encoder beside a bundle in the space of the CLIP that it was trained against.

    openshape:FILE      model.pt, or the same weights as .safetensors

Length alone tells no space: many encoders have features of 512 numbers. So the bundle must state that its
towers are that CLIP by OpenAI.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from multifold.bundle import bundle as bundles
from multifold.bundle.bundle import Bundle, BundleError, file_hash
from training.export.beside import add_points
from training.geometries import build
from training.recipes.schema import PointBertSection
from training.towers import point_spec
from training.towers.assemble import FeatureSpace
from training.towers.pointbert import point_tower

SCHEME = "openshape:"
TERMS = "weights: MIT; they were trained on ShapeNet too, whose terms are not for commercial use"


@dataclass(frozen=True)
class ClipSpace:
    """A CLIP that OpenShape publishes an encoder for, and the names under which bundles state it."""

    clip: Literal["vit-b-32", "vit-l-14"]
    stated: str  # a pattern of repositories, and of models with their weights


SPACES: Mapping[int, ClipSpace] = {
    512: ClipSpace("vit-b-32", r"clip-vit-base-patch32\b|ViT-B-32(-quickgelu)?(/|__)openai\b"),
    768: ClipSpace("vit-l-14", r"clip-vit-large-patch14\b(?!-)|ViT-L-14(-quickgelu)?(/|__)openai\b"),
}


def add_published_points(source: str, beside: Path, folder: Path, force: bool = False) -> Bundle:
    """A copy of a bundle with the point encoder of a file; the bundle itself and its collections stay."""
    original = bundles.load(beside)
    path = Path(source.removeprefix(SCHEME))
    section = PointBertSection(clip=_space_of(original, force).clip, pretrained=str(path))
    dim = original.geometry.feature_dim
    tower = point_tower(section, FeatureSpace(build("clip", dim), dim), pretrained=True).eval()
    origin = {"weights": path.name, "sha256": file_hash(path), "terms": TERMS}
    return add_points(original, folder, tower, point_spec(section), origin)


def _space_of(bundle: Bundle, force: bool) -> ClipSpace:
    """The space that a bundle's vectors are in; refuses others, as far as the bundle tells them."""
    geometry = bundle.geometry
    space = SPACES.get(geometry.feature_dim)
    if space is None or (geometry.metric, geometry.query_signs, geometry.dim) != (
        "ip",
        None,
        geometry.feature_dim,
    ):
        known = " or ".join(map(str, SPACES))
        said = f"{geometry.feature_dim} numbers, compared as {geometry.name}"
        raise BundleError(f"OpenShape's encoders are for {known} numbers of CLIP; {bundle.name} has {said}")
    stated = json.dumps(bundle.provenance)
    if not force and not re.search(space.stated, stated, re.IGNORECASE):
        raise BundleError(
            f"bundle {bundle.name} does not state that its towers are OpenAI's CLIP {space.clip}, in whose "
            "space the points would be. If you know that they are, say --force"
        )
    return space
