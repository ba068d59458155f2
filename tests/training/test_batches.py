"""Batches hold what they say: items once each, their own views and captions, never mirrored."""

from itertools import islice

import numpy as np
import pytest
import torch
from jaxtyping import UInt8
from torch import Tensor

from tests.training import small
from training.batches import BatchStream, TrainingItems, apply_maps, augmentation_maps
from training.recipes.schema import AugmentSection


def stream(**train: object) -> tuple[TrainingItems, BatchStream]:
    recipe = small.recipe(**train)
    items, _ = small.groups(recipe)
    return items, BatchStream(items, recipe.train)


def test_a_pass_sees_every_item_once() -> None:
    _, batches = stream(items=4)
    seen = [item for batch in islice(batches, 4) for item in batch.view_items.tolist()]
    assert sorted(seen) == list(range(16))


def test_views_and_captions_belong_to_their_items() -> None:
    items, batches = stream(items=4, views=2, captions=2, shift=0)
    for batch in islice(batches, 8):
        assert batch.view_items.tolist() == batch.text_items.tolist()
        for item in set(batch.view_items.tolist()):
            views = {view.numpy().tobytes() for view in batch.pixels[batch.view_items == item]}
            assert views == {view.tobytes() for view in items.pixels[item]}
            captions = {row.numpy().tobytes() for row in batch.tokens[batch.text_items == item]}
            assert len(captions) == 2
            assert captions <= {row.tobytes() for row in items.tokens[slice(*items.captions[item])]}


def test_nought_means_all_and_no_more_than_there_are() -> None:
    batch = next(stream(items=4, views=9, captions=0)[1])
    assert batch.view_items.bincount(minlength=16).unique().tolist() == [0, 2]
    assert batch.text_items.bincount(minlength=16).unique().tolist() == [0, 3]


def test_a_pass_sees_every_pair_once() -> None:
    items, batches = stream(items=12, pairs=True, shift=0)
    seen = []
    for batch in islice(batches, 8):  # sixteen items of two views and three captions
        assert torch.equal(batch.view_items, batch.text_items)
        for view, tokens, item in zip(batch.pixels, batch.tokens, batch.view_items.tolist(), strict=True):
            views = [one.tobytes() for one in items.pixels[item]]
            captions = [row.tobytes() for row in items.tokens[slice(*items.captions[item])]]
            seen.append((item, views.index(view.numpy().tobytes()), captions.index(tokens.numpy().tobytes())))
    assert len(set(seen)) == 96
    assert any(len(set(batch.view_items.tolist())) < 12 for batch in islice(batches, 8))


@pytest.mark.parametrize(("views", "captions", "pairs"), [(0, 1, 48), (1, 0, 32), (0, 0, 16), (1, 1, 96)])
def test_several_views_or_captions_of_a_pair_are_one(views: int, captions: int, pairs: int) -> None:
    items, batches = stream(items=16, pairs=True, views=views, captions=captions)
    batch = next(batches)
    assert batches.count == pairs
    assert batch.view_pairs is not None
    assert batch.text_pairs is not None
    assert batch.view_pairs.bincount().tolist() == [views or 2] * 16
    assert batch.text_pairs.bincount().tolist() == [captions or 3] * 16
    for numbers, owners in ((batch.view_pairs, batch.view_items), (batch.text_pairs, batch.text_items)):
        assert all(len(owners[numbers == pair].unique()) == 1 for pair in range(16))
    assert len(items.captions) == 16


def test_a_shift_moves_and_never_mirrors() -> None:
    items, batches = stream(items=16, shift=3)
    batch = next(batches)
    for picture, item in zip(batch.pixels.numpy(), batch.view_items.tolist(), strict=True):
        padded = np.pad(items.pixels[item], ((0, 0), (3, 3), (3, 3), (0, 0)), mode="edge")
        crops = [p[y : y + 32, x : x + 32] for p in padded for y in range(7) for x in range(7)]
        assert any(np.array_equal(picture, crop) for crop in crops)


def picture() -> UInt8[Tensor, "b h w 3"]:
    return torch.randint(0, 256, (1, 8, 8, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def drawn(count: int, **wanted: float) -> Tensor:
    """So many maps of an augmentation."""
    maps = augmentation_maps(AugmentSection.model_validate(wanted), count, np.random.default_rng(0))
    assert maps is not None
    return maps


def test_nothing_is_done_unless_asked_for() -> None:
    rng = np.random.default_rng(0)
    assert augmentation_maps(AugmentSection(), 5, rng) is None
    assert rng.random() == np.random.default_rng(0).random()
    batch = next(stream()[1])
    assert torch.equal(batch.on(torch.device("cpu")).pixels, batch.pixels)


@pytest.mark.parametrize(
    ("wanted", "axes"),
    [
        ({"mirror": True}, [(), (2,)]),
        ({"upside_down": True}, [(), (1,)]),
        ({"mirror": True, "upside_down": True}, [(), (1,), (2,), (1, 2)]),
    ],
)
def test_flips_are_exact_and_all_happen(wanted: dict[str, bool], axes: list[tuple[int, ...]]) -> None:
    allowed = [picture().flip(axis)[0] for axis in axes]
    seen = apply_maps(picture().expand(64, -1, -1, -1), drawn(64, **wanted))
    kinds = {next(i for i, each in enumerate(allowed) if torch.equal(each, one)) for one in seen}
    assert kinds == set(range(len(axes)))


def test_a_zoom_shows_parts_of_the_picture_only() -> None:
    """A bright border that is cut off at least on one side, and never a colour that was not there."""
    where = drawn(200, zoom=2.0)
    corners = torch.tensor([[x, y, 1.0] for x in (-1, 1) for y in (-1, 1)])
    reached = where @ corners.T
    assert 0.95 < reached.abs().max() <= 1 + 1e-6
    torch.testing.assert_close(where[:, 0, 0], torch.full((200,), 0.5))
    assert apply_maps(torch.full((200, 8, 8, 3), 77, dtype=torch.uint8), where).unique().tolist() == [77]


def test_a_quarter_turn_is_a_quarter_turn() -> None:
    where = torch.tensor([[[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]]])
    assert torch.equal(apply_maps(picture(), where), picture().rot90(1, (1, 2)))
    angles = drawn(500, turn=30)
    found = torch.atan2(angles[:, 1, 0], angles[:, 0, 0]).rad2deg()
    assert 28 < found.max() <= 30
    assert -30 <= found.min() < -28


def test_every_batch_is_moved_anew_and_by_the_seed() -> None:
    runs = [
        [batch.places for batch in islice(stream(shift=0, augment={"turn": 20.0, "zoom": 1.2})[1], 3)]
        for _ in range(2)
    ]
    first, second = (torch.stack([maps for maps in run if maps is not None]) for run in runs)
    assert torch.equal(first, second)
    assert not torch.equal(first[0], first[1])
