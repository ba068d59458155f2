"""Numbers of glTF, however they are packed."""

from pathlib import Path

import meshopt
import numpy as np
import pytest

from renderers.contracts import MeshError
from renderers.mesh.load import load_model
from tests.renderers.glb import SQUARE, SQUARE_FACES, SQUARE_IN_BALL, SQUARE_UV, Glb, unlit
from tests.renderers.seeing import BLUE, extent, front, seen_at


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
def test_indices_of_every_width(tmp_path: Path, dtype: type) -> None:
    glb = Glb()
    glb.surface(indices=SQUARE_FACES.astype(dtype))
    model = load_model(glb.save(tmp_path))
    assert np.allclose(model.vertices, SQUARE_IN_BALL)
    assert (model.faces.ravel() == SQUARE_FACES).all()


def test_interleaved_and_normalised_numbers(tmp_path: Path) -> None:
    glb = Glb()
    rows = np.zeros((4, 12), np.uint8)
    places = (SQUARE * [100, 100, 1] + [100, 100, 0]).astype(np.uint16)
    rows[:, :6] = places.view(np.uint8)
    rows[:, 8:] = (SQUARE_UV * 65535).astype(np.uint16).view(np.uint8)
    shared = {"bufferView": glb.view(rows.tobytes(), byteStride=12), "count": 4, "componentType": 5123}
    glb.tree["extensionsRequired"] = ["KHR_mesh_quantization"]
    place = glb.add("accessors", type="VEC3", **shared)
    uv = glb.add("accessors", type="VEC2", byteOffset=8, normalized=True, **shared)
    glb.surface({"POSITION": place, "TEXCOORD_0": uv})
    model = load_model(glb.save(tmp_path))
    assert np.allclose(model.vertices, SQUARE_IN_BALL)
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
    glb.surface({"POSITION": places})
    assert extent(load_model(glb.save(tmp_path))) == [1, 0.5, 0]


def test_meshopt(tmp_path: Path) -> None:
    glb = Glb()
    glb.packed_surface(material=unlit(glb, (0, 0, 1, 1)))
    path = glb.save(tmp_path)
    assert len(load_model(path).faces) == 2
    assert seen_at(front(path), 0.2, 0.2) == BLUE


def test_meshopt_filters(tmp_path: Path) -> None:
    glb = Glb()
    view = glb.packed(np.asarray(meshopt.encode_filter_exp(SQUARE, 15)), "ATTRIBUTES", filter="EXPONENTIAL")
    glb.surface({"POSITION": glb.add("accessors", bufferView=view, count=4, type="VEC3", componentType=5126)})
    assert np.allclose(load_model(glb.save(tmp_path)).vertices, SQUARE_IN_BALL, atol=1e-3)


@pytest.mark.parametrize(
    "change", [{"count": 1 << 40}, {"byteStride": 1 << 20}, {"mode": "WOOL"}, {"count": 4000}]
)
def test_meshopt_that_lies(tmp_path: Path, change: dict[str, object]) -> None:
    glb = Glb()
    glb.packed_surface()
    for view in glb.tree["bufferViews"]:
        if "extensions" in view:
            view["extensions"]["EXT_meshopt_compression"].update(change)
    with pytest.raises(MeshError, match=r"damaged|unpacked"):
        load_model(glb.save(tmp_path))
