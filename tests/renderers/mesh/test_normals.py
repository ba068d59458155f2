"""Normals that are made up."""

import numpy as np
import trimesh

from renderers.contracts import MeshMaterial, MeshPart
from renderers.mesh.load import assemble_model
from renderers.mesh.normals import corner_normals


def test_only_missing_normals_are_made_up() -> None:
    random = np.random.default_rng(0)
    ball = trimesh.creation.icosphere(2)
    given = random.normal(0, 1, ball.vertices.shape).astype(np.float32)
    given[[5, 40]] = ((0, 0, 0), (np.nan, 0, 1))
    part = MeshPart(np.asarray(ball.vertices), np.asarray(ball.faces), MeshMaterial(), given)
    with np.errstate(all="ignore"):
        normals, missing = assemble_model([part]).normals, np.isin(ball.faces, (5, 40))
    ours = corner_normals(part.vertices, part.faces)
    lengths = np.linalg.norm(given, axis=1, keepdims=True)
    assert np.allclose(normals[missing], ours[missing])
    assert np.allclose(normals[~missing], (given / lengths.clip(1e-9))[ball.faces][~missing])
