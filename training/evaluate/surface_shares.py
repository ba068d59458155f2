"""Which parts of a mesh made a point tower match a text, as heat maps of the mesh's views."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from multifold.analysis.explanation import HeatMap
from multifold.analysis.surface import DRAWN, PointRows, SurfaceShares, explain_surface
from multifold.bundle.point_groups import POSITION, group_points
from multifold.bundle.preprocess import pixels
from multifold.errors import MultifoldError
from multifold.scores import apply_signs
from multifold.types import Pixels, Vectors
from renderers.cameras import rig
from renderers.orders import MeshSource, PointOrder, ViewOrder
from renderers.sandbox import Sandbox
from training.evaluate.opening import open_evaluated
from training.retrieval.directions import PointEncoder


@dataclass(frozen=True, eq=False)
class ExplainedMesh:
    """The views of a mesh as the encoder sees them, a heat map for each, and the shares behind them."""

    views: Sequence[Pixels]
    maps: Sequence[HeatMap]
    surface: SurfaceShares


def explain_mesh(path: Path, mesh: Path, text: str) -> ExplainedMesh:
    """The shares of a mesh's regions in its score with a text, by a bundle or a checkpoint."""
    subject = open_evaluated(path)
    encoder, spec, views = subject.encoder, subject.points, subject.views
    if spec is None:
        raise MultifoldError(f"{path} has no point tower, by which a mesh is explained")
    assert isinstance(encoder, PointEncoder)
    source = MeshSource(mesh, up=views.up)
    with Sandbox(1) as sandbox:
        sample, drawn = (
            sandbox.sample(source, PointOrder(count, spec.seed)).points.rows()
            for count in (spec.points, DRAWN)
        )
        pictures = sandbox.draw(source, ViewOrder(views.rig, views.size, views.background)).views
    words = encoder.vectors(encoder.texts([text]).features)
    other = apply_signs(words, encoder.query_signs)[0]

    def encode(samples: Sequence[PointRows]) -> Vectors:
        groups = np.stack([group_points(one, spec) for one in samples])
        return encoder.vectors(encoder.grouped_points(groups))

    surface = explain_surface(sample, other, encode, encoder.metric)
    cameras = rig(views.rig)
    maps = surface.maps(drawn[:, POSITION], cameras.poses, cameras.fov_degrees)
    return ExplainedMesh([pixels(Image.fromarray(one), subject.image) for one in pictures], maps, surface)
