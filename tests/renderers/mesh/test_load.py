"""Mesh files as models: upright, the same from every format, and refused with a reason.

Files made with ill will are in tests/renderers/hostile.
"""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from PIL import Image

from renderers.contracts import MeshError, MeshLimits
from renderers.mesh.load import load_model
from tests.files import put
from tests.renderers import made
from tests.renderers.glb import SQUARE, SQUARE_FACES, SQUARE_IN_BALL, Glb, pack
from tests.renderers.hostile.crafted import changed
from tests.renderers.hostile.originals import originals
from tests.renderers.seeing import extent


def test_unused_vertices_do_not_count(tmp_path: Path) -> None:
    glb = Glb()
    stray = np.array([(1000, 0, 0), (np.nan, 0, 0)], np.float32)
    glb.surface({"POSITION": np.concatenate([SQUARE, stray])})
    assert np.allclose(load_model(glb.save(tmp_path)).vertices, SQUARE_IN_BALL)


@pytest.mark.parametrize("suffix", ["obj", "ply", "stl", "off", "glb"])
def test_the_same_box_from_every_kind_of_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"box.{suffix}"
    trimesh.creation.box((1, 2, 3)).export(path)
    model = load_model(path)
    size = np.ptp(model.vertices, axis=0) * np.sqrt(14) / 2
    assert np.allclose(size, (1, 3, 2) if suffix == "stl" else (1, 2, 3), atol=1e-5)
    assert len(model.faces) == 12
    assert model.up == ("z" if suffix == "stl" else "y")
    first, second, third = (model.vertices[model.faces[:, corner]] for corner in range(3))
    flat = np.cross(second - first, third - first)
    assert (np.einsum("fci,fi->fc", model.normals, flat) > 0.1).all() if suffix != "glb" else True


@pytest.mark.parametrize("suffix", ["obj", "ply", "stl", "off", "glb"])
def test_facts_of_a_box(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"box.{suffix}"
    trimesh.creation.box((0.123456, 2, 3)).export(path)
    facts = dict(load_model(path).facts)
    assert facts.pop("bytes") == path.stat().st_size
    size = {"width": 0.1235, "height": 2.0, "depth": 3.0} if suffix == "glb" else {}
    assert facts == {**size, "triangles": 12, "materials": 1, "textures": 0, "animated": False}


def test_height_is_upwards_and_in_metres(tmp_path: Path) -> None:
    still = made.dae(up="Z_UP", node="<scale>2 4 1</scale>")
    motion = "<library_animations><animation/></library_animations>"
    text = still.replace("</asset>", f'<unit meter="0.01"/></asset>{motion}')
    facts = load_model(put(tmp_path / "m.dae", text)).facts
    assert (facts["width"], facts["depth"], facts["height"]) == (0.04, 0.08, 0)
    assert facts["animated"] is True
    turned = load_model(put(tmp_path / "m.dae", text), up="y").facts
    assert (turned["width"], turned["height"], turned["depth"]) == (0.04, 0.08, 0)


def test_the_files_beside_a_mesh_count_and_points_are_no_triangles(tmp_path: Path) -> None:
    put(tmp_path / "m.mtl", "newmtl a\nKd 1 0 0\nnewmtl b\nKd 0 1 0\n")
    faces = "usemtl a\nf 1 2 3\nusemtl b\nf 1 2 4\n"
    mesh = put(tmp_path / "m.obj", f"mtllib m.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\n{faces}")
    facts = load_model(mesh).facts
    assert facts["bytes"] == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert (facts["triangles"], facts["materials"]) == (2, 2)
    cloud = load_model(put(tmp_path / "m.ply", made.ply_points(np.eye(3)))).facts
    assert "triangles" not in cloud


def test_materials_with_a_picture_are_counted(tmp_path: Path) -> None:
    Image.new("RGB", (2, 2), "red").save(tmp_path / "red.png")
    put(tmp_path / "m.mtl", "newmtl a\nmap_Kd red.png\nnewmtl b\nKd 0 1 0\n")
    faces = "usemtl a\nf 1/1 2/1 3/1\nusemtl b\nf 1/1 2/1 3/1\n"
    mesh = put(tmp_path / "m.obj", f"mtllib m.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\n{faces}")
    facts = load_model(mesh).facts
    assert (facts["materials"], facts["textures"]) == (2, 1)


def primitive(glb: Glb) -> dict[str, Any]:
    found: dict[str, Any] = glb.tree["meshes"][0]["primitives"][0]
    return found


def with_places(*values: tuple[float, float, float]) -> bytes:
    places = np.array(values, np.float32)
    return changed(lambda glb: primitive(glb).update(attributes={"POSITION": glb.accessor(places)}))


def boast(glb: Glb) -> None:
    accessor = glb.add("accessors", count=1 << 50, type="VEC3", componentType=5126)
    primitive(glb).update(attributes={"POSITION": accessor})


GLTF: dict[str, tuple[Callable[[Glb], object], str]] = {
    "no triangles": (lambda glb: glb.tree["scenes"][0].update(nodes=[]), "neither triangles"),
    "only lines": (lambda glb: primitive(glb).update(mode=1), "neither triangles"),
    "a wild index": (
        lambda glb: primitive(glb).update(indices=glb.accessor(SQUARE_FACES + np.uint16(4))),
        "vertex that does not exist",
    ),
    "a normal too few": (
        lambda glb: primitive(glb)["attributes"].update(NORMAL=glb.accessor(SQUARE[:3])),
        "different numbers",
    ),
    "an unknown extension": (lambda glb: glb.tree.update(extensionsRequired=["XYZ_wool"]), "XYZ_wool"),
    "a child of nobody": (lambda glb: glb.tree["nodes"][0].update(children=[77]), "nodes"),
    "a view beyond the data": (
        lambda glb: glb.tree["bufferViews"][0].update(byteLength=1 << 40),
        "cut short",
    ),
    "a count beyond reason": (boast, "vertices"),
    "overlapping elements": (lambda glb: glb.tree["bufferViews"][0].update(byteStride=1), "overlap"),
}
JUNK = bytes(np.random.default_rng(1).integers(0, 256, 5000, np.uint8))
FILES: dict[str, tuple[str, bytes, str]] = {
    "text called glb": (".glb", b"a poem about chairs, long enough to be read", "not a GLB file"),
    "nothing": (".glb", b"", "empty"),
    "junk": (".glb", JUNK, "not a GLB file"),
    "junk after the magic": (".glb", b"glTF\2\0\0\0" + bytes(100), "cut short or damaged"),
    "a short head": (".glb", b"glTF\2\0\0\0", "cut short"),
    "version 1": (".glb", b"glTF" + struct.pack("<II", 1, 20) + bytes(40), "version 1"),
    "cut in the middle": (".glb", changed(lambda _: None)[:-40], "cut short"),
    "json of junk": (".glb", pack(b"{{{{", b""), "not valid JSON"),
    "json of no text": (".glb", pack(b'{"asset": "\xff"}', b""), "not valid JSON"),
    "json of a list": (".glb", pack(b"[]", b""), "not an object"),
    "gltf 1": (".gltf", b'{"asset": {"version": "1.0"}}', "glTF 1"),
    "no scene at all": (".gltf", b'{"asset": {"version": "2.0"}}', "neither triangles"),
    "NaN": (".glb", with_places((0, 0, 0), (1, float("nan"), 0), (0, 1, 0), (0, 0, 1)), "NaN"),
    "infinity": (".glb", with_places((0, 0, 0), (1, float("inf"), 0), (0, 1, 0), (0, 0, 1)), "infinity"),
    "a single point": (".glb", with_places(*[(1, 2, 3)] * 4), "no extent"),
    "an archive": (".zip", made.zipped({"mesh.glb": b""}), "archives"),
    "fbx": (".fbx", b"Kaydara FBX Binary", "Blender"),
    "no extension": ("", b"hello", "unknown kind"),
    "an unknown extension of a file": (".doc", b"hello", "glb, gltf"),
    "obj of junk": (".obj", b"v a b c\nf 1 2 3\n", "obj"),
    "obj of words": (".obj", b"# a poem\nabout chairs\n", "neither triangles"),
    "obj with a wild index": (".obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n", "damaged"),
    "ply of text": (".ply", b"hello, this is no ply", "not a PLY file"),
    "ply cut short": (".ply", originals()["ply"]["mesh.ply"][:-30], "damaged|vertex"),
    "stl of text": (".stl", b"just a few words", "STL|stl"),
    "stl cut short": (".stl", originals()["stl"]["mesh.stl"][:-30], "cut short"),
    "off of text": (".off", b"nothing of the kind", "not an OFF file"),
    **{name: (".glb", changed(change), reason) for name, (change, reason) in GLTF.items()},
}


@pytest.mark.parametrize("case", FILES)
def test_bad_files_are_refused_with_a_reason(tmp_path: Path, case: str) -> None:
    suffix, data, reason = FILES[case]
    with pytest.raises(MeshError, match=reason) as caught:
        load_model(put(tmp_path / f"mesh{suffix}", data))
    assert "Traceback" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MeshError, match="no file"):
        load_model(tmp_path / "gone.glb")


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (MeshLimits(file_bytes=100), "bytes long"),
        (MeshLimits(faces=1), "faces"),
        (MeshLimits(vertices=3), "vertices"),
        (MeshLimits(image_pixels=15), "pixels in one texture"),
    ],
)
def test_limits_hold(tmp_path: Path, limits: MeshLimits, reason: str) -> None:
    glb = Glb()
    texture = {"index": glb.texture(np.zeros((4, 4, 3), np.uint8))}
    glb.square(glb.material(pbr={"baseColorTexture": texture}))
    with pytest.raises(MeshError, match=reason):
        load_model(glb.save(tmp_path), limits)


def test_the_up_axis_is_told_known_or_guessed(tmp_path: Path) -> None:
    path = tmp_path / "box.ply"
    trimesh.creation.box((1, 2, 4)).export(path)
    guessed, told = load_model(path), load_model(path, up="z")
    assert (guessed.up, extent(guessed), "guess" in guessed.up_reason) == ("y", [0.25, 0.5, 1], True)
    assert (told.up, extent(told), told.up_reason) == ("z", [0.25, 1, 0.5], "as told")
    head = b"format binary_little_endian 1.0\n"
    data = path.read_bytes().replace(head, head + b"comment Created in Blender\n", 1)
    assert load_model(put(tmp_path / "blender.ply", data)).up == "z"
