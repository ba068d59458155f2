"""Traversals with the tiny bundle; those with cones are in tests/training."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from multifold.analysis import traversal
from multifold.analysis.traversal import caption_pool, traverse
from multifold.bundle.bundle import BundleError
from multifold.bundle.encoder import Encoder
from multifold.errors import MultifoldError
from tests import tiny

GENERAL = ("red", "green", "blue", "black and red")


def seen(encoder: Encoder, colour: str) -> np.ndarray:
    feature: np.ndarray = encoder.pictures([Image.fromarray(tiny.picture(colour))])[0]
    return feature


def test_a_line_begins_at_the_thing_and_ends_at_the_root(encoder: Encoder) -> None:
    feature = seen(encoder, "red")
    walked = traversal.line_to_root(encoder, feature, 5)
    np.testing.assert_allclose(walked[0], encoder.vectors(feature[None])[0], atol=1e-6)
    np.testing.assert_allclose(walked[-1], traversal.root_of(encoder), atol=1e-6)
    np.testing.assert_allclose(np.diff(walked, axis=0, n=2), 0, atol=1e-6)


def test_one_meets_the_special_first_and_what_is_near_the_root_last(encoder: Encoder) -> None:
    (path,) = traverse(encoder, seen(encoder, "red"), caption_pool(encoder, GENERAL))
    assert [met.text for met in path.met] == ["red", "black and red"]
    assert path.met[0].position == 0 < path.met[1].position < 1


def test_more_steps_miss_nothing_that_fewer_meet(encoder: Encoder) -> None:
    pool = caption_pool(encoder, (*GENERAL, "yellow", "white"))
    few, many = (traverse(encoder, seen(encoder, "yellow"), pool, steps)[0] for steps in (4, 31))
    assert {met.text for met in few.met} <= {met.text for met in many.met}
    positions = [met.position for met in many.met]
    assert positions == sorted(positions)


def test_a_pool_has_each_caption_once_and_grows(encoder: Encoder) -> None:
    pool = caption_pool(encoder, ["red", "red", "blue"]) + caption_pool(encoder, ["blue", "green"])
    assert sorted(pool.texts) == ["blue", "green", "red"]
    np.testing.assert_allclose(pool.features, encoder.texts(pool.texts).features, atol=1e-6)


def test_distances_are_chords(encoder: Encoder) -> None:
    features = encoder.texts(["red", "white"]).features
    root = encoder.vectors(traversal.root_of(encoder)[None])[0]
    expected = np.linalg.norm(encoder.vectors(features) - root, axis=1)
    np.testing.assert_allclose(traversal.distances_to_root(encoder, features), expected, atol=1e-6)


def test_what_cannot_be_walked_is_said(encoder: Encoder, tmp_path: Path) -> None:
    pool, feature = caption_pool(encoder, GENERAL), seen(encoder, "red")
    with pytest.raises(MultifoldError, match="at least two steps"):
        traverse(encoder, feature, pool, steps=1)
    with pytest.raises(BundleError, match="knows nothing of entailment"):
        traverse(encoder, feature, pool, widths=[0.3])
    rootless = tiny.build(tmp_path / "rootless", geometry=replace(tiny.SPEC.geometry, root=None))
    with pytest.raises(BundleError, match="states no root"):
        traverse(Encoder(rootless, threads=1), feature, pool)
