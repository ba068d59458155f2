"""Which parts of a mesh made a point tower match a text, as heat maps of the mesh's views."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from multifold.analysis.explanation import HeatMap
from multifold.analysis.surface import DRAWN, PointRows, SurfaceShares, explain_surface
from multifold.bundle.bundle import ViewSpec
from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import Encoder
from multifold.bundle.point_groups import POSITION, PointSpec, group_points
from multifold.bundle.preprocess import ImageSpec, pixels
from multifold.errors import MultifoldError
from multifold.scores import apply_signs
from multifold.types import Features, Pixels
from renderers.cameras import rig
from renderers.sandbox import Sandbox
from training import checkpoint, prepare
from training.retrieval.encoder import TorchEncoder
from training.towers import point_spec


@dataclass(frozen=True, eq=False)
class ExplainedMesh:
    """The views of a mesh as the encoder sees them, a heat map for each, and the shares behind them."""

    views: Sequence[Pixels]
    maps: Sequence[HeatMap]
    surface: SurfaceShares


@dataclass(frozen=True, eq=False)
class PointReader:
    """An encoder that reads points, and how it is shown a mesh."""

    encoder: Encoder | TorchEncoder
    encode: Callable[[Sequence[PointRows]], Features]  # features of samples
    points: PointSpec
    views: ViewSpec
    image: ImageSpec


def explain_mesh(path: Path, mesh: Path, text: str) -> ExplainedMesh:
    """The shares of a mesh's regions in its score with a text, by a bundle or a checkpoint."""
    reader = _of_bundle(path) if path.is_dir() else _of_checkpoint(path)
    encoder, spec, views = reader.encoder, reader.points, reader.views
    with Sandbox(1) as sandbox:
        sample, drawn = (
            sandbox.sample(mesh, None, count, spec.seed, views.up).points.rows()
            for count in (spec.points, DRAWN)
        )
        pictures = sandbox.render(mesh, None, views.rig, views.size, views.background, views.up)
    words = encoder.vectors(encoder.texts([text]).features)
    other = apply_signs(words, encoder.query_signs)[0]
    surface = explain_surface(
        sample, other, lambda samples: encoder.vectors(reader.encode(samples)), encoder.metric
    )
    cameras = rig(views.rig)
    maps = surface.maps(drawn[:, POSITION], cameras.poses, cameras.fov_degrees)
    return ExplainedMesh([pixels(Image.fromarray(one), reader.image) for one in pictures], maps, surface)


def _of_bundle(folder: Path) -> PointReader:
    encoder = open_encoder(folder)
    bundle = encoder.bundle
    if bundle.points is None:
        raise MultifoldError(f"bundle {bundle.name} has no point tower, by which a mesh is explained")
    return PointReader(encoder, encoder.points, bundle.points, bundle.views, bundle.image)


def _of_checkpoint(path: Path) -> PointReader:
    if not path.is_file():
        raise MultifoldError(f"a mesh is explained by a bundle or a checkpoint, and {path} is neither")
    trained = checkpoint.load_checkpoint(path)
    recipe = trained.recipe
    if recipe.points is None:
        raise MultifoldError(f"{path} has no point tower: there is no [points] in its recipe, {recipe.name}")
    spec = point_spec(recipe.points)
    encoder = TorchEncoder(trained.model, prepare.reader(recipe, trained.tokenizer))

    def encode(samples: Sequence[PointRows]) -> Features:
        return encoder.grouped_points(np.stack([group_points(one, spec) for one in samples]))

    return PointReader(encoder, encode, spec, prepare.view_spec(recipe), prepare.image_spec(recipe))
