"""Which parts of a mesh made a checkpoint's point tower match a text, as heat maps of the mesh's views."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from multifold.analysis.explanation import HeatMap
from multifold.analysis.surface import PointRows, SurfaceShares, explain_surface
from multifold.bundle.point_groups import POSITION, group_points
from multifold.bundle.preprocess import pixels
from multifold.errors import MultifoldError
from multifold.scores import apply_signs
from multifold.types import Pixels, Vectors
from renderers.cameras import rig
from renderers.sandbox import Sandbox
from training import checkpoint, prepare
from training.retrieval.encoder import TorchEncoder
from training.towers import point_spec

DRAWN = 20_000  # points that heat maps are drawn from


@dataclass(frozen=True, eq=False)
class ExplainedMesh:
    """The views of a mesh as the encoder sees them, a heat map for each, and the shares behind them."""

    views: Sequence[Pixels]
    maps: Sequence[HeatMap]
    surface: SurfaceShares


def explain_mesh(path: Path, mesh: Path, text: str) -> ExplainedMesh:
    """The shares of a mesh's regions in its score with a text, by a checkpoint with a point tower."""
    if not path.is_file():
        raise MultifoldError(f"a mesh is explained by a checkpoint with a point tower, and {path} is none")
    trained = checkpoint.load_checkpoint(path)
    recipe = trained.recipe
    if recipe.points is None:
        raise MultifoldError(f"{path} has no point tower: there is no [points] in its recipe, {recipe.name}")
    spec, views, up = point_spec(recipe.points), prepare.view_spec(recipe), recipe.views.up
    with Sandbox(1) as sandbox:
        sample, drawn = (
            sandbox.sample(mesh, None, count, spec.seed, up).points.rows() for count in (spec.points, DRAWN)
        )
        pictures = sandbox.render(mesh, None, views.rig, views.size, views.background, up)
    encoder = TorchEncoder(trained.model, prepare.reader(recipe, trained.tokenizer))

    def encode(samples: Sequence[PointRows]) -> Vectors:
        return encoder.vectors(encoder.points(np.stack([group_points(one, spec) for one in samples])))

    words = encoder.vectors(encoder.texts([text]).features)
    other = apply_signs(words, encoder.query_signs)[0]
    surface, cameras = explain_surface(sample, other, encode, encoder.metric), rig(views.rig)
    maps = surface.maps(drawn[:, POSITION], cameras.poses, cameras.fov_degrees)
    seen = [pixels(Image.fromarray(one), prepare.image_spec(recipe)) for one in pictures]
    return ExplainedMesh(seen, maps, surface)
