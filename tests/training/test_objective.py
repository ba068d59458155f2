"""What a step minimises: the four ways to compare, the teacher, entailment, refusals."""

from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from tests.training import small
from training import losses
from training.batches import BatchStream, TrainingBatch
from training.objective import Objective
from training.recipes.schema import Recipe
from training.sides import SideFeatures, encode_batch, encode_texts, pool_items
from training.towers import TwoTowerModel

WAYS = ("text_image", "agg_image", "agg_text", "agg_both")


def recipe(**sections: Any) -> Recipe:  # noqa: ANN401 (whatever a recipe may say)
    """The small recipe on whole groups, with other sections."""
    return small.recipe(sections, items=4, views=0, captions=0)


def started(wanted: Recipe) -> tuple[TwoTowerModel, Objective, TrainingBatch]:
    items, _ = small.groups(wanted)
    model = small.model(wanted)
    return model, Objective(wanted, model), next(BatchStream(items, wanted.train))


def step(wanted: Recipe, progress: float = 0.5) -> float:
    model, objective, batch = started(wanted)
    return objective(model, batch, progress).item()


@pytest.mark.parametrize("way", WAYS)
def test_each_way_compares_what_it_says(way: str) -> None:
    weights = {name: float(name == way) for name in WAYS}
    wanted = recipe(loss={"name": "hard", **weights})
    model, objective, batch = started(wanted)
    seen = encode_batch(model, batch)
    images, texts = seen.images, seen.texts
    if way in ("agg_image", "agg_both"):
        images = pool_items(images, "mean")
    if way in ("agg_text", "agg_both"):
        texts = pool_items(texts, "mean")
    sizes = {"text_image": (8, 12), "agg_image": (4, 12), "agg_text": (8, 4), "agg_both": (4, 4)}
    assert (len(images.features), len(texts.features)) == sizes[way]
    logits = model.geometry.logits(images.features, texts.features)
    expected = losses.build("hard")(logits, images.items, texts.items)
    torch.testing.assert_close(objective(model, batch, 0.0), expected)


def test_ways_add_up() -> None:
    shares = dict(zip(WAYS, (0.4, 0.3, 0.2, 0.1), strict=True))
    alone = {way: step(recipe(loss={"name": "hard", **{w: float(w == way) for w in WAYS}})) for way in WAYS}
    together = step(recipe(loss={"name": "hard", **shares}))
    assert together == pytest.approx(sum(shares[way] * alone[way] for way in WAYS), rel=1e-5)


def test_blocks_change_nothing() -> None:
    ways = {"text_image": 1.0, "agg_image": 0.0}
    whole = step(recipe(loss={"name": "mfh", **ways}))
    assert step(recipe(loss={"name": "mfh", "block": 3, **ways})) == pytest.approx(whole, rel=1e-5)


def test_as_one_is_the_mean_or_the_largest_of_each_item() -> None:
    side = SideFeatures(torch.tensor([[3.0, 0.0], [1.0, 1.0], [0.0, 4.0]]), torch.tensor([7, 2, 7]))
    mean, most = pool_items(side, "mean"), pool_items(side, "max")
    assert mean.items.tolist() == [2, 7]
    assert mean.features.tolist() == [[1, 1], [1.5, 2]]
    assert most.features.tolist() == [[1, 1], [3, 4]]


def test_pairs_are_the_diagonal_though_items_come_again() -> None:
    """Shapes of two views, a caption each: InfoNCE counts the item's other pairs as wrong, the mask not."""
    ways = {"text_image": 0.0, "agg_image": 1.0}
    train = {"items": 16, "views": 0, "captions": 1, "pairs": True}
    found = {}
    for name in ("infonce", "infonce_mask"):
        model, objective, batch = started(small.recipe({"loss": {"name": name, **ways}}, **train))
        found[name] = objective(model, batch, 0.5)
    seen = encode_batch(model, batch)
    shapes = seen.images.features.reshape(16, 2, -1).mean(1)
    assert batch.view_items[::2].tolist() == batch.text_items.tolist()
    logits = model.geometry.logits(shapes, seen.texts.features)
    own = torch.arange(16)
    expected = (cross_entropy(logits, own) + cross_entropy(logits.T, own)) / 2
    torch.testing.assert_close(found["infonce"], expected)
    other = (batch.text_items[:, None] == batch.text_items) & ~torch.eye(16, dtype=torch.bool)
    assert other.any()
    masked = logits.masked_fill(other, -torch.inf)
    expected = (cross_entropy(masked, own) + cross_entropy(masked.T, own)) / 2
    torch.testing.assert_close(found["infonce_mask"], expected)


def test_texts_read_in_parts_have_the_same_features() -> None:
    model, _, batch = started(recipe())
    whole = model.text(batch.tokens)
    for parts in (1, 2, 5, 50):
        torch.testing.assert_close(encode_texts(model.text, batch.tokens, parts), whole, atol=1e-5, rtol=1e-5)


def test_the_teacher_follows_and_takes_no_gradient() -> None:
    model, objective, batch = started(recipe(loss={"name": "mfh"}, teacher={"momentum": 0.9}))
    assert objective.teacher is not None
    start = {name: weight.clone() for name, weight in model.named_parameters()}
    objective(model, batch, 0.5).backward()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(1.0)
    objective.after_step(model)
    for name, weight in objective.teacher.model.named_parameters():
        assert not weight.requires_grad
        torch.testing.assert_close(weight, start[name] + 0.1)


def test_a_teacher_that_equals_the_student_adds_only_its_entropy() -> None:
    """At the start the soft term's gradient is nearly nothing: softmax(student) − softmax(teacher)."""
    model, objective, batch = started(recipe(loss={"name": "soft", "text_image": 1.0, "agg_image": 0.0}))
    objective(model, batch, 0.0).backward()
    grads = [p.grad.norm() for p in model.image.parameters() if p.grad is not None]
    assert max(grads) < 1e-5


def test_entailment_is_added_with_its_weight_and_moving_k() -> None:
    geometry = {"name": "lorentz"}
    plain = step(recipe(geometry=geometry))
    narrow = {"weight": 0.2, "k": 0.001}
    strict = step(recipe(geometry=geometry, loss={"entailment": narrow}))
    assert strict > plain + 0.01
    moving = recipe(geometry=geometry, loss={"entailment": {**narrow, "k_end": 0.1}})
    assert step(moving, progress=0.0) == pytest.approx(strict, rel=1e-6)
    assert step(moving, progress=1.0) < strict
