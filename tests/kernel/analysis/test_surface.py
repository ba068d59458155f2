"""Which regions of a surface made a score: by an encoder whose answer is known, and drawn on its views."""

from collections.abc import Sequence

import numpy as np
import pytest
from jaxtyping import Float32

from multifold.analysis.explanation import ExplanationError
from multifold.analysis.surface import PointRows, explain_surface, nearest_middle
from multifold.types import Vectors
from renderers.cameras import rig

RED = np.array([1, 0, 0], np.float32)


def ball(count: int = 600) -> PointRows:
    """A ball whose top is red."""
    rng = np.random.default_rng(0)
    places = rng.normal(size=(count, 3)).astype(np.float32)
    places /= np.linalg.norm(places, axis=1, keepdims=True)
    colors = np.where(places[:, 1:2] > 0.7, RED, 0.5).astype(np.float32)
    return np.concatenate([places, places, colors], axis=1)


def share_of_red(samples: Sequence[PointRows]) -> Vectors:
    """An encoder that knows how many points are red."""
    red = [[(sample[:, 6:] == RED).all(axis=1).sum() / 100, 1.0] for sample in samples]
    return np.array(red, np.float32)


def whole() -> Float32[np.ndarray, " n"]:
    return np.array([1, 0], np.float32)


def test_the_regions_that_carry_the_answer_are_found() -> None:
    sample = ball()
    found = explain_surface(sample, whole(), share_of_red, "ip", regions=20)
    assert len(found.shares) == 20
    reds = (sample[:, 6:] == RED).all(axis=1)
    of = nearest_middle(sample[:, :3], found.middles)
    for region, share in enumerate(found.shares):
        assert share == pytest.approx(reds[of == region].sum() / 100, abs=1e-5)
    assert found.shares.sum() == pytest.approx(reds.sum() / 100, abs=1e-4)
    assert found.middles[found.shares.argmax(), 1] > 0.6


def test_regions_are_the_places_nearest_to_their_middle() -> None:
    places, middles = ball(50)[:, :3], ball(7)[:, :3]
    squares = ((places[:, None] - middles[None]) ** 2).sum(axis=2)
    assert np.array_equal(nearest_middle(places, middles), squares.argmin(axis=1))


def test_maps_show_what_each_camera_sees() -> None:
    found = explain_surface(ball(), whole(), share_of_red, "ip", regions=30)
    cameras = rig("ring6@-40,0,80")
    maps = found.maps(ball(20_000)[:, :3], cameras.poses, cameras.fov_degrees, cells=20)
    grids = [heat.grid for heat in maps]
    assert {heat.method for heat in maps} == {"occlusion"}
    above, level, below = grids[12], grids[6], grids[0]
    assert above.sum() > level.sum() > below.sum()
    assert level[:6].sum() > 0.9 * level.sum()  # the top of the picture is the top of the ball
    assert abs(level[10:]).sum() < 0.05 * level.sum()
    assert abs(level[:, [0, -1]]).sum() < 0.05 * level.sum()


def test_hidden_points_are_not_drawn() -> None:
    front, back = (np.full((400, 3), depth, np.float32) for depth in (0.6, -0.6))
    spread = np.random.default_rng(1).uniform(-0.3, 0.3, (400, 2)).astype(np.float32)
    front[:, :2] = back[:, :2] = spread
    places = np.concatenate([front, back])
    colors = np.concatenate([np.full((400, 3), 0.5, np.float32), np.tile(RED, (400, 1))])
    sample = np.concatenate([places, places, colors], axis=1)
    found = explain_surface(sample, whole(), share_of_red, "ip", regions=8)
    cameras = rig("ring2@0")
    seen, hidden = (
        heat.grid for heat in found.maps(places, cameras.poses, cameras.fov_degrees, cells=10)[::-1]
    )
    assert seen.sum() > 0.5
    assert abs(hidden).sum() < 0.1 * seen.sum()


@pytest.mark.parametrize(
    ("sample", "regions", "reason"),
    [
        (ball(), 1, "2 to 600 regions"),
        (ball(), 601, "2 to 600 regions"),
        (np.zeros((50, 9), np.float32), 30, "in one place"),
    ],
)
def test_what_has_no_such_parts_is_refused(sample: PointRows, regions: int, reason: str) -> None:
    with pytest.raises(ExplanationError, match=reason):
        explain_surface(sample, whole(), share_of_red, "ip", regions=regions)
