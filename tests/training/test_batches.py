"""Batches hold what they say: items once each, their own views and captions, never mirrored."""

from itertools import islice

import numpy as np

from tests.training import small
from training.batches import batches


def test_a_pass_sees_every_item_once() -> None:
    recipe = small.recipe(items=4)
    groups, _ = small.groups(recipe)
    seen = [item for batch in islice(batches(groups, recipe.train), 4) for item in batch.items.tolist()]
    assert sorted(seen) == list(range(16))


def test_views_and_captions_belong_to_their_items() -> None:
    recipe = small.recipe(items=4, views=2, shift=0)
    groups, _ = small.groups(recipe)
    for batch in islice(batches(groups, recipe.train), 8):
        assert batch.pixels.shape == (8, 32, 32, 3)
        for place, item in enumerate(batch.items.tolist()):
            views = {view.tobytes() for view in groups.pixels[item]}
            assert {view.numpy().tobytes() for view in batch.pixels[2 * place : 2 * place + 2]} == views
            first, last = groups.captions[item]
            width = batch.tokens.shape[1]
            assert any(np.array_equal(row[:width], batch.tokens[place]) for row in groups.tokens[first:last])


def test_a_shift_moves_and_never_mirrors() -> None:
    recipe = small.recipe(items=16, shift=3)
    groups, _ = small.groups(recipe)
    batch = next(batches(groups, recipe.train))
    for picture, item in zip(batch.pixels.numpy(), batch.items.tolist(), strict=True):
        padded = np.pad(groups.pixels[item], ((0, 0), (3, 3), (3, 3), (0, 0)), mode="edge")
        crops = [p[y : y + 32, x : x + 32] for p in padded for y in range(7) for x in range(7)]
        assert any(np.array_equal(picture, crop) for crop in crops)
