"""Mesh files -> models: every way in which a file may store its numbers."""

import base64
import json
from pathlib import Path

import DracoPy
import numpy as np
import pytest
import trimesh
from PIL import Image

from renderers.contracts import MeshMaterial, MeshPart
from renderers.mesh.load import assemble_model, load_model
from renderers.mesh.normals import corner_normals
from tests.renderers.glb import SQUARE, SQUARE_FACES, SQUARE_UV, Glb, unlit
from tests.renderers.seeing import front, seen_at

CORNER = float(np.sqrt(0.5))


def square_in_the_ball() -> np.ndarray:
    return SQUARE * CORNER


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
def test_indices_of_every_width(tmp_path: Path, dtype: type) -> None:
    glb = Glb()
    glb.place(glb.mesh({"POSITION": glb.accessor(SQUARE)}, indices=glb.accessor(SQUARE_FACES.astype(dtype))))
    model = load_model(glb.save(tmp_path))
    assert np.allclose(model.vertices, square_in_the_ball())
    assert (model.faces.ravel() == SQUARE_FACES).all()


@pytest.mark.parametrize(("mode", "order"), [(5, [0, 1, 3, 2]), (6, [0, 1, 2, 3]), (4, [0, 1, 2, 0, 2, 3])])
def test_strips_fans_and_lists_make_the_same_square(tmp_path: Path, mode: int, order: list[int]) -> None:
    glb = Glb()
    glb.place(glb.mesh({"POSITION": glb.accessor(SQUARE[order])}, mode=mode))
    model = load_model(glb.save(tmp_path))
    corners = model.vertices[model.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert np.allclose(normals, [[0, 0, 2]] * 2) or np.allclose(normals, [[0, 0, 2 * CORNER**2]] * 2)


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


def test_draco(tmp_path: Path) -> None:
    glb = Glb()
    data = DracoPy.encode(SQUARE, SQUARE_FACES.astype(np.uint32).reshape(-1, 3), quantization_bits=14)
    draco = {"bufferView": glb.view(data), "attributes": {"POSITION": 0}}
    places = glb.add("accessors", count=4, type="VEC3", componentType=5126)
    corners = glb.add("accessors", count=6, type="SCALAR", componentType=5123)
    glb.tree["extensionsRequired"] = ["KHR_draco_mesh_compression"]
    extensions = {"KHR_draco_mesh_compression": draco}
    glb.place(glb.mesh({"POSITION": places}, indices=corners, extensions=extensions))
    model = load_model(glb.save(tmp_path))
    assert len(model.faces) == 2
    assert np.allclose(np.sort(model.vertices, axis=0), np.sort(square_in_the_ball(), axis=0), atol=1e-3)


def test_nodes_turn_scale_and_move_from_parent_to_child(tmp_path: Path) -> None:
    glb = Glb()
    glb.square()
    parent = glb.add("nodes", children=[0], rotation=[0, 0, CORNER, CORNER], translation=[5, 0, 0])
    glb.tree["nodes"][0].update(scale=[2, 1, 1], translation=[0, 7, 0])
    glb.tree["scenes"][0]["nodes"] = [parent]
    width, height, _ = np.ptp(load_model(glb.save(tmp_path)).vertices, axis=0)
    assert height == pytest.approx(2 * width)


def test_a_skinned_mesh_follows_its_joints_and_not_its_node(tmp_path: Path) -> None:
    glb = Glb()
    joints, weights = np.zeros((4, 4), np.uint8), np.tile(np.array([1, 0, 0, 0], np.float32), (4, 1))
    joints[2:, 0] = 1
    attributes = {
        "POSITION": glb.accessor(SQUARE),
        "JOINTS_0": glb.accessor(joints),
        "WEIGHTS_0": glb.accessor(weights),
    }
    mesh = glb.mesh(attributes, indices=glb.accessor(SQUARE_FACES))
    bones = [glb.add("nodes"), glb.add("nodes", translation=[0, 2, 0])]
    skin = glb.add("skins", joints=bones)
    glb.place(mesh, skin=skin, scale=[9, 1, 1])
    glb.tree["scenes"][0]["nodes"] += bones
    width, height, _ = np.ptp(load_model(glb.save(tmp_path)).vertices, axis=0)
    assert height == pytest.approx(2 * width)


def test_gltf_with_its_files_beside_it(tmp_path: Path) -> None:
    glb = Glb()
    glb.square(unlit(glb, pbr={"baseColorTexture": {"index": 0}}))
    glb.add("images", uri="a%20colour.png")
    glb.add("textures", source=0)
    Image.new("RGB", (4, 4), (1, 2, 3)).save(tmp_path / "a colour.png")
    (tmp_path / "numbers.bin").write_bytes(glb.binary)
    glb.tree["buffers"] = [{"byteLength": len(glb.binary), "uri": "numbers.bin"}]
    (tmp_path / "mesh.gltf").write_text(json.dumps(glb.tree))
    assert seen_at(front(tmp_path / "mesh.gltf"), 0.0, 0.0) == (1, 2, 3)
    uri = "data:application/octet-stream;base64," + base64.b64encode(glb.binary).decode()
    glb.tree["buffers"] = [{"byteLength": len(glb.binary), "uri": uri}]
    (tmp_path / "whole.gltf").write_text(json.dumps(glb.tree))
    assert seen_at(front(tmp_path / "whole.gltf"), 0.0, 0.0) == (1, 2, 3)


def test_a_missing_texture_is_noted_and_done_without(tmp_path: Path) -> None:
    glb = Glb()
    glb.add("images", uri="gone.png")
    glb.add("textures", source=0)
    glb.square(unlit(glb, (1, 0, 0, 1), pbr={"baseColorTexture": {"index": 0}}))
    path = glb.save(tmp_path)
    assert seen_at(front(path), 0.0, 0.0) == (255, 0, 0)
    assert "gone.png" in load_model(path).notes[0]


def test_unused_vertices_do_not_count(tmp_path: Path) -> None:
    glb = Glb()
    stray = np.concatenate([SQUARE, [(1000, 0, 0), (np.nan, 0, 0)]]).astype(np.float32)
    glb.place(glb.mesh({"POSITION": glb.accessor(stray)}, indices=glb.accessor(SQUARE_FACES)))
    assert np.allclose(load_model(glb.save(tmp_path)).vertices, square_in_the_ball())


@pytest.mark.parametrize("suffix", ["obj", "ply", "stl", "off", "glb"])
def test_the_same_box_from_every_kind_of_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"box.{suffix}"
    trimesh.creation.box((1, 2, 3)).export(path)
    model = load_model(path)
    size = np.ptp(model.vertices, axis=0) * np.sqrt(14) / 2
    assert np.allclose(size, (1, 3, 2) if suffix == "stl" else (1, 2, 3), atol=1e-5)
    assert len(model.faces) == 12
    assert model.up == ("z" if suffix == "stl" else "y")
    flat = np.cross(
        *(model.vertices[model.faces[:, corner]] - model.vertices[model.faces[:, 0]] for corner in (1, 2))
    )
    assert (np.einsum("fci,fi->fc", model.normals, flat) > 0.1).all() if suffix != "glb" else True


def test_z_up_is_turned_to_y_up(tmp_path: Path) -> None:
    path = tmp_path / "box.ply"
    trimesh.creation.box((1, 2, 3)).export(path)
    assert np.allclose(np.ptp(load_model(path, up="z").vertices, axis=0) * np.sqrt(14) / 2, (1, 3, 2))


def test_obj_with_material_library_and_texture(tmp_path: Path) -> None:
    Image.fromarray(np.array([[(255, 0, 0)], [(0, 0, 255)]], np.uint8).repeat(8, 0).repeat(8, 1)).save(
        tmp_path / "t.png"
    )
    (tmp_path / "m.mtl").write_text("newmtl a\nKd 1 1 1\nmap_Kd t.png\n")
    (tmp_path / "m.obj").write_text(
        "mtllib m.mtl\nv -1 -1 0\nv 1 -1 0\nv 1 1 0\nv -1 1 0\nvt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\n"
        "usemtl a\nf 1/1 2/2 3/3\nf 1/1 3/3 4/4\n"
    )
    views = front(tmp_path / "m.obj")
    upper, lower = seen_at(views, 0.0, 0.4), seen_at(views, 0.0, -0.4)
    assert upper[0] > 150 > 60 > upper[2]
    assert lower[2] > 150 > 60 > lower[0]


def test_ply_with_coloured_faces(tmp_path: Path) -> None:
    box = trimesh.creation.box()
    box.visual.face_colors = [200, 30, 30, 255]
    box.export(tmp_path / "box.ply")
    red, green, blue = seen_at(front(tmp_path / "box.ply"), 0.0, 0.0)
    assert red > 2 * green
    assert green == blue


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
