"""Mesh files as models: upright, the same from every format, and refused with a reason."""

import json
import struct
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import trimesh

from renderers.contracts import MeshError, MeshLimits, MeshModel
from renderers.mesh.load import load_model
from tests.renderers.glb import SQUARE, SQUARE_FACES, Glb, pack

CORNER = float(np.sqrt(0.5))
BAD_UTF8 = pack(b'{"asset": "\xff"}', b"")
LOOP = {"children": [1]}
LIMITS = MeshLimits(instances=50)


def square_in_the_ball() -> np.ndarray:
    return SQUARE * CORNER


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


def square(change: Callable[[Glb], object] = lambda glb: None) -> bytes:
    """A good file, then changed."""
    glb = Glb()
    glb.square(glb.material())
    change(glb)
    return glb.bytes()


def primitive(glb: Glb) -> dict[str, object]:
    found: dict[str, object] = glb.tree["meshes"][0]["primitives"][0]
    return found


def with_vertices(values: list[tuple[float, float, float]]) -> bytes:
    return square(
        lambda glb: primitive(glb).update(attributes={"POSITION": glb.accessor(np.array(values, np.float32))})
    )


def zipped() -> bytes:
    data = BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("mesh.glb", square())
    return data.getvalue()


def box(suffix: str) -> bytes:
    exported = trimesh.creation.box().export(file_type=suffix)
    return exported.encode() if isinstance(exported, str) else bytes(exported)


def many_instances(glb: Glb) -> None:
    for _ in range(60):
        glb.place(0)


def boast(glb: Glb) -> None:
    accessor = glb.add("accessors", count=1 << 50, type="VEC3", componentType=5126)
    primitive(glb).update(attributes={"POSITION": accessor})


CASES = {
    "text called glb": (".glb", b"a poem about chairs, long enough to be read", "not a GLB file"),
    "nothing": (".glb", b"", "empty"),
    "junk": (".glb", bytes(np.random.default_rng(1).integers(0, 256, 5000, np.uint8)), "not a GLB file"),
    "junk after the magic": (".glb", b"glTF\2\0\0\0" + bytes(100), "cut short or damaged"),
    "a short head": (".glb", b"glTF\2\0\0\0", "cut short"),
    "version 1": (".glb", b"glTF" + struct.pack("<II", 1, 20) + bytes(40), "version 1"),
    "cut in the middle": (".glb", square()[:-40], "cut short"),
    "json of junk": (".glb", pack(b"{{{{", b""), "not valid JSON"),
    "json of no text": (".glb", BAD_UTF8, "not valid JSON"),
    "json too deep": (".glb", pack(b"[" * 200_000, b""), "not valid JSON"),
    "json of a list": (".glb", pack(b"[]", b""), "not an object"),
    "gltf 1": (".gltf", b'{"asset": {"version": "1.0"}}', "glTF 1"),
    "no triangles": (".glb", square(lambda glb: glb.tree["scenes"][0].update(nodes=[])), "neither triangles"),
    "only lines": (".glb", square(lambda glb: primitive(glb).update(mode=1)), "neither triangles"),
    "no scene at all": (".gltf", b'{"asset": {"version": "2.0"}}', "neither triangles"),
    "a wild index": (
        ".glb",
        square(lambda glb: primitive(glb).update(indices=glb.accessor(SQUARE_FACES + np.uint16(4)))),
        "vertex that does not exist",
    ),
    "NaN": (".glb", with_vertices([(0, 0, 0), (1, float("nan"), 0), (0, 1, 0), (0, 0, 1)]), "NaN"),
    "infinity": (".glb", with_vertices([(0, 0, 0), (1, float("inf"), 0), (0, 1, 0), (0, 0, 1)]), "infinity"),
    "a single point": (".glb", with_vertices([(1, 2, 3)] * 4), "no extent"),
    "a normal too few": (
        ".glb",
        square(lambda glb: primitive(glb)["attributes"].update(NORMAL=glb.accessor(SQUARE[:3]))),  # type: ignore[attr-defined]
        "different numbers",
    ),
    "an unknown extension": (
        ".glb",
        square(lambda glb: glb.tree.update(extensionsRequired=["XYZ_wool_compression"])),
        "XYZ_wool_compression",
    ),
    "a loop of nodes": (
        ".glb",
        square(lambda glb: (glb.add("nodes", children=[0]), glb.tree["nodes"][0].update(LOOP))),
        "loop",
    ),
    "a child of nobody": (".glb", square(lambda glb: glb.tree["nodes"][0].update(children=[77])), "nodes"),
    "a view beyond the data": (
        ".glb",
        square(lambda glb: glb.tree["bufferViews"][0].update(byteLength=1 << 40)),
        "cut short",
    ),
    "a count beyond reason": (
        ".glb",
        square(boast),
        "vertices",
    ),
    "a count below zero": (".glb", square(lambda glb: glb.tree["accessors"][0].update(count=-1)), "count"),
    "overlapping elements": (
        ".glb",
        square(lambda glb: glb.tree["bufferViews"][0].update(byteStride=1)),
        "overlap",
    ),
    "too many instances": (".glb", square(many_instances), "60|61 instances"),
    "a buffer outside": (
        ".gltf",
        json.dumps(
            {
                **json.loads(square()[20:].split(b"BIN")[0][:-4].decode()),
                "buffers": [{"uri": "../secret.bin"}],
            }
        ).encode(),
        "outside its folder",
    ),
    "a buffer that is missing": (
        ".gltf",
        json.dumps(
            {**json.loads(square()[20:].split(b"BIN")[0][:-4].decode()), "buffers": [{"uri": "gone.bin"}]}
        ).encode(),
        "gone.bin",
    ),
    "an archive called glb": (".glb", zipped(), "archive"),
    "an archive": (".zip", zipped(), "archives"),
    "fbx": (".fbx", b"Kaydara FBX Binary", "Blender"),
    "no extension": ("", b"hello", "unknown kind"),
    "an unknown extension of a file": (".doc", b"hello", "glb, gltf"),
    "obj of junk": (".obj", b"v a b c\nf 1 2 3\n", "obj"),
    "obj of words": (".obj", b"# a poem\nabout chairs\n", "neither triangles"),
    "obj with a wild index": (".obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n", "damaged"),
    "ply of text": (".ply", b"hello, this is no ply", "not a PLY file"),
    "ply that boasts": (".ply", b"ply\nformat ascii 1.0\nelement vertex 999999999\nend_header\n", "vertices"),
    "ply cut short": (".ply", box("ply")[:-30], "damaged|vertex"),
    "stl of text": (".stl", b"just a few words", "STL|stl"),
    "stl that boasts": (".stl", bytes(80) + struct.pack("<I", 4_000_000_000), "faces"),
    "stl cut short": (".stl", box("stl")[:-30], "cut short"),
    "off of text": (".off", b"nothing of the kind", "not an OFF file"),
    "off that boasts": (".off", b"OFF\n8 999999999 0\n", "faces"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_files_are_refused_with_a_reason(tmp_path: Path, case: str) -> None:
    suffix, data, reason = CASES[case]
    path = tmp_path / "inner" / f"mesh{suffix}"
    path.parent.mkdir()
    path.write_bytes(data)
    (tmp_path / "secret.bin").write_bytes(bytes(10_000))
    with pytest.raises(MeshError, match=reason) as caught:
        load_model(path, LIMITS)
    assert "Traceback" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MeshError, match="no file"):
        load_model(tmp_path / "gone.glb")


def test_an_obj_may_not_read_outside_its_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.mtl").write_text("newmtl a\nKd 1 0 0\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "m.obj").write_text("mtllib ../secret.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nusemtl a\nf 1 2 3\n")
    with pytest.raises(MeshError, match="outside its folder"):
        load_model(inner / "m.obj")


def test_a_link_may_not_lead_outside(tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(1000))
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "data.bin").symlink_to(tmp_path / "secret.bin")
    (inner / "m.gltf").write_bytes(CASES["a buffer that is missing"][1].replace(b"gone.bin", b"data.bin"))
    with pytest.raises(MeshError, match="outside its folder"):
        load_model(inner / "m.gltf")


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


def originals() -> list[tuple[str, bytes]]:
    glb = Glb()
    texture = {"index": glb.texture(np.zeros((4, 4, 3), np.uint8))}
    glb.square(glb.material(pbr={"baseColorTexture": texture}, normalTexture=texture))
    return [(".glb", glb.bytes()), *((f".{suffix}", box(suffix)) for suffix in ("obj", "ply", "stl", "off"))]


@pytest.mark.parametrize(("suffix", "data"), originals(), ids=[suffix for suffix, _ in originals()])
def test_mutated_files_are_drawn_or_refused(tmp_path: Path, suffix: str, data: bytes) -> None:
    random = np.random.default_rng(17)
    path = tmp_path / f"mesh{suffix}"
    outcomes: set[str] = set()
    for _ in range(60):
        path.write_bytes(mutated(data, random))
        try:
            load_model(path)
            outcomes.add("drawn")
        except MeshError as error:
            outcomes.add("refused" if str(error) else "without a word")
    assert outcomes == {"drawn", "refused"}


def mutated(data: bytes, random: np.random.Generator) -> bytes:
    """A few bytes changed, or an end cut off, or a piece doubled."""
    kind, place = random.integers(3), int(random.integers(len(data)))
    if kind == 0:
        return data[:place]
    if kind == 1:
        return data[:place] + data[place // 2 :]
    changed = np.frombuffer(data, np.uint8).copy()
    where = random.integers(0, len(data), random.integers(1, 8))
    changed[where] = random.integers(0, 256, len(where), np.uint8)
    return changed.tobytes()


def saved(folder: Path, name: str, data: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def extent(model: MeshModel) -> list[float]:
    """Width, height and depth, the largest of them 1."""
    size = np.ptp(model.vertices, axis=0)
    return [round(float(one), 3) for one in size / size.max()]


class TestUpAxis:
    def test_a_guess_says_that_it_is_one(self, tmp_path: Path) -> None:
        trimesh.creation.box().export(tmp_path / "b.ply")
        model = load_model(tmp_path / "b.ply")
        assert (model.up, "guess" in model.up_reason) == ("y", True)

    def test_ply_of_blender_is_z_up(self, tmp_path: Path) -> None:
        trimesh.creation.box((1, 2, 4)).export(tmp_path / "b.ply")
        data = (tmp_path / "b.ply").read_bytes().replace(b"ply\n", b"ply\ncomment Created in Blender\n", 1)
        data = data.replace(b"format binary_little_endian 1.0\n", b"", 1).replace(
            b"ply\n", b"ply\nformat binary_little_endian 1.0\n", 1
        )
        model = load_model(saved(tmp_path, "b.ply", data))
        assert (model.up, extent(model)) == ("z", [0.25, 1, 0.5])

    def test_the_callers_word_counts_most(self, tmp_path: Path) -> None:
        trimesh.creation.box().export(tmp_path / "b.stl")
        assert load_model(tmp_path / "b.stl", up="y").up_reason == "as told"
