"""Known colours at known pixels, and pictures in `tests/golden/views` that another program drew.

That program was a rasteriser in plain numpy, from commit 3395f2f of this repository.
"""

from pathlib import Path

import numpy as np
import pytest
import trimesh
from PIL import Image

from multifold.errors import MultifoldError
from renderers import cameras
from renderers.contracts import AlphaMode, Background, MeshError, Views
from renderers.images.color import to_linear, to_srgb
from renderers.mesh.load import load_model
from renderers.raster.renderer import SoftwareRenderer
from tests.renderers.glb import SQUARE_FACES, SQUARE_UV, Glb, textured, unlit
from tests.renderers.scenes import GOLDEN, RIG, curtain, scene
from tests.renderers.seeing import BLUE, FRONT, GREEN, RED, SIZE, WHITE, front, seen_at

GOLDEN_VIEWS = Path(__file__).parents[2] / "golden" / "views"

FOUR = np.array([[RED, GREEN], [BLUE, (10, 20, 30)]], np.uint8).repeat(8, axis=0).repeat(8, axis=1)


def square_of(pixels: np.ndarray, **reference: object) -> Glb:
    glb = Glb()
    glb.square(textured(glb, glb.texture(pixels), **reference))
    return glb


def byte_of(light: float) -> int:
    """What a share of the light becomes in a picture."""
    return int(to_srgb(np.array([light], np.float32))[0])


def test_a_texture_stands_upright_and_keeps_its_colours(tmp_path: Path) -> None:
    views = front(square_of(FOUR).save(tmp_path))
    assert views.shape == (1, SIZE, SIZE, 3)
    quarters = [seen_at(views, x, y) for y in (0.35, -0.35) for x in (-0.35, 0.35)]
    assert quarters == [RED, GREEN, BLUE, (10, 20, 30)]
    assert seen_at(views, 0.95, 0.0) == WHITE


def test_the_background_can_be_black(tmp_path: Path) -> None:
    views = front(square_of(FOUR).save(tmp_path), background="black")
    assert seen_at(views, 0.95, 0.0) == (0, 0, 0)
    assert seen_at(views, 0.35, 0.35) == GREEN


def test_edges_are_smooth_and_averaged_in_linear_light(tmp_path: Path) -> None:
    glb = Glb()
    glb.square(unlit(glb, (0, 0, 0, 1)), rotation=[0, 0, 0.1, 0.995])
    picture = front(glb.save(tmp_path))[0, ..., 0]
    assert set(np.unique(picture).tolist()) == {byte_of(share / 4) for share in range(5)}


def test_material_colour_and_vertex_colour_multiply_in_linear_light(tmp_path: Path) -> None:
    glb = Glb()
    colors = np.tile(np.array([0.5, 1.0, 0.25], np.float32), (4, 1))
    glb.surface({"COLOR_0": colors}, material=unlit(glb, (0.5, 0.5, 1.0, 1.0)))
    assert seen_at(front(glb.save(tmp_path)), 0.0, 0.0) == tuple(map(byte_of, (0.25, 0.5, 0.25)))


def test_cut_outs_show_what_is_behind(tmp_path: Path) -> None:
    glb = Glb()
    holes = np.zeros((16, 16, 4), np.uint8)
    holes[:, :8] = (255, 0, 0, 255)
    texture = {"index": glb.texture(holes)}
    glb.square(unlit(glb, alphaMode="MASK", pbr={"baseColorTexture": texture}), z=0.01)
    glb.square(unlit(glb, (0, 0, 1, 1)), z=-0.01)
    views = front(glb.save(tmp_path))
    assert [seen_at(views, x, 0.0) for x in (-0.35, 0.35)] == [RED, BLUE]


CLEAR_RED, CLEAR_GREEN, CLEAR_BLACK = (1, 0, 0, 0.5), (0, 1, 0, 0.5), (0, 0, 0, 0.25)
SOLID_RED, SOLID_GREEN, SOLID_BLUE = (1, 0, 0, 1), (0, 1, 0, 1), (0, 0, 1, 1)


@pytest.mark.parametrize(
    ("panes", "light"),
    [
        ((CLEAR_RED, CLEAR_GREEN, SOLID_BLUE), (0.5, 0.25, 0.25)),
        ((CLEAR_BLACK,), (0.75, 0.75, 0.75)),  # before the background
        ((SOLID_RED, SOLID_GREEN), (1, 0, 0)),  # which says that it blends, and hides what is behind
    ],
)
def test_glass_is_laid_over_from_far_to_near(
    tmp_path: Path, panes: tuple[tuple[float, ...], ...], light: tuple[float, ...]
) -> None:
    placed = [(color, -0.02 * number) for number, color in enumerate(panes)]
    for order in (placed, placed[::-1]):
        glb = Glb()
        for color, z in order:
            glb.square(unlit(glb, color, alphaMode="BLEND"), z=z)
        assert seen_at(front(glb.save(tmp_path)), 0.1, 0.2) == tuple(map(byte_of, light))


def test_a_texture_transform_moves_turns_and_scales(tmp_path: Path) -> None:
    half = {"offset": [0.5, 0.5], "scale": [0.5, 0.5]}
    views = front(square_of(FOUR, extensions={"KHR_texture_transform": half}).save(tmp_path))
    assert {seen_at(views, x, y) for x in (-0.35, 0.35) for y in (-0.35, 0.35)} == {(10, 20, 30)}
    turned = {"rotation": np.pi / 2, "offset": [0.0, 1.0]}  # a quarter turn, as the specification draws it
    views = front(square_of(FOUR, extensions={"KHR_texture_transform": turned}).save(tmp_path))
    assert [seen_at(views, x, 0.35) for x in (-0.35, 0.35)] == [BLUE, RED]


@pytest.mark.parametrize(
    ("wrap", "expected"), [(10497, [RED, GREEN]), (33648, [GREEN, RED]), (33071, [GREEN, GREEN])]
)
def test_beyond_its_edge_a_texture_repeats_mirrors_or_stops(
    tmp_path: Path, wrap: int, expected: list[tuple[int, int, int]]
) -> None:
    glb = Glb()
    uv = SQUARE_UV * np.array([1, 0.4], np.float32) + np.array([1, 0.3], np.float32)
    glb.surface({"TEXCOORD_0": uv}, material=textured(glb, glb.texture(FOUR[:8], wrapS=wrap)))
    views = front(glb.save(tmp_path))
    assert [seen_at(views, x, 0.1) for x in (-0.35, 0.35)] == expected


def test_small_pictures_of_fine_textures_are_even(tmp_path: Path) -> None:
    checks = np.indices((256, 256)).sum(axis=0)[..., None] % 2 * np.full(3, 255)
    views = front(square_of(checks.astype(np.uint8)).save(tmp_path), size=32)
    middle = views[0, 12:20, 12:20].astype(int)
    assert np.abs(middle - byte_of(0.5)).max() <= 1


def lit_square(tmp_path: Path, normal_map: tuple[int, int, int] | None, doubled: bool = False) -> int:
    """How bright a matt grey square is, facing us."""
    glb = Glb()
    bumps = {}
    if normal_map is not None:
        pixels = np.full((4, 4, 3), normal_map, np.uint8)
        bumps = {"normalTexture": {"index": glb.texture(pixels)}}
    material = glb.material((0.5, 0.5, 0.5, 1), **bumps)
    glb.square(material)
    if doubled:
        glb.surface(indices=np.ascontiguousarray(SQUARE_FACES[::-1]), material=material)
    return sum(seen_at(front(glb.save(tmp_path)), 0.1, 0.1))


def test_doubled_faces_are_lit_like_single_ones(tmp_path: Path) -> None:
    assert lit_square(tmp_path, None, doubled=True) == lit_square(tmp_path, None)


def test_a_normal_map_leans_the_surface_as_gltf_says(tmp_path: Path) -> None:
    flat, up, down = (lit_square(tmp_path, (128, green, 255)) for green in (128, 220, 36))
    left, right = (lit_square(tmp_path, (red, 128, 255)) for red in (36, 220))
    assert abs(flat - lit_square(tmp_path, None)) <= 3
    assert up > flat > down  # the key light stands above
    assert left > right  # and to the left of the camera


def test_every_side_of_a_ball_is_lit_alike(tmp_path: Path) -> None:
    path = tmp_path / "ball.ply"
    trimesh.creation.icosphere(subdivisions=3).export(path)
    views = SoftwareRenderer().render(load_model(path), cameras.rig("ring4@0"), SIZE).astype(int)
    assert np.abs(views - views[0]).mean() < 1
    row = views[0, SIZE // 2, :, 0]
    inside = np.flatnonzero(row < 250)
    assert np.abs(np.diff(row[inside][3:-3])).max() < 12  # smooth, no facets


def test_a_picture_of_no_size_is_refused(tmp_path: Path) -> None:
    model = load_model(square_of(FOUR).save(tmp_path))
    for size in (0, 7, 5000):
        with pytest.raises(MultifoldError, match="pixels"):
            SoftwareRenderer().render(model, FRONT, size)


@pytest.mark.parametrize("name", GOLDEN)
def test_pictures_are_the_golden_ones(name: str) -> None:
    make, size, background = GOLDEN[name]
    views = SoftwareRenderer().render(make(), RIG, size, background)
    with Image.open(GOLDEN_VIEWS / f"{name}.png") as golden:
        difference = np.abs(np.concatenate(list(views), axis=1).astype(int) - np.asarray(golden))
    assert difference.max() <= 1
    assert (difference > 0).mean() < 1e-3


def test_pictures_are_the_same_each_time() -> None:
    renderer = SoftwareRenderer()
    first = renderer.render(scene(5), RIG, SIZE)
    renderer.render(scene(6), RIG, SIZE)
    assert (renderer.render(scene(5), RIG, SIZE) == first).all()


@pytest.mark.parametrize(("mode", "reason"), [("BLEND", "transparent"), ("OPAQUE", "large faces")])
def test_too_much_is_refused_before_memory_is_spent(mode: AlphaMode, reason: str) -> None:
    with pytest.raises(MeshError, match=reason):
        SoftwareRenderer().render(curtain(60, mode), RIG, 2048)


def cut_out(folder: Path, background: Background) -> Views:
    """A tilted red square, with blue glass before a part of it."""
    glb = Glb()
    glb.square(unlit(glb, (1, 0, 0, 1)), rotation=[0, 0, 0.1, 0.995])
    glb.square(unlit(glb, (0, 0, 1, 0.5), alphaMode="BLEND"), z=0.2, scale=0.8, translation=[0.7, 0, 0.2])
    return front(glb.save(folder), background=background)


@pytest.mark.parametrize(("background", "ground"), [("white", 1.0), ("black", 0.0)])
def test_laid_on_a_ground_it_is_the_picture_drawn_there(
    tmp_path: Path, background: Background, ground: float
) -> None:
    cut, opaque = cut_out(tmp_path, "transparent"), cut_out(tmp_path, background)
    assert cut.shape == (1, SIZE, SIZE, 4)
    alpha = cut[..., 3:].astype(np.float32) / 255
    laid = to_linear(cut[..., :3]) * alpha + np.float32(ground) * (1 - alpha)
    assert np.abs(laid - to_linear(opaque)).max() < 0.006


def test_edges_keep_the_colour_of_what_is_there(tmp_path: Path) -> None:
    cut = cut_out(tmp_path, "transparent")[0]
    edges = cut[(cut[..., 3] > 0) & (cut[..., 3] < 255) & (cut[..., 2] == 0)]
    assert len(edges) > 10
    assert (edges[:, 0] == 255).all()  # red to the rim, neither darkened nor whitened


def test_alpha_is_what_is_covered(tmp_path: Path) -> None:
    cut = cut_out(tmp_path, "transparent")
    alphas = set(np.unique(cut[..., 3]).tolist())
    assert {0, 255, 64, 128, 191} <= alphas  # quarters of pixels; glass lets half the light through
    assert (cut[cut[..., 3] == 0] == 0).all()
    assert seen_at(cut[..., :3], -0.3, 0.0) == RED
