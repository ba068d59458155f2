"""Primitives of glTF: strips, Draco, morph targets."""

from pathlib import Path

import numpy as np
import pytest

from renderers.mesh.load import load_model
from tests.renderers.glb import SQUARE, SQUARE_IN_BALL, Glb


@pytest.mark.parametrize(("mode", "order"), [(5, [0, 1, 3, 2]), (6, [0, 1, 2, 3]), (4, [0, 1, 2, 0, 2, 3])])
def test_strips_fans_and_lists_make_the_same_square(tmp_path: Path, mode: int, order: list[int]) -> None:
    glb = Glb()
    glb.place(glb.mesh({"POSITION": glb.accessor(SQUARE[order])}, mode=mode))
    model = load_model(glb.save(tmp_path))
    corners = model.vertices[model.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert np.allclose(normals, [[0, 0, 2]] * 2)


def test_draco(tmp_path: Path) -> None:
    glb = Glb()
    glb.draco_surface()
    model = load_model(glb.save(tmp_path))
    assert len(model.faces) == 2
    assert np.allclose(np.sort(model.vertices, axis=0), np.sort(SQUARE_IN_BALL, axis=0), atol=1e-3)


@pytest.mark.parametrize(("weights", "height"), [((), 1.0), ((1.0,), 2.0), ((0.5,), 1.5)])
def test_morph_targets_at_the_weights_of_the_file(
    tmp_path: Path, weights: tuple[float, ...], height: float
) -> None:
    glb = Glb()
    glb.square()
    change = np.zeros((4, 3), np.float32)
    change[2:, 1] = 2
    glb.tree["meshes"][0]["primitives"][0]["targets"] = [{"POSITION": glb.accessor(change)}]
    if weights:
        glb.tree["meshes"][0]["weights"] = list(weights)
    size = np.ptp(load_model(glb.save(tmp_path)).vertices, axis=0)
    assert size[1] / size[0] == pytest.approx(height)
