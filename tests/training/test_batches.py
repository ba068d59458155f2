"""Batches hold what they say: items once each, their own views and captions, never mirrored."""

from itertools import islice

import numpy as np
import pytest
import torch
from jaxtyping import UInt8
from torch import Tensor

from tests.training import small
from training.batches import BatchStream, apply_maps, augmentation_maps
from training.recipes.schema import AugmentSection


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


def picture() -> UInt8[Tensor, "b h w 3"]:
    return torch.randint(0, 256, (1, 8, 8, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def seen(wanted: AugmentSection, count: int = 64) -> UInt8[Tensor, "b h w 3"]:
    where = augmentation_maps(wanted, count, np.random.default_rng(0))
    assert where is not None
    return apply_maps(picture().expand(count, -1, -1, -1), where)


def test_nothing_is_done_unless_asked_for() -> None:
    rng = np.random.default_rng(0)
    assert augmentation_maps(AugmentSection(), 5, rng) is None
    assert rng.random() == np.random.default_rng(0).random()
    batch = next(BatchStream(small.groups(small.recipe())[0], small.recipe().train))
    assert torch.equal(batch.on(torch.device("cpu")).pixels, batch.pixels)


@pytest.mark.parametrize(
    ("wanted", "axes"),
    [
        (AugmentSection(mirror=True), [(), (2,)]),
        (AugmentSection(upside_down=True), [(), (1,)]),
        (AugmentSection(mirror=True, upside_down=True), [(), (1,), (2,), (1, 2)]),
    ],
)
def test_flips_are_exact_and_all_happen(wanted: AugmentSection, axes: list[tuple[int, ...]]) -> None:
    allowed = [picture().flip(axis)[0] for axis in axes]
    kinds = [next(i for i, each in enumerate(allowed) if torch.equal(each, one)) for one in seen(wanted)]
    assert set(kinds) == set(range(len(axes)))


def test_a_zoom_shows_parts_of_the_picture_only() -> None:
    """A bright border that is cut off at least on one side, and never a colour that was not there."""
    where = augmentation_maps(AugmentSection(zoom=2.0), 200, np.random.default_rng(0))
    assert where is not None
    corners = torch.tensor([[x, y, 1.0] for x in (-1, 1) for y in (-1, 1)])
    reached = where @ corners.T
    assert reached.abs().max() <= 1 + 1e-6
    assert reached.abs().max() > 0.95
    torch.testing.assert_close(where[:, 0, 0], torch.full((200,), 0.5))
    assert apply_maps(torch.full((200, 8, 8, 3), 77, dtype=torch.uint8), where).unique().tolist() == [77]


def test_a_quarter_turn_is_a_quarter_turn() -> None:
    where = torch.tensor([[[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]]])
    assert torch.equal(apply_maps(picture(), where), picture().rot90(1, (1, 2)))
    angles = augmentation_maps(AugmentSection(turn=30), 500, np.random.default_rng(0))
    assert angles is not None
    found = torch.atan2(angles[:, 1, 0], angles[:, 0, 0]).rad2deg()
    assert 28 < found.max() <= 30
    assert -30 <= found.min() < -28


def test_every_batch_is_moved_anew_and_by_the_seed() -> None:
    recipe = small.recipe(shift=0, augment={"turn": 20.0, "zoom": 1.2})
    groups, _ = small.groups(recipe)
    runs = [[batch.places for batch in islice(BatchStream(groups, recipe.train), 3)] for _ in range(2)]
    first, second = runs
    for ours, again in zip(first, second, strict=True):
        assert ours is not None
        assert again is not None
        assert torch.equal(ours, again)
    assert first[0] is not None
    assert first[1] is not None
    assert not torch.equal(first[0], first[1])
