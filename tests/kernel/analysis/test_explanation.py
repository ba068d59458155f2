"""Explanations by occlusion with the tiny bundle, whose truth is known."""

import numpy as np
import pytest

from multifold.analysis.explanation import (
    CELLS,
    ExplanationError,
    check_method,
    isolate_part,
    occlude_picture,
    occlude_text,
    token_shares,
)
from multifold.bundle.encoder import Encoder
from multifold.types import Pixels, Vector
from tests import tiny


def said(encoder: Encoder, text: str) -> Vector:
    vector: Vector = encoder.vectors(encoder.texts([text]).features)[0]
    return vector


def halves(left: str, right: str) -> Pixels:
    """A picture of two colours."""
    shown = [1 - np.array(tiny.COLOURS[colour]) for colour in (left, right)]
    picture = np.repeat(np.stack(shown), tiny.SIZE // 2, axis=0)
    return np.tile((255 * picture).astype(np.uint8), (tiny.SIZE, 1, 1))


def test_the_red_half_speaks_for_red_and_the_blue_half_against_it(encoder: Encoder) -> None:
    found = occlude_picture(encoder, halves("red", "blue"), said(encoder, "red"))
    assert found.method == "occlusion"
    assert found.grid.shape == (CELLS, CELLS)
    assert found.grid[:, : CELLS // 2].min() > 0 > found.grid[:, CELLS // 2 + 1 :].max()


def test_a_share_is_what_the_score_falls_by(encoder: Encoder) -> None:
    seen, other = halves("red", "blue"), said(encoder, "red")
    covered = seen.copy()
    edge = round(tiny.SIZE / CELLS)
    covered[:edge, :edge] = 255
    whole, without = encoder.vectors(encoder.pixels(np.stack([seen, covered]))) @ other
    share = occlude_picture(encoder, seen, other).grid[0, 0]
    assert share == pytest.approx(whole - without, abs=1e-6)


def test_words_have_shares(encoder: Encoder) -> None:
    found = occlude_text(encoder, "a Red box &amp; blue legs", said(encoder, "red"))
    shares = dict(found.words)
    assert [word for word, _ in found.words] == ["a", "red", "box", "&", "blue", "legs"]
    assert max(shares, key=lambda word: shares[word]) == "red"
    assert shares["blue"] < 0


def test_what_a_bundle_cannot_do_is_said(encoder: Encoder) -> None:
    with pytest.raises(ExplanationError, match="by occlusion, not by grad-cam"):
        check_method("grad-cam")
    with pytest.raises(ExplanationError, match="no token 3 here: 3 are compared"):
        isolate_part(said(encoder, "red"), 3, 3)


def test_parts_and_pairs_sum_to_the_whole() -> None:
    rng = np.random.default_rng(0)
    vector = rng.standard_normal(12).astype(np.float32)
    np.testing.assert_array_equal(sum(isolate_part(vector, j, 3) for j in range(3)), vector)
    other = rng.standard_normal(12).astype(np.float32)
    shares = token_shares(vector, other, 3)
    assert shares[1] == pytest.approx(float(isolate_part(vector, 1, 3) @ other), rel=1e-5)
    assert shares.sum() == pytest.approx(float(vector @ other), rel=1e-4)


@pytest.mark.parametrize("text", ["red box", "  RED   [END] box-ball ", "", "ball " * 40])
def test_words_keep_their_places_among_the_ids(encoder: Encoder, text: str) -> None:
    words = encoder.tokenizer.words(text)
    ids = encoder.tokenizer([text]).ids[0]
    places = [place for _, held in words for place in held]
    assert places == sorted(places)
    body = [i for i, one in enumerate(ids.tolist()) if one not in (encoder.bundle.text.pad,)][:-1]
    assert places == body
