"""Sides merged into one answer, by a calibration or by rank."""

from pathlib import Path

import numpy as np

from index.collection import Collection
from index.search.side_rankings import Values, merge_sides
from index.store.filters import parse_filter
from multifold.types import Hit, Item, Side
from tests.index.spaces import FEATURE, Sphere
from tests.index.things import caption, feature, query, view

SEEN = view(0, feature(1))


def hits(side: Side, *scored: tuple[str, float], scale: float | None = None) -> list[Hit]:
    """Hits of these scores, with that many times as much confidence."""
    return [
        Hit(name, score, side, SEEN, {}, None if scale is None else scale * score) for name, score in scored
    ]


def test_a_calibration_decides_and_names_the_side() -> None:
    by_side: dict[Side, list[Hit]] = {
        "text": hits("text", ("a", 0.9), ("b", 0.8), scale=1),
        "image": hits("image", ("b", 0.3), ("c", 0.2), scale=3),
    }
    found = merge_sides(by_side)
    told = [(hit.id, hit.side, hit.score, round(hit.confidence or 0, 6)) for hit in found]
    assert told == [("a", "text", 0.9, 0.9), ("b", "image", 0.3, 0.9), ("c", "image", 0.2, 0.6)]


def test_without_one_ranks_are_fused() -> None:
    text = hits("text", ("a", 0.9), ("b", 0.8), ("c", 0.7))
    image = hits("image", ("d", 0.5), ("c", 0.4), ("b", 0.3))
    found = merge_sides({"text": text, "image": image})
    # b and c stand second and third once each; a and d first, on one side alone
    assert [(hit.id, hit.side) for hit in found] == [
        ("b", "text"),
        ("c", "image"),
        ("a", "text"),
        ("d", "image"),
    ]
    assert all(hit.confidence is None for hit in found)
    half = merge_sides({"text": text, "image": hits("image", ("d", 0.5), ("c", 0.4), ("b", 0.3), scale=1)})
    assert [hit.id for hit in half] == [hit.id for hit in found]


def sizes(_: Side, scores: Values, gallery: int) -> Values:
    """A confidence that tells from how many items a score was chosen."""
    return np.full_like(scores, gallery)


def test_any_side_of_a_collection(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    items = [
        Item("shown", (view(0, feature(1)),), {"n": 1}),
        Item("told", (caption(0, feature(0.9, 0.1)),), {"n": 2}),
        *(Item(f"far {n}", (view(0, feature(*rng.normal(-2, 0.1, FEATURE))),)) for n in range(30)),
    ]
    with Collection.open(tmp_path, Sphere(FEATURE)) as collection:
        collection.upsert(items)
        found = collection.search(
            query(feature(1), target="any", limit=2), calibration=lambda _side, scores, _gallery: scores
        )
        assert [(hit.id, hit.side) for hit in found] == [("shown", "shape"), ("told", "text")]
        assert [hit.confidence for hit in found] == [hit.score for hit in found]
        sized = collection.search(
            query(feature(1), limit=2), parse_filter({"n": {"lt": 2}}), calibration=sizes
        )
        assert [(hit.id, hit.confidence) for hit in sized] == [("shown", 1.0)]
        sized = collection.search(query(feature(1), limit=2), calibration=sizes)
        assert [hit.confidence for hit in sized] == [31.0, 31.0]
        (second,) = collection.search(query(feature(1), target="any", limit=1, offset=1))
        assert second.id == "shown"  # first of its side as well, but texts come first
        (only,) = collection.search(query(feature(1), target="any"), parse_filter({"n": {"lt": 2}}))
        assert only.id == "shown"
        assert len(collection.search(query(feature(1), target="any", limit=99))) == 32
