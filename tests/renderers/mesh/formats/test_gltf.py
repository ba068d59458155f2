"""glTF scenes: nodes, skins, instances, and the files beside them."""

import base64
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from renderers.contracts import DEFAULT_LIMITS, MeshError, MeshLimits
from renderers.mesh.formats import gltf
from renderers.mesh.formats.mesh_file import SiblingFiles
from renderers.mesh.load import load_model
from tests.renderers.glb import Glb, colored_square, textured, unlit
from tests.renderers.seeing import GREEN, RED, front, seen_at

CORNER = float(np.sqrt(0.5))


def ratio(path: Path) -> float:
    """Height over width."""
    width, height, _ = np.ptp(load_model(path).vertices, axis=0)
    return float(height / width)


def test_nodes_turn_scale_and_move_from_parent_to_child(tmp_path: Path) -> None:
    glb = Glb()
    glb.square()
    parent = glb.add("nodes", children=[0], rotation=[0, 0, CORNER, CORNER], translation=[5, 0, 0])
    glb.tree["nodes"][0].update(scale=[2, 1, 1], translation=[0, 7, 0])
    glb.tree["scenes"][0]["nodes"] = [parent]
    assert ratio(glb.save(tmp_path)) == pytest.approx(2)


def test_a_skinned_mesh_follows_its_joints_and_not_its_node(tmp_path: Path) -> None:
    glb = Glb()
    joints, weights = np.zeros((4, 4), np.uint8), np.tile(np.array([1, 0, 0, 0], np.float32), (4, 1))
    joints[2:, 0] = 1
    bones = [glb.add("nodes"), glb.add("nodes", translation=[0, 2, 0])]
    skin = glb.add("skins", joints=bones)
    glb.surface({"JOINTS_0": joints, "WEIGHTS_0": weights}, skin=skin, scale=[9, 1, 1])
    glb.tree["scenes"][0]["nodes"] += bones
    assert ratio(glb.save(tmp_path)) == pytest.approx(2)


def test_gltf_with_its_files_beside_it_or_inside(tmp_path: Path) -> None:
    glb = Glb()
    glb.square(textured(glb, 0))
    glb.add("images", uri="a%20colour.png")
    glb.add("textures", source=0)
    Image.new("RGB", (4, 4), (1, 2, 3)).save(tmp_path / "a colour.png")
    (tmp_path / "numbers.bin").write_bytes(glb.binary)
    inside = "data:application/octet-stream;base64," + base64.b64encode(glb.binary).decode()
    for uri in ("numbers.bin", inside):
        glb.tree["buffers"] = [{"byteLength": len(glb.binary), "uri": uri}]
        (tmp_path / "mesh.gltf").write_text(json.dumps(glb.tree))
        assert seen_at(front(tmp_path / "mesh.gltf"), 0.0, 0.0) == (1, 2, 3)


def test_a_missing_texture_is_noted_and_done_without(tmp_path: Path) -> None:
    glb = Glb()
    glb.add("images", uri="gone.png")
    glb.add("textures", source=0)
    glb.square(unlit(glb, (1, 0, 0, 1), pbr={"baseColorTexture": {"index": 0}}))
    path = glb.save(tmp_path)
    assert seen_at(front(path), 0.0, 0.0) == RED
    assert "gone.png" in load_model(path).notes[0]


def test_instances(tmp_path: Path) -> None:
    glb = colored_square()
    places = glb.accessor(np.array([(0, 0, 0), (3, 0, 0)], np.float32))
    scales = glb.accessor(np.array([(1, 1, 1), (1, 2, 1)], np.float32))
    attributes = {"TRANSLATION": places, "SCALE": scales}
    glb.tree["nodes"][0]["extensions"] = {"EXT_mesh_gpu_instancing": {"attributes": attributes}}
    path = glb.save(tmp_path)
    assert len(load_model(path).faces) == 4
    assert ratio(path) == pytest.approx(4 / 5)
    with pytest.raises(MeshError, match="2 instances"):
        load_model(path, MeshLimits(instances=1))


def test_a_glb_called_gltf(tmp_path: Path) -> None:
    path = colored_square(0, 1, 0, 1).save(tmp_path, "mesh.gltf")
    assert seen_at(front(path), 0, 0) == GREEN


def test_its_unit_is_the_metre_and_it_says_whether_it_moves(tmp_path: Path) -> None:
    glb = Glb()
    glb.square()
    siblings = SiblingFiles(tmp_path, DEFAULT_LIMITS)
    still = gltf.read(glb.save(tmp_path).read_bytes(), ".glb", siblings, DEFAULT_LIMITS)
    glb.add("animations", channels=[], samplers=[])
    moving = gltf.read(glb.save(tmp_path).read_bytes(), ".glb", siblings, DEFAULT_LIMITS)
    assert [(one.metres, one.animated) for one in (still, moving)] == [(1.0, False), (1.0, True)]
