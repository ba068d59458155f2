"""Faces and the samples that they cover, counted in the pixels of whole pictures."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Bool, Float32, Float64

from renderers import cameras
from renderers.contracts import MeshMaterial, MeshModel, Rig
from renderers.images.color import to_linear, to_srgb
from renderers.raster.renderer import SoftwareRenderer

PIXELS, SIDE = 8, 16  # pixels and samples along the picture
DISTANCE = 3.0
FRONT = Rig("front", cameras.look_at_origin(0.0, 0.0, DISTANCE)[None], 40.0)
ROUNDING = 1e-3  # samples; corners are float32


def coordinates() -> st.SearchStrategy[float]:
    return st.one_of(
        st.integers(-8, 40).map(lambda half: half / 2), st.floats(-4, 20, allow_nan=False, width=32)
    )


def corners() -> st.SearchStrategy[tuple[float, float, float]]:
    """x and y on the screen, in samples, and 1/distance."""
    return st.tuples(coordinates(), coordinates(), st.floats(0.27, 0.45))


def triangles(most: int) -> st.SearchStrategy[Float64[np.ndarray, "f 3 3"]]:
    return st.lists(st.tuples(corners(), corners(), corners()), min_size=1, max_size=most).map(np.array)


def shades(count: int) -> list[float]:
    """The light of each face, all different and darker than the background."""
    return [0.7 * number / count for number in range(count)]


def drawn(
    shapes: Float64[np.ndarray, "f 3 3"], lights: Sequence[float], alpha: float = 1.0
) -> Float32[np.ndarray, "h w"]:
    """The light of each pixel before white."""
    zoom = SIDE / 2 / np.tan(np.radians(FRONT.fov_degrees / 2))
    flat = shapes.reshape(-1, 3)
    x, y = (flat[:, 0] - SIDE / 2) / zoom / flat[:, 2], (SIDE / 2 - flat[:, 1]) / zoom / flat[:, 2]
    count = len(shapes)
    model = MeshModel(
        vertices=np.stack([x, y, DISTANCE - 1 / flat[:, 2]], axis=1).astype(np.float32),
        faces=np.arange(3 * count, dtype=np.int32).reshape(-1, 3),
        normals=np.tile(np.array([0, 0, 1], np.float32), (count, 3, 1)),
        uv=np.zeros((3 * count, 2), np.float32),
        colors=np.ones((3 * count, 4), np.float32),
        material_of=np.arange(count, dtype=np.int32),
        materials=tuple(
            MeshMaterial((light, light, light, alpha), unlit=True, alpha_mode="BLEND") for light in lights
        ),
    )
    return to_linear(SoftwareRenderer().render(model, FRONT, PIXELS)[0, ..., 0])


def in_pixels(samples: Float64[np.ndarray, "s s"]) -> Float64[np.ndarray, "h w"]:
    """The mean of the four samples of each pixel."""
    return np.asarray(samples.reshape(PIXELS, 2, PIXELS, 2).mean(axis=(1, 3)))


def signed_distances(shape: Float64[np.ndarray, "3 3"]) -> Float64[np.ndarray, "3 s s"]:
    """How far each sample lies inside each edge, in samples; negative outside."""
    y, x = np.mgrid[:SIDE, :SIDE] + 0.5
    inside = []
    for i in range(3):
        (ax, ay, _), (bx, by, _), (cx, cy, _) = shape[i], shape[(i + 1) % 3], shape[(i + 2) % 3]
        turn = np.sign((bx - ax) * (cy - ay) - (by - ay) * (cx - ax))
        length = np.hypot(bx - ax, by - ay) or 1.0
        inside.append(turn * ((bx - ax) * (y - ay) - (by - ay) * (x - ax)) / length)
    return np.array(inside)


def surely_inside(shape: Float64[np.ndarray, "3 3"]) -> Bool[np.ndarray, "s s"]:
    return np.asarray((signed_distances(shape) > ROUNDING).all(axis=0))


def surely_outside(shape: Float64[np.ndarray, "3 3"]) -> Bool[np.ndarray, "s s"]:
    y, x = np.mgrid[:SIDE, :SIDE] + 0.5
    beyond = (x < shape[:, 0].min() - ROUNDING) | (x > shape[:, 0].max() + ROUNDING)
    beyond |= (y < shape[:, 1].min() - ROUNDING) | (y > shape[:, 1].max() + ROUNDING)
    outside: Bool[np.ndarray, "s s"] = beyond | (signed_distances(shape) < -ROUNDING).any(axis=0)
    return outside


@given(triangles(1))
@settings(max_examples=60, deadline=None)
def test_a_triangle_covers_its_samples_and_no_others(shapes: Float64[np.ndarray, "f 3 3"]) -> None:
    covered = 1 - drawn(shapes, [0.0])
    assert (covered >= in_pixels(surely_inside(shapes[0]).astype(float)) - 0.01).all()
    assert (covered <= 1.01 - in_pixels(surely_outside(shapes[0]).astype(float))).all()


@given(triangles(6))
@settings(max_examples=40, deadline=None)
def test_the_nearest_face_wins(shapes: Float64[np.ndarray, "f 3 3"]) -> None:
    if any(needle(shape) for shape in shapes):
        return
    depths = np.array([plain_depth(shape) for shape in shapes])
    light = np.where(depths.max(axis=0) > 0, np.array(shades(len(shapes)))[depths.argmax(axis=0)], 1.0)
    doubtful = np.any([~surely_inside(shape) & ~surely_outside(shape) for shape in shapes], axis=0)
    if len(shapes) > 1:  # two faces at nearly the same depth
        nearest, second = np.sort(depths, axis=0)[[-1, -2]]
        doubtful |= (second > 0) & (nearest - second < 1e-5)
    sound = in_pixels(doubtful.astype(float)) == 0
    expected = to_srgb(in_pixels(light).astype(np.float32)).astype(int)
    assert (
        np.abs(to_srgb(drawn(shapes, shades(len(shapes)))).astype(int) - expected)[sound].max(initial=0) <= 1
    )


def plain_depth(shape: Float64[np.ndarray, "3 3"]) -> Float64[np.ndarray, "s s"]:
    """1/distance at each sample inside, 0 outside."""
    y, x = np.mgrid[:SIDE, :SIDE] + 0.5
    (ax, ay, az), (bx, by, bz), (cx, cy, cz) = shape
    area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
    b = ((x - ax) * (cy - ay) - (y - ay) * (cx - ax)) / area
    c = ((bx - ax) * (y - ay) - (by - ay) * (x - ax)) / area
    return np.where(surely_inside(shape), az + b * (bz - az) + c * (cz - az), 0)


def needle(shape: Float64[np.ndarray, "3 3"]) -> bool:
    """Too thin for its depth to be well defined."""
    first, second = shape[1, :2] - shape[0, :2], shape[2, :2] - shape[0, :2]
    return bool(abs(first[0] * second[1] - first[1] * second[0]) < 0.1)


@given(st.tuples(*[corners()] * 4))
@settings(max_examples=40, deadline=None)
def test_faces_that_share_an_edge_cover_each_sample_once(
    shape: tuple[tuple[float, float, float], ...],
) -> None:
    a, b, c, d = (np.array(corner) for corner in shape)
    if np.sign(side_of(a, c, b)) * np.sign(side_of(a, c, d)) >= 0:
        return  # b and d must lie on different sides of the shared edge a-c
    assert_covered_once(np.array([(a, b, c), (a, c, d)]))


def assert_covered_once(shapes: Float64[np.ndarray, "f 3 3"]) -> None:
    """Each sample is seen through one black pane at most."""
    light = drawn(shapes, [0.0] * len(shapes), alpha=0.4)
    once = np.array([1 - 0.4 * samples / 4 for samples in range(5)])
    assert np.abs(light[..., None] - once).min(axis=-1).max() < 0.01


def side_of(a: Float64[np.ndarray, "3"], c: Float64[np.ndarray, "3"], p: Float64[np.ndarray, "3"]) -> float:
    return float((c[0] - a[0]) * (p[1] - a[1]) - (c[1] - a[1]) * (p[0] - a[0]))


def test_a_fan_leaves_no_gap_in_the_middle() -> None:
    angles = np.linspace(0, 2 * np.pi, 13)
    rim = np.stack([8 + 7 * np.cos(angles), 8 + 7 * np.sin(angles), np.full(13, 0.3)], axis=1)
    hub = np.array([8.1, 7.9, 0.33])
    fan = np.array([(hub, rim[i], rim[i + 1]) for i in range(12)])
    y, x = np.mgrid[:PIXELS, :PIXELS] * 2 + 1.0
    inside = np.hypot(x - 8, y - 8) < 5.5
    assert drawn(fan, [0.0] * len(fan))[inside].max() < 0.01
    assert_covered_once(fan)
