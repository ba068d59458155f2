"""Materials of glTF: sets of coordinates, maps and their strengths."""

from pathlib import Path

import numpy as np
import pytest

from renderers.mesh.load import load_model
from tests.renderers.glb import SQUARE, SQUARE_FACES, SQUARE_UV, Glb, unlit
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


def test_specular_glossiness(tmp_path: Path) -> None:
    glb = Glb()
    gloss = {"diffuseTexture": {"index": glb.texture(TOP_RED)}, "glossinessFactor": 0.25}
    material = glb.add("materials", extensions={"KHR_materials_pbrSpecularGlossiness": gloss})
    glb.square(material)
    path = glb.save(tmp_path)
    assert load_model(path).materials[0].roughness == 0.75
    upper = seen_at(front(path), 0.0, 0.5)
    assert upper[0] > 100 > 60 > upper[2]
