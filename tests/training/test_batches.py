"""Batches hold what they say: items once each, their own views and captions, never mirrored."""

from itertools import islice

import numpy as np

from tests.training import small
from training.batches import BatchStream


def test_a_pass_sees_every_item_once() -> None:
    recipe = small.recipe(items=4)
    groups, _ = small.groups(recipe)
    seen = [
        item for batch in islice(BatchStream(groups, recipe.train), 4) for item in batch.view_items.tolist()
    ]
    assert sorted(seen) == list(range(16))


def test_views_and_captions_belong_to_their_items() -> None:
    recipe = small.recipe(items=4, views=2, captions=2, shift=0)
    groups, _ = small.groups(recipe)
    for batch in islice(BatchStream(groups, recipe.train), 8):
        assert batch.view_items.tolist() == batch.text_items.tolist()
        for item in set(batch.view_items.tolist()):
            views = {view.numpy().tobytes() for view in batch.pixels[batch.view_items == item]}
            assert views == {view.tobytes() for view in groups.pixels[item]}
            captions = {row.numpy().tobytes() for row in batch.tokens[batch.text_items == item]}
            assert len(captions) == 2
            assert captions <= {row.tobytes() for row in groups.tokens[slice(*groups.captions[item])]}


def test_nought_means_all_and_no_more_than_there_are() -> None:
    recipe = small.recipe(items=4, views=9, captions=0)
    groups, _ = small.groups(recipe)
    batch = next(BatchStream(groups, recipe.train))
    assert batch.view_items.bincount(minlength=16).unique().tolist() == [0, 2]
    assert batch.text_items.bincount(minlength=16).unique().tolist() == [0, 3]


def test_a_shift_moves_and_never_mirrors() -> None:
    recipe = small.recipe(items=16, shift=3)
    groups, _ = small.groups(recipe)
    batch = next(BatchStream(groups, recipe.train))
    for picture, item in zip(batch.pixels.numpy(), batch.view_items.tolist(), strict=True):
        padded = np.pad(groups.pixels[item], ((0, 0), (3, 3), (3, 3), (0, 0)), mode="edge")
        crops = [p[y : y + 32, x : x + 32] for p in padded for y in range(7) for x in range(7)]
        assert any(np.array_equal(picture, crop) for crop in crops)
