"""Every fact is checked against the parts: what is said is what was built."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.training.data.pieces import bounds, mixed, of_kind, parts
from training.data.furniture import kinds
from training.data.furniture.modeling.facts import EVERYWHERE, FurnitureFact
from training.data.furniture.modeling.palette import COLOURS, are_alike
from training.data.furniture.modeling.piece import FurniturePiece


def facts() -> list[tuple[FurniturePiece, FurnitureFact]]:
    """Each with the piece that it is about."""
    return [(piece, fact) for piece in mixed() for fact in piece.facts]


def told(*attributes: str) -> list[tuple[FurniturePiece, FurnitureFact]]:
    return [(piece, fact) for piece, fact in facts() if fact.attribute in attributes]


def test_there_are_many_kinds_and_colours() -> None:
    assert len(kinds.KINDS) >= 12
    assert len(COLOURS) >= 12
    assert {fact.value for _, fact in told("colour")} == set(COLOURS)
    assert {fact.value for _, fact in told("pattern")} == {"striped", "checked", "dotted"}
    assert {fact.value for _, fact in told("material")} >= {"wood", "metal", "plastic", "fabric", "leather"}


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_each_kind_is_light_and_has_much_to_say(kind: str) -> None:
    found = of_kind(kind)
    assert found
    for piece in found:
        assert sum(len(part.mesh.faces) for part in piece.parts) <= 3000
        assert len(piece.facts) >= 4
        assert len({fact.id for fact in piece.facts}) == len(piece.facts)
        low, high = bounds(list(piece.parts))
        assert low[1] == pytest.approx(0, abs=0.02)
        assert (high - low < 2.6).all()


def test_counts_are_numbers_of_parts() -> None:
    for piece, fact in told("count"):
        assert len(parts(piece, *fact.thing.parts)) == int(fact.value), fact.id
        assert fact.thing.plural == (fact.value != "1"), fact.id


def test_colours_patterns_and_materials_are_those_of_the_parts() -> None:
    for piece, fact in told("colour", "pattern", "material"):
        finishes = [part.finish for part in parts(piece, *fact.thing.parts)]
        assert finishes
        assert {getattr(finish, fact.attribute) for finish in finishes} == {fact.value}, (piece.kind, fact.id)


def test_a_plain_thing_is_not_called_patterned_and_a_patterned_one_is() -> None:
    for piece, fact in told("colour"):
        patterns = {part.finish.pattern for part in parts(piece, *fact.thing.parts)} - {None}
        said = {
            other.value for other in piece.facts if other.thing == fact.thing and other.attribute == "pattern"
        }
        assert said == patterns


def test_what_is_absent_has_no_parts() -> None:
    assert told("absent")
    for piece, fact in told("absent"):
        assert not parts(piece, *fact.thing.parts), fact.id


def test_slats_are_several_and_solid_is_one() -> None:
    for piece, fact in told("shape"):
        number = len(parts(piece, *fact.thing.parts))
        if fact.value in ("slatted", "ladder"):
            assert number >= 4, fact.id
        if fact.value == "solid":
            assert number == 1, fact.id


def test_open_rears_have_no_board_and_closed_ones_have() -> None:
    rears = [(piece, fact) for piece, fact in told("shape") if fact.thing.id == "rear"]
    assert {fact.value for _, fact in rears} == {"open", "closed"}
    for piece, fact in rears:
        assert bool(parts(piece, "rear")) == (fact.value == "closed")


PLACES: dict[str, Callable[[np.ndarray, np.ndarray], bool]] = {  # offset from the middle, share of the height
    "left": lambda offset, share: offset[0] < 0,
    "right": lambda offset, share: offset[0] > 0,
    "back": lambda offset, share: offset[2] < 0,
    "front": lambda offset, share: offset[2] > 0,
    "under": lambda offset, share: share[0] < 0.5,
    "top": lambda offset, share: share[1] > 0.6,
    "bottom": lambda offset, share: share[1] < 0.5,
    "highest": lambda offset, share: share[1] > 0.5,
}


def test_places_are_where_they_are_said_to_be() -> None:
    checked = set()
    for piece, fact in told("place"):
        low, high = bounds(parts(piece, *fact.thing.parts))
        whole_low, whole_high = bounds(list(piece.parts))
        main_low, main_high = bounds(parts(piece, *piece.whole.parts))
        offset = (low + high) / 2 - (main_low + main_high) / 2
        share = (np.array([low[1], high[1]]) - whole_low[1]) / (whole_high[1] - whole_low[1])
        for word, holds in PLACES.items():
            if word in fact.value:
                checked.add(word)
                assert holds(offset, share), (piece.kind, fact.id)
    assert checked == set(PLACES)


def test_sizes_order_the_pieces_of_a_kind() -> None:
    for kind, tall, low in (("chair", "high", "low"), ("stool", "tall", "low"), ("lamp", "tall", "low")):
        heights: dict[str, list[float]] = {tall: [], low: []}
        for piece in of_kind(kind):
            for fact in piece.facts:
                if fact.attribute == "size" and fact.value in heights and fact.thing.id in ("whole", "back"):
                    heights[fact.value].append(float(bounds(list(piece.parts))[1][1]))
        assert min(heights[tall]) > max(heights[low]), kind


def test_what_is_on_one_side_is_seen_from_there_alone() -> None:
    panels = [fact for _, fact in facts() if fact.thing.id == "panel"]
    assert panels
    assert {fact.sides for fact in panels} == {frozenset(("back",))}
    for piece, fact in told("place"):
        if fact.thing.id == "drawers" and piece.kind in ("bed", "cabinet"):
            side = fact.value.removeprefix("on the ")
            assert side in fact.sides
            assert not {"left", "right", "front", "back"} - {side} & fact.sides


def test_every_fact_can_be_seen_and_a_whole_from_front_and_back() -> None:
    for _, fact in facts():
        assert fact.sides
        assert fact.thing.id != "whole" or fact.sides >= {"front", "back"}


def test_many_facts_show_from_some_sides_only() -> None:
    partial = sum(fact.sides != EVERYWHERE for _, fact in facts())
    assert 0.2 < partial / len(facts()) < 0.8


def test_legs_stand_out_against_the_piece() -> None:
    for piece in mixed():
        for leg in parts(piece, "legs"):
            assert not are_alike(leg.finish.colour, piece.finish.colour)
