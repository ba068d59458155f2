"""Numbers of glTF, however they are packed."""

from pathlib import Path

import meshopt
import numpy as np
import pytest

from renderers.contracts import MeshError
from renderers.mesh.load import load_model
from tests.renderers.glb import SQUARE, SQUARE_FACES, SQUARE_UV, Glb, unlit
from tests.renderers.seeing import front, seen_at

CORNER = float(np.sqrt(0.5))
RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def square_in_the_ball() -> np.ndarray:
    return SQUARE * CORNER


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
def test_indices_of_every_width(tmp_path: Path, dtype: type) -> None:
    glb = Glb()
    glb.place(glb.mesh({"POSITION": glb.accessor(SQUARE)}, indices=glb.accessor(SQUARE_FACES.astype(dtype))))
    model = load_model(glb.save(tmp_path))
    assert np.allclose(model.vertices, square_in_the_ball())
    assert (model.faces.ravel() == SQUARE_FACES).all()


def test_interleaved_and_normalised_numbers(tmp_path: Path) -> None:
    glb = Glb()
    rows = np.zeros((4, 12), np.uint8)
    rows[:, :8] = (
        (SQUARE * [100, 100, 1] + [100, 100, 0])
        .astype(np.uint16)
        .copy()
        .view(np.uint8)
        .reshape(4, 6)[:, [0, 1, 2, 3, 4, 5, 4, 5]]
    )
    rows[:, 8:12] = (SQUARE_UV * 65535).astype(np.uint16).view(np.uint8)
    view = glb.view(rows.tobytes(), byteStride=12)
    places = glb.add("accessors", bufferView=view, count=4, type="VEC3", componentType=5123)
    uv = glb.add(
        "accessors", bufferView=view, byteOffset=8, count=4, type="VEC2", componentType=5123, normalized=True
    )
    glb.tree["extensionsRequired"] = ["KHR_mesh_quantization"]
    glb.place(glb.mesh({"POSITION": places, "TEXCOORD_0": uv}, indices=glb.accessor(SQUARE_FACES)))
    model = load_model(glb.save(tmp_path))
    assert np.allclose(model.vertices, square_in_the_ball())
    assert np.allclose(model.uv, SQUARE_UV)


def test_sparse_numbers(tmp_path: Path) -> None:
    glb = Glb()
    where, what = np.array([1, 2], np.uint8), np.array([(3, -1, 0), (3, 1, 0)], np.float32)
    places = glb.accessor(SQUARE)
    glb.tree["accessors"][places]["sparse"] = {
        "count": 2,
        "indices": {"bufferView": glb.view(where.tobytes()), "componentType": 5121},
        "values": {"bufferView": glb.view(what.tobytes())},
    }
    glb.place(glb.mesh({"POSITION": places}, indices=glb.accessor(SQUARE_FACES)))
    width, height, _ = np.ptp(load_model(glb.save(tmp_path)).vertices, axis=0)
    assert width == pytest.approx(2 * height)


def meshopt_square(glb: Glb) -> None:
    places, faces = glb.packed(SQUARE, "ATTRIBUTES"), glb.packed(SQUARE_FACES, "TRIANGLES")
    described = {"bufferView": places, "count": 4, "type": "VEC3", "componentType": 5126}
    corners = glb.add("accessors", bufferView=faces, count=6, type="SCALAR", componentType=5123)
    glb.tree["extensionsRequired"] = ["EXT_meshopt_compression"]
    glb.place(
        glb.mesh(
            {"POSITION": glb.add("accessors", **described)},
            indices=corners,
            material=unlit(glb, (0, 0, 1, 1)),
        )
    )


def test_meshopt(tmp_path: Path) -> None:
    glb = Glb()
    meshopt_square(glb)
    path = glb.save(tmp_path)
    assert len(load_model(path).faces) == 2
    assert seen_at(front(path), 0.2, 0.2) == BLUE


def test_meshopt_filters(tmp_path: Path) -> None:
    glb = Glb()
    rows = meshopt.encode_filter_exp(SQUARE, 15)
    view = glb.packed(np.asarray(rows), "ATTRIBUTES", filter="EXPONENTIAL")
    places = glb.add("accessors", bufferView=view, count=4, type="VEC3", componentType=5126)
    glb.place(glb.mesh({"POSITION": places}, indices=glb.accessor(SQUARE_FACES)))
    assert np.allclose(load_model(glb.save(tmp_path)).vertices, SQUARE * np.sqrt(0.5), atol=1e-3)


@pytest.mark.parametrize(
    "change", [{"count": 1 << 40}, {"byteStride": 1 << 20}, {"mode": "WOOL"}, {"count": 4000}]
)
def test_meshopt_that_lies(tmp_path: Path, change: dict[str, object]) -> None:
    glb = Glb()
    meshopt_square(glb)
    for view in glb.tree["bufferViews"]:
        if "extensions" in view:
            view["extensions"]["EXT_meshopt_compression"].update(change)
    with pytest.raises(MeshError, match=r"damaged|unpacked"):
        load_model(glb.save(tmp_path))
