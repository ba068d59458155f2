"""Zero-shot classification averages as each paper does; the linear probe learns what is linear."""

import numpy as np
import pytest
import torch

from multifold.bundle.encoder import EncodedTexts
from multifold.types import Features
from tests.training import small
from tests.training.retrieval.test_directions import Plain
from training.evaluate.classification import class_scores, classify
from training.evaluate.linear_probe import features_before_projection, fit_probe
from training.evaluate.protocols import accuracy
from training.retrieval.features import make_bank
from training.towers.base import Tower
from training.towers.heads import CloudHead

SAID = {"big A": (10.0, 0.0), "A": (0.0, 1.0), "big B": (0.0, 2.0), "B": (0.0, 2.0)}
PROMPTS = ("big {}", "{}")


class Saying(Plain):
    """Prompts have features that are known."""

    def texts(self, texts: object) -> EncodedTexts:
        return EncodedTexts(np.array([SAID[text] for text in texts], np.float32), (False,))  # type: ignore[attr-defined]


class Longest(Saying):
    """The nearer, by L2."""

    metric = "l2"


ITEM: Features = np.array([[1.0, 2.0]], np.float32)


def test_unit_means_for_the_sphere() -> None:
    """A: mean of (1,0) and (0,1) = (½,½); B: (0,1). Scores of (1,2): 1.5 and 2."""
    np.testing.assert_allclose(class_scores(Saying(), "clip", ITEM, ["A", "B"], PROMPTS), [[1.5, 2.0]])


@pytest.mark.parametrize("geometry", ["euclidean", "lorentz", "cloud_gaussian"])
def test_plain_means_for_features_that_have_a_length(geometry: str) -> None:
    """A: mean of (10,0) and (0,1) = (5,½); B: (0,2). Scores of (1,2): 6 and 4."""
    np.testing.assert_allclose(class_scores(Saying(), geometry, ITEM, ["A", "B"], PROMPTS), [[6.0, 4.0]])


def test_mean_scores_for_the_oblique() -> None:
    """By L2 they differ from those of the mean. A: -(81 + 4) and -(1 + 1), -43.5; B: -(1 + 0) twice."""
    np.testing.assert_allclose(class_scores(Longest(), "oblique", ITEM, ["A", "B"], PROMPTS), [[-43.5, -1.0]])
    far = class_scores(Longest(), "euclidean", ITEM, ["A", "B"], PROMPTS)
    np.testing.assert_allclose(far, [[-(16 + 2.25), -1.0]])


def test_mean_distances_for_any_geometry_if_asked() -> None:
    """By L2 the roots of 85 and 2, and 1 twice. By inner products: the means of 10 and 2, and of 4 twice."""
    far = class_scores(Longest(), "euclidean", ITEM, ["A", "B"], PROMPTS, apart=True)
    np.testing.assert_allclose(far, [[-(85**0.5 + 2**0.5) / 2, -1.0]], rtol=1e-6)
    near = class_scores(Saying(), "clip", ITEM, ["A", "B"], PROMPTS, apart=True)
    np.testing.assert_allclose(near, [[6.0, 4.0]])


def test_accuracy_counts_ties_against_us() -> None:
    scores = np.array([[2, 1, 0], [1, 1, 0], [0, 1, 2], [0, 0, 3]], np.float32)
    told = accuracy(scores, np.array([0, 0, 2, 1]))
    assert told["accuracy"][0] == 0.5  # the second ties, the fourth is wrong
    assert told["per_class"] == pytest.approx((0.5 + 1 + 0) / 3, abs=1e-4)
    assert told["top5"] == 1.0


def test_items_are_classified_by_their_mean() -> None:
    views = make_bank(np.array([[3.0, 0.0], [-1.0, 4.0], [9.0, 1.0]], np.float32), [2, 1])
    told = classify(Saying(), "euclidean", views, ["B", "A"], PROMPTS)
    assert (told["classes"], told["items"], told["chance"]) == (2, 2, 0.5)
    assert told["accuracy"][0] == 0.5  # (1, 2) and (9, 1) are both called A


def test_a_probe_learns_what_is_linear_and_ignores_the_rest() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 300)
    features = rng.standard_normal((300, 20)).astype(np.float32)
    features[np.arange(300), labels] += 4
    parts = [(features[start:end], labels[start:end]) for start, end in ((0, 150), (150, 200), (200, 300))]
    told = fit_probe(*parts)
    assert told["accuracy"][0] > 0.85
    assert (told["train"], told["items"]) == (200, 100)
    shuffled = [(some, rng.permutation(known)) for some, known in parts]
    assert fit_probe(*shuffled)["accuracy"][0] < 0.55


def test_classes_that_are_rare_weigh_as_much_where_that_is_asked_for() -> None:
    rng = np.random.default_rng(1)
    labels = (rng.random(400) < 0.08).astype(np.int64)
    features = (rng.standard_normal((400, 2)) + labels[:, None]).astype(np.float32)
    parts = [(features[start:end], labels[start:end]) for start, end in ((0, 200), (200, 300), (300, 400))]
    plain, even = (fit_probe(*parts, balanced=balanced)["per_class"] for balanced in (False, True))
    assert even > plain


@torch.no_grad()
@pytest.mark.parametrize(
    ("tokens", "geometry"), [("class", "clip"), (4, "oblique_multi"), ("all", "cloud_linear")]
)
def test_before_is_what_the_projection_reads(tokens: str | int, geometry: str) -> None:
    compared = {"name": geometry, "params": {"m": 4} if tokens == 4 else {}}
    sides = {side: {"tokens": tokens} for side in ("image", "text")}
    live = small.encoder({"geometry": compared, **sides})
    views, _ = small.pictures()
    read = features_before_projection(live, views[0])
    tower = live.model.image
    assert isinstance(tower, Tower)
    seen, mask = tower.tokens(torch.from_numpy(views[0]))
    if geometry != "cloud_linear":
        again = tower.project(torch.from_numpy(read).reshape(seen.shape), mask)
        np.testing.assert_allclose(again, live.pixels(views[0]), atol=1e-5)
        return
    assert isinstance(tower.project, CloudHead)
    heavy = tower.project.weights[:, 0].double()
    for row, points in enumerate(seen.double()):
        weighted = [100 * np.tanh(float(point @ heavy) / 100) * point.numpy() for point in points]
        np.testing.assert_allclose(read[row], np.mean(weighted, axis=0), atol=1e-4)
