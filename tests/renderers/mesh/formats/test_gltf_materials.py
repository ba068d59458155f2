"""Materials of glTF: sets of coordinates, maps and their strengths."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from renderers.mesh.load import load_model
from tests.renderers.glb import SQUARE_UV, Glb, textured
from tests.renderers.seeing import BLUE, RED, TOP_RED, front, hue_at, seen_at

LEFT_RED = np.array([[RED, BLUE]], np.uint8)
NEAREST, LINEAR = 9728, 9729


@pytest.mark.parametrize(("magnify", "sharp"), [(NEAREST, True), (LINEAR, False)])
def test_nearest_texels_have_sharp_edges(tmp_path: Path, magnify: int, sharp: bool) -> None:
    glb = Glb()
    glb.square(textured(glb, glb.texture(LEFT_RED, magFilter=magnify, wrapS=33071)))
    views = front(glb.save(tmp_path))
    assert (seen_at(views, -0.2, 0.0) == RED) is sharp
    assert (seen_at(views, 0.2, 0.0) == BLUE) is sharp
    assert seen_at(views, -0.6, 0.0) == RED


def two_sets(glb: Glb, material: dict[str, Any], unlit: bool = True) -> None:
    """A square with the picture upright in its first set and turned upside down in its second."""
    upside_down = np.ascontiguousarray(SQUARE_UV[[2, 3, 0, 1]])
    extensions: dict[str, Any] = {"KHR_materials_unlit": {}} if unlit else {}
    number = glb.add("materials", extensions=extensions, **material)
    glb.surface({"TEXCOORD_0": SQUARE_UV, "TEXCOORD_1": upside_down}, material=number)


@pytest.mark.parametrize(
    ("reference", "bumpy"),
    [
        ({"texCoord": 1}, False),
        ({"extensions": {"KHR_texture_transform": {"texCoord": 1}}}, False),
        ({"texCoord": 1}, True),  # with a normal map in the first set
    ],
)
def test_the_second_set_of_coordinates(tmp_path: Path, reference: dict[str, Any], bumpy: bool) -> None:
    glb = Glb()
    looks: dict[str, Any] = {"baseColorTexture": {"index": glb.texture(TOP_RED), **reference}}
    flat = np.array([[(128, 128, 255)]], np.uint8)
    more = {"normalTexture": {"index": glb.texture(flat)}} if bumpy else {}
    two_sets(glb, {"pbrMetallicRoughness": looks, **more})
    views = front(glb.save(tmp_path))
    assert (seen_at(views, 0.0, -0.5), seen_at(views, 0.0, 0.5)) == (RED, BLUE)


def test_two_sets_in_one_material(tmp_path: Path) -> None:
    glb = Glb()
    base, glow = glb.texture(np.zeros((1, 1, 3), np.uint8)), glb.texture(TOP_RED)
    material = {
        "pbrMetallicRoughness": {"baseColorTexture": {"index": base}, "metallicFactor": 0},
        "emissiveTexture": {"index": glow, "texCoord": 1},
        "emissiveFactor": [1, 1, 1],
    }
    two_sets(glb, material, unlit=False)
    views = front(glb.save(tmp_path))
    upper, lower = seen_at(views, 0.0, 0.5), seen_at(views, 0.0, -0.5)
    assert lower[0] == 255 > lower[2] + 150
    assert upper[2] == 255 > upper[0] + 150


def test_a_third_set_is_noted(tmp_path: Path) -> None:
    glb = Glb()
    maps = ("normalTexture", "occlusionTexture", "emissiveTexture")
    texture = glb.texture(TOP_RED)
    two_sets(glb, {name: {"index": texture, "texCoord": place} for place, name in enumerate(maps)})
    assert "TEXCOORD_2" in load_model(glb.save(tmp_path)).notes[0]


@pytest.mark.parametrize("strength", [0.0, 1.0])
@pytest.mark.parametrize(
    ("name", "key", "pixel"),
    [("normalTexture", "scale", (230, 128, 200)), ("occlusionTexture", "strength", (0, 0, 0))],
)
def test_maps_have_a_strength(
    tmp_path: Path, name: str, key: str, pixel: tuple[int, int, int], strength: float
) -> None:
    plain, mapped = Glb(), Glb()
    plain.square(plain.material())
    texture = mapped.texture(np.array([[pixel]], np.uint8))
    reference: dict[str, Any] = {name: {"index": texture, key: strength}}
    mapped.square(mapped.material(**reference))
    before, after = (seen_at(front(glb.save(tmp_path)), 0, 0)[0] for glb in (plain, mapped))
    if name == "normalTexture":
        assert (abs(before - after) > 5) is bool(strength)
    else:
        assert (after < before - 10) is bool(strength)


def test_specular_glossiness(tmp_path: Path) -> None:
    glb = Glb()
    gloss = {"diffuseTexture": {"index": glb.texture(TOP_RED)}, "glossinessFactor": 0.25}
    glb.square(glb.add("materials", extensions={"KHR_materials_pbrSpecularGlossiness": gloss}))
    path = glb.save(tmp_path)
    assert load_model(path).materials[0].roughness == 0.75
    assert hue_at(front(path), 0.0, 0.5) == "red"
