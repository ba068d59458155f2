"""Transparent pictures: laid on white or black they are the pictures drawn there."""

from pathlib import Path

import numpy as np
import pytest
from jaxtyping import Float32, UInt8

from renderers.contracts import Background, Views, channel_count
from renderers.images.color import compose_on_background, to_linear, to_srgb
from renderers.mesh.load import load_model
from renderers.raster.renderer import SoftwareRenderer
from tests.renderers.glb import Glb, unlit
from tests.renderers.seeing import FRONT, SIZE, seen_at


def drawn(folder: Path, background: Background) -> Views:
    """A tilted red square, with blue glass before a part of it."""
    glb = Glb()
    glb.square(unlit(glb, (1, 0, 0, 1)), rotation=[0, 0, 0.1, 0.995])
    glb.square(unlit(glb, (0, 0, 1, 0.5), alphaMode="BLEND"), z=0.2, scale=0.8, translation=[0.7, 0, 0.2])
    return SoftwareRenderer().render(load_model(glb.save(folder)), FRONT, SIZE, background)


def light_on(cut: UInt8[np.ndarray, "v h w 4"], ground: float) -> Float32[np.ndarray, "v h w 3"]:
    """A transparent picture laid on a ground of this much light."""
    alpha = cut[..., 3:].astype(np.float32) / 255
    return to_linear(cut[..., :3]) * alpha + np.float32(ground) * (1 - alpha)


@pytest.mark.parametrize(("background", "ground"), [("white", 1.0), ("black", 0.0)])
def test_laid_on_a_ground_it_is_the_picture_drawn_there(
    tmp_path: Path, background: Background, ground: float
) -> None:
    cut, opaque = drawn(tmp_path, "transparent"), drawn(tmp_path, background)
    assert cut.shape == (1, SIZE, SIZE, 4)
    assert np.abs(light_on(cut, ground) - to_linear(opaque)).max() < 0.006


def test_edges_keep_the_colour_of_what_is_there(tmp_path: Path) -> None:
    cut = drawn(tmp_path, "transparent")[0]
    edges = cut[(cut[..., 3] > 0) & (cut[..., 3] < 255) & (cut[..., 2] == 0)]
    assert len(edges) > 10
    assert (edges[:, 0] == 255).all()  # red to the rim, neither darkened nor whitened


def test_alpha_is_what_is_covered(tmp_path: Path) -> None:
    cut = drawn(tmp_path, "transparent")
    alphas = set(np.unique(cut[..., 3]).tolist())
    assert {0, 255, 64, 128, 191} <= alphas  # quarters of pixels; glass lets half the light through
    assert (cut[cut[..., 3] == 0] == 0).all()
    assert seen_at(cut[..., :3], -0.3, 0.0) == (255, 0, 0)


def test_what_glows_before_nothing_is_not_lost() -> None:
    light = np.array([[0.5, 0.25, 0.0]], np.float32)
    red, green, blue, alpha = compose_on_background("transparent", light, np.array([0.5], np.float32))[0]
    assert (red, green, blue, alpha) == (255, int(to_srgb(np.array([0.5], np.float32))[0]), 0, 128)


def test_channels() -> None:
    assert [channel_count(one) for one in ("white", "black", "transparent")] == [3, 3, 4]
