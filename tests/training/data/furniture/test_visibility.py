"""From where things are seen, on scenes whose answer is plain."""

from training.data.furniture.modeling.primitives import ball, box
from training.data.furniture.modeling.visibility import visible_sides

EVERYWHERE = {"front", "back", "left", "right", "above"}


def test_a_lone_box_is_seen_from_everywhere() -> None:
    assert set(visible_sides([box((1, 1, 1))])[0]) == EVERYWHERE


def test_a_board_on_a_side_is_seen_from_that_side() -> None:
    body = box((1, 1, 1))
    boards = {
        "front": box((0.5, 0.5, 0.02), (0, 0, 0.51)),
        "back": box((0.5, 0.5, 0.02), (0, 0, -0.51)),
        "left": box((0.02, 0.5, 0.5), (-0.51, 0, 0)),
        "right": box((0.02, 0.5, 0.5), (0.51, 0, 0)),
    }
    _, *found = visible_sides([body, *boards.values()])
    assert [set(sides) for sides in found] == [{side} for side in boards]


def test_a_ball_on_top_is_seen_from_all_around_and_one_below_is_not_from_above() -> None:
    top = box((1, 0.05, 1), (0, 0.8, 0))
    _, on, under = visible_sides([top, ball(0.15, (0, 1.0, 0)), ball(0.15, (0, 0.15, 0))])
    assert set(on) == EVERYWHERE
    assert set(under) == EVERYWHERE - {"above"}


def test_a_ball_behind_a_wall_is_hidden_from_the_front() -> None:
    _, hidden = visible_sides([box((2, 1.5, 0.05)), ball(0.2, (0, -0.5, -0.4))])
    assert "front" not in hidden
    assert {"back", "above"} <= hidden


def test_what_is_shut_in_is_not_seen() -> None:
    assert not visible_sides([box((1, 1, 1)), ball(0.3)])[1]
