"""The rasteriser against its plain version: every sample, every face, one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Bool, Float64, Int64

from renderers.raster import spans

SIDE = 16
RANGE = (1.0, 0.25)


def coordinates() -> st.SearchStrategy[float]:
    return st.one_of(
        st.integers(-8, 40).map(lambda half: half / 2), st.floats(-4, 20, allow_nan=False, width=32)
    )


def corners() -> st.SearchStrategy[tuple[float, float, float]]:
    return st.tuples(coordinates(), coordinates(), st.floats(0.3, 0.95))


def triangles(most: int) -> st.SearchStrategy[Float64[np.ndarray, "f 3 3"]]:
    return st.lists(st.tuples(corners(), corners(), corners()), min_size=1, max_size=most).map(np.array)


def drawn(shapes: Float64[np.ndarray, "f 3 3"]) -> Int64[np.ndarray, "s s"]:
    keys = np.zeros(SIDE * SIDE, np.int64)
    spans.draw_nearest(keys, rows(shapes))
    return keys.reshape(SIDE, SIDE)


def rows(shapes: Float64[np.ndarray, "f 3 3"]) -> spans.FaceSpans:
    faces = np.arange(3 * len(shapes), dtype=np.int32).reshape(-1, 3)
    return spans.spans_of_faces(shapes.reshape(1, -1, 3), faces, np.arange(len(shapes)), SIDE, RANGE)


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
    return np.asarray((signed_distances(shape) > 1e-6).all(axis=0))


def surely_outside(shape: Float64[np.ndarray, "3 3"]) -> Bool[np.ndarray, "s s"]:
    y, x = np.mgrid[:SIDE, :SIDE] + 0.5
    beyond = (x < shape[:, 0].min() - 1e-6) | (x > shape[:, 0].max() + 1e-6)
    beyond |= (y < shape[:, 1].min() - 1e-6) | (y > shape[:, 1].max() + 1e-6)
    outside: Bool[np.ndarray, "s s"] = beyond | (signed_distances(shape) < -1e-6).any(axis=0)
    return outside


@given(triangles(1))
@settings(max_examples=60, deadline=None)
def test_a_triangle_covers_its_samples_and_no_others(shapes: Float64[np.ndarray, "f 3 3"]) -> None:
    covered = drawn(shapes) > 0
    assert covered[surely_inside(shapes[0])].all()
    assert not covered[surely_outside(shapes[0])].any()


@given(triangles(6))
@settings(max_examples=40, deadline=None)
def test_the_nearest_face_wins(shapes: Float64[np.ndarray, "f 3 3"]) -> None:
    faces = spans.faces_of(drawn(shapes))
    depths = np.array([plain_depth(shape) for shape in shapes])
    best = depths.max(axis=0)
    shown = np.take_along_axis(depths, np.maximum(faces, 0)[None].astype(np.int64), axis=0)[0]
    edge = np.any([~surely_inside(shape) & ~surely_outside(shape) for shape in shapes], axis=0)
    sliver = np.any([needle(shape) for shape in shapes])
    sound = ~edge & (best > 0) & (not sliver)
    assert (shown[sound] >= best[sound] - 1e-6).all()


def plain_depth(shape: Float64[np.ndarray, "3 3"]) -> Float64[np.ndarray, "s s"]:
    """1/distance at each sample inside, 0 outside."""
    y, x = np.mgrid[:SIDE, :SIDE] + 0.5
    (ax, ay, az), (bx, by, bz), (cx, cy, cz) = shape
    area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
    if area == 0:
        return np.zeros((SIDE, SIDE))
    b = ((x - ax) * (cy - ay) - (y - ay) * (cx - ax)) / area
    c = ((bx - ax) * (y - ay) - (by - ay) * (x - ax)) / area
    return np.where(surely_inside(shape), az + b * (bz - az) + c * (cz - az), 0)


def needle(shape: Float64[np.ndarray, "3 3"]) -> bool:
    """Too thin for its depth to be well defined."""
    first, second = shape[1, :2] - shape[0, :2], shape[2, :2] - shape[0, :2]
    return bool(abs(first[0] * second[1] - first[1] * second[0]) < 1e-2)


@given(st.tuples(*[corners()] * 4))
@settings(max_examples=40, deadline=None)
def test_faces_that_share_an_edge_cover_each_sample_once(
    shape: tuple[tuple[float, float, float], ...],
) -> None:
    a, b, c, d = (np.array(corner) for corner in shape)
    if np.sign(side_of(a, c, b)) * np.sign(side_of(a, c, d)) >= 0:
        return  # b and d must lie on different sides of the shared edge a-c
    assert (times_covered(np.array([(a, b, c), (a, c, d)])) <= 1).all()


def times_covered(shapes: Float64[np.ndarray, "f 3 3"]) -> Int64[np.ndarray, " s"]:
    """How many faces cover each sample."""
    samples = [sample for sample, _ in spans.span_samples(rows(shapes))]
    return np.bincount(np.concatenate([np.zeros(0, np.int64), *samples]), minlength=SIDE * SIDE)


def side_of(a: Float64[np.ndarray, "3"], c: Float64[np.ndarray, "3"], p: Float64[np.ndarray, "3"]) -> float:
    return float((c[0] - a[0]) * (p[1] - a[1]) - (c[1] - a[1]) * (p[0] - a[0]))


def test_a_fan_leaves_no_gap_in_the_middle() -> None:
    angles = np.linspace(0, 2 * np.pi, 13)
    rim = np.stack([8 + 7 * np.cos(angles), 8 + 7 * np.sin(angles), np.full(13, 0.5)], axis=1)
    hub = np.array([8.1, 7.9, 0.6])
    fan = np.array([(hub, rim[i], rim[i + 1]) for i in range(12)])
    y, x = np.mgrid[:SIDE, :SIDE] + 0.5
    assert (drawn(fan)[np.hypot(x - 8, y - 8) < 6.5] > 0).all()
    assert times_covered(fan).max() == 1


def test_fragments_come_alike_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = np.random.default_rng(5).uniform((0, 0, 0.3), (SIDE, SIDE, 0.9), (40, 3, 3))
    whole = drawn(shapes)
    monkeypatch.setattr(spans, "_AT_ONCE", 7)
    assert (drawn(shapes) == whole).all()
