"""The meshes: closed, turned outward, as large as asked, mapped in metres."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.data.furniture.modeling import primitives
from training.data.furniture.modeling.primitives import PartMesh, Point

LENGTH = st.floats(0.02, 3.0)
SIZE = st.tuples(LENGTH, LENGTH, LENGTH)
PLACE = st.tuples(st.floats(-2, 2), st.floats(-2, 2), st.floats(-2, 2))


def volume(mesh: PartMesh) -> float:
    """By the divergence theorem: positive if the faces look outward."""
    a, b, c = np.moveaxis(mesh.vertices[mesh.faces], 1, 0)
    return float((a * np.cross(b, c)).sum() / 6)


def area(points: np.ndarray) -> float:
    """The total area of triangles in space or on the texture."""
    if points.shape[-1] == 2:
        points = np.concatenate([points, np.zeros((*points.shape[:2], 1))], -1)
    sides = np.cross(points[:, 1] - points[:, 0], points[:, 2] - points[:, 0])
    return float(np.linalg.norm(sides, axis=1).sum() / 2)


def normals_agree(mesh: PartMesh) -> bool:
    corners = mesh.vertices[mesh.faces]
    outward = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return bool((np.einsum("fx,fcx->fc", outward, mesh.normals[mesh.faces]) > 0).all())


@given(SIZE, PLACE)
def test_a_box_has_its_volume_and_place(size: Point, centre: Point) -> None:
    mesh = primitives.box(size, centre)
    assert volume(mesh) == pytest.approx(np.prod(size), rel=1e-6)
    assert np.allclose(mesh.vertices.max(0) - mesh.vertices.min(0), size)
    assert np.allclose(mesh.vertices.mean(0), centre)
    assert normals_agree(mesh)


@given(SIZE)
def test_a_box_is_mapped_in_metres_with_the_grain_along_its_sides(size: Point) -> None:
    mesh = primitives.box(size)
    assert area(mesh.uv[mesh.faces]) == pytest.approx(area(mesh.vertices[mesh.faces]))
    spread = mesh.uv.reshape(6, 4, 2).max(1) - mesh.uv.reshape(6, 4, 2).min(1)
    assert (spread[:, 0] >= spread[:, 1] - 1e-12).all()


@given(SIZE, st.floats(0.05, 1.0))
def test_a_cushion_stays_inside_its_box(size: Point, rounding: float) -> None:
    mesh = primitives.cushion(size, (0, 1, 0), rounding)
    assert np.allclose(mesh.vertices.max(0) - mesh.vertices.min(0), size, atol=1e-9)
    assert 0.45 * np.prod(size) < volume(mesh) < np.prod(size)
    assert np.allclose(np.linalg.norm(mesh.normals, axis=1), 1)


@given(PLACE, PLACE, st.floats(0.01, 0.5), st.sampled_from([4, 6, 10, 16]))
def test_a_rod_reaches_from_start_to_end(start: Point, end: Point, radius: float, sides: int) -> None:
    way = np.subtract(end, start)
    length = float(np.linalg.norm(way))
    if length < 0.05:
        return
    mesh = primitives.rod(start, end, radius, sides=sides)
    along = (mesh.vertices - start) @ way / length
    assert along.min() == pytest.approx(0, abs=1e-9)
    assert along.max() == pytest.approx(length)
    polygon = sides / 2 * np.sin(2 * np.pi / sides) * radius**2
    assert volume(mesh) == pytest.approx(polygon * length, rel=1e-6)
    assert normals_agree(mesh)


def test_turned_shapes_come_near_the_textbook() -> None:
    assert volume(primitives.disc(0.5, 0.2, segments=200)) == pytest.approx(np.pi * 0.25 * 0.2, rel=1e-3)
    assert volume(primitives.ball(0.5, segments=120)) == pytest.approx(4 / 3 * np.pi * 0.125, rel=2e-3)
    hoop = np.pi * (0.5**2 - 0.4**2) * 0.1
    assert volume(primitives.ring(0.5, 0.1, 0.1, segments=200)) == pytest.approx(hoop, rel=1e-3)


def test_turning_follows_the_right_hand() -> None:
    front = primitives.box((0.1, 0.1, 0.1), (0, 0, 1))
    assert np.allclose(primitives.turn(front, "y", 90).vertices.mean(0), (1, 0, 0))
    assert np.allclose(primitives.turn(front, "x", 90).vertices.mean(0), (0, -1, 0))
    right = primitives.box((0.1, 0.1, 0.1), (1, 0, 0))
    assert np.allclose(primitives.turn(right, "z", 90).vertices.mean(0), (0, 1, 0))


def test_a_faceted_lathe_looks_to_the_front() -> None:
    mesh = primitives.lathe([(1.0, 0.0), (1.0, 1.0)], 4, faceted=True)
    assert any(np.allclose(normal, (0, 0, 1)) for normal in mesh.normals)


def test_merging_keeps_every_triangle() -> None:
    boxes = [primitives.box((1, 1, 1), (3 * place, 0, 0)) for place in range(3)]
    assert volume(primitives.merge(boxes)) == pytest.approx(3)
    assert primitives.merge(boxes).faces.max() == 3 * 24 - 1


def test_stretching_keeps_normals_upright() -> None:
    mesh = primitives.stretch(primitives.ball(1.0), (1, 3, 1))
    assert np.allclose(np.linalg.norm(mesh.normals, axis=1), 1)
    assert mesh.vertices[:, 1].max() == pytest.approx(3)
