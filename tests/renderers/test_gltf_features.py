"""What glTF's extensions and samplers make of a surface: known colours at known places."""

from pathlib import Path

import meshopt
import numpy as np
import pytest

from multifold.errors import MissingExtraError
from renderers.contracts import MeshError, MeshLimits
from renderers.mesh.load import load_model
from tests.renderers.glb import SQUARE, SQUARE_FACES, SQUARE_UV, Glb, unlit
from tests.renderers.made import ktx2
from tests.renderers.seeing import front, seen_at

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)
LEFT_RED = np.array([[RED, BLUE]], np.uint8)
TOP_RED = np.array([[RED], [BLUE]], np.uint8).repeat(8, axis=0)
NEAREST, LINEAR = 9728, 9729


def textured(glb: Glb, texture: int, **reference: object) -> int:
    return unlit(glb, pbr={"baseColorTexture": {"index": texture, **reference}})


@pytest.mark.parametrize(("magnify", "sharp"), [(NEAREST, True), (LINEAR, False)])
def test_nearest_texels_have_sharp_edges(tmp_path: Path, magnify: int, sharp: bool) -> None:
    glb = Glb()
    glb.square(textured(glb, glb.texture(LEFT_RED, magFilter=magnify, wrapS=33071)))
    views = front(glb.save(tmp_path))
    assert (seen_at(views, -0.2, 0.0) == RED) is sharp
    assert (seen_at(views, 0.2, 0.0) == BLUE) is sharp
    assert seen_at(views, -0.6, 0.0) == RED


def two_sets(glb: Glb, **material: object) -> None:
    """A square with the picture upright in its first set and turned upside down in its second."""
    upside_down = np.ascontiguousarray(SQUARE_UV[[2, 3, 0, 1]])
    attributes = {
        "POSITION": glb.accessor(SQUARE),
        "TEXCOORD_0": glb.accessor(SQUARE_UV),
        "TEXCOORD_1": glb.accessor(upside_down),
    }
    number = glb.add("materials", extensions={"KHR_materials_unlit": {}}, **material)
    glb.place(glb.mesh(attributes, indices=glb.accessor(SQUARE_FACES), material=number))


@pytest.mark.parametrize(
    "reference", [{"texCoord": 1}, {"extensions": {"KHR_texture_transform": {"texCoord": 1}}}]
)
def test_the_second_set_of_coordinates(tmp_path: Path, reference: dict[str, object]) -> None:
    glb = Glb()
    two_sets(glb, pbrMetallicRoughness={"baseColorTexture": {"index": glb.texture(TOP_RED), **reference}})
    views = front(glb.save(tmp_path))
    assert seen_at(views, 0.0, -0.5) == RED
    assert seen_at(views, 0.0, 0.5) == BLUE


def test_two_sets_in_one_material(tmp_path: Path) -> None:
    glb = Glb()
    base, glow = glb.texture(np.zeros((1, 1, 3), np.uint8)), glb.texture(TOP_RED)
    two_sets(
        glb,
        pbrMetallicRoughness={"baseColorTexture": {"index": base}, "metallicFactor": 0},
        emissiveTexture={"index": glow, "texCoord": 1},
        emissiveFactor=[1, 1, 1],
    )
    del glb.tree["materials"][0]["extensions"]
    views = front(glb.save(tmp_path))
    upper, lower = seen_at(views, 0.0, 0.5), seen_at(views, 0.0, -0.5)
    assert lower[0] == 255 > lower[2] + 150
    assert upper[2] == 255 > upper[0] + 150


def test_a_normal_map_in_one_set_and_color_in_another(tmp_path: Path) -> None:
    glb = Glb()
    flat = glb.texture(np.array([[(128, 128, 255)]], np.uint8))
    two_sets(
        glb,
        pbrMetallicRoughness={"baseColorTexture": {"index": glb.texture(TOP_RED), "texCoord": 1}},
        normalTexture={"index": flat},
    )
    views = front(glb.save(tmp_path))
    assert seen_at(views, 0.0, -0.5) == RED
    assert seen_at(views, 0.0, 0.5) == BLUE


def test_a_third_set_is_noted(tmp_path: Path) -> None:
    glb = Glb()
    texture = glb.texture(TOP_RED)
    two_sets(
        glb,
        normalTexture={"index": texture},
        occlusionTexture={"index": texture, "texCoord": 1},
        emissiveTexture={"index": texture, "texCoord": 2},
    )
    assert "TEXCOORD_2" in load_model(glb.save(tmp_path)).notes[0]


@pytest.mark.parametrize(("scale", "changed"), [(0.0, False), (1.0, True)])
def test_the_scale_of_a_normal_map(tmp_path: Path, scale: float, changed: bool) -> None:
    plain, bumpy = Glb(), Glb()
    plain.square(plain.material())
    leaning = bumpy.texture(np.array([[(230, 128, 200)]], np.uint8))
    bumpy.square(bumpy.material(normalTexture={"index": leaning, "scale": scale}))
    before, after = (seen_at(front(glb.save(tmp_path)), 0, 0) for glb in (plain, bumpy))
    assert (abs(before[0] - after[0]) > 5) is changed


@pytest.mark.parametrize(("strength", "darker"), [(0.0, False), (1.0, True)])
def test_the_strength_of_occlusion(tmp_path: Path, strength: float, darker: bool) -> None:
    plain, occluded = Glb(), Glb()
    plain.square(plain.material())
    black = occluded.texture(np.zeros((1, 1, 3), np.uint8))
    occluded.square(occluded.material(occlusionTexture={"index": black, "strength": strength}))
    before, after = (seen_at(front(glb.save(tmp_path)), 0, 0) for glb in (plain, occluded))
    assert (after[0] < before[0] - 10) is darker


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


def test_ktx2(tmp_path: Path) -> None:
    glb = Glb()
    glb.square(textured(glb, glb.basis(ktx2((*RED, 255), (*BLUE, 255)))))
    glb.tree["extensionsRequired"] = ["KHR_texture_basisu"]
    views = front(glb.save(tmp_path))
    assert seen_at(views, 0.0, 0.5) == RED
    assert seen_at(views, 0.0, -0.5) == BLUE


def test_ktx2_that_is_cut_short_is_done_without(tmp_path: Path) -> None:
    for length in (20, 90, 130, 170):
        glb = Glb()
        glb.square(textured(glb, glb.basis(ktx2((*RED, 255))[:length])))
        assert "KTX2" in load_model(glb.save(tmp_path)).notes[0]


def test_ktx2_that_boasts(tmp_path: Path) -> None:
    data = bytearray(ktx2((*RED, 255)))
    data[20:28] = (1 << 20).to_bytes(4, "little") * 2
    glb = Glb()
    glb.square(textured(glb, glb.basis(bytes(data))))
    with pytest.raises(MeshError, match="pixels in one texture"):
        load_model(glb.save(tmp_path))


def test_ktx2_without_its_decoder_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opengl_basisu", None)
    glb = Glb()
    glb.square(textured(glb, glb.basis(ktx2((*RED, 255)))))
    with pytest.raises(MissingExtraError, match="ktx2"):
        load_model(glb.save(tmp_path))


def test_instances(tmp_path: Path) -> None:
    glb = Glb()
    node = glb.square(unlit(glb, (1, 0, 0, 1)))
    places = glb.accessor(np.array([(0, 0, 0), (3, 0, 0)], np.float32))
    scales = glb.accessor(np.array([(1, 1, 1), (1, 2, 1)], np.float32))
    attributes = {"TRANSLATION": places, "SCALE": scales}
    glb.tree["nodes"][node]["extensions"] = {"EXT_mesh_gpu_instancing": {"attributes": attributes}}
    path = glb.save(tmp_path)
    model = load_model(path)
    assert len(model.faces) == 4
    width, height, _ = np.ptp(model.vertices, axis=0)
    assert width / height == pytest.approx(5 / 4)
    with pytest.raises(MeshError, match="2 instances"):
        load_model(path, MeshLimits(instances=1))


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


def test_specular_glossiness(tmp_path: Path) -> None:
    glb = Glb()
    gloss = {"diffuseTexture": {"index": glb.texture(TOP_RED)}, "glossinessFactor": 0.25}
    material = glb.add("materials", extensions={"KHR_materials_pbrSpecularGlossiness": gloss})
    glb.square(material)
    path = glb.save(tmp_path)
    assert load_model(path).materials[0].roughness == 0.75
    upper = seen_at(front(path), 0.0, 0.5)
    assert upper[0] > 100 > 60 > upper[2]


def test_a_glb_called_gltf(tmp_path: Path) -> None:
    glb = Glb()
    glb.square(unlit(glb, (0, 1, 0, 1)))
    assert seen_at(front(glb.save(tmp_path, "mesh.gltf")), 0, 0) == GREEN
