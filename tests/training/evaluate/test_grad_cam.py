"""Gradients against finite differences for each kind of tower, and exact shares of points."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from multifold.analysis.explanation import ExplanationError, isolate_part
from multifold.types import Vector
from tests.training import small
from tests.training.towers import kinds as towers
from training.evaluate.grad_cam import GradientExplainer, grad_cam
from training.retrieval.encoder import TorchEncoder
from training.towers import TwoTowerModel
from training.towers.bert import BertTower

SENTENCES = ["a red square left", "square, blue, bottom of it"]
STEP = 3e-3


def differences(
    tower: Any,  # noqa: ANN401 (any tower)
    model: TwoTowerModel,
    observed: Tensor,
    other: Tensor,
    places: Sequence[int],
) -> list[float]:
    """How fast the score rises as every place moves along what enters the last block at one of them."""
    entering: list[Tensor] = []

    def score(moved: Tensor | None) -> float:
        def move(_block: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            entering.append(given[0])
            shifted = given[0].clone()
            if moved is not None:
                shifted[:, [*places]] += moved
            return (shifted, *given[1:])

        hook = tower.blocks[-1].register_forward_pre_hook(move)
        vector = model.geometry.index_vectors(tower(observed))[0].double()
        hook.remove()
        ip = model.geometry.metric == "ip"
        return float(vector @ other.double() if ip else -(vector - other.double()).square().sum())

    with torch.inference_mode():
        score(None)
        along = [STEP * entering[0][0, place] / len(places) for place in places]
        return [(score(one) - score(-one)) / (2 * STEP) for one in along]


@pytest.mark.parametrize("kind", ["small", "small, class tokens", "bert, class tokens", "vit"])
def test_shares_are_the_positive_finite_differences(kind: str, tiny_models: None) -> None:
    model = towers.built(kind)
    with torch.no_grad():  # of weights that are not those of a fresh tower
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape))
    other = torch.randn(model.geometry.dim)
    classes = 0 if model.image.classes is None else len(model.image.classes)
    first = model.text.count - 1 if isinstance(model.text, BertTower) else 0
    sides = (
        (model.image, towers.pixels(32)[:1], range(classes, len(model.image.positions))),
        (model.text, towers.tokens()[2:3], range(first + 1, first + 8)),
    )
    for tower, observed, places in sides:
        expected = np.array(differences(tower, model, observed, other, places))
        found = grad_cam(tower, model.geometry, observed, other, places).numpy()
        np.testing.assert_allclose(found, expected.clip(min=0), atol=2e-2 * np.abs(expected).max())
        assert found.max() > 0


def index_vector(encoder: TorchEncoder, text: str) -> Vector:
    vector: Vector = encoder.vectors(encoder.texts([text]).features)[0]
    return vector


def test_the_words_of_a_bag_have_what_each_adds_to_the_score() -> None:
    """Its shares that are positive sum to no less than the score's growth as the bag grows."""
    encoder = small.encoder({"text": {"depth": 0}})
    tower: Any = encoder.model.text
    ids = torch.from_numpy(encoder.tokenizer(SENTENCES[:1]).ids)
    other = torch.randn(encoder.model.geometry.dim)
    held: list[Tensor] = []
    hook = tower.norm.register_forward_pre_hook(lambda _, given: held.append(given[0].requires_grad_()))
    score = encoder.model.geometry.index_vectors(tower(ids))[0] @ other
    hook.remove()
    (slope,) = torch.autograd.grad(score, held[0])
    places = range(1, int(ids.argmax()))
    weights = tower.log_weight[ids[0, 1 : len(places) + 1]].exp()
    expected = (tower.embed(ids[0, 1 : len(places) + 1]) * (weights / weights.sum())[:, None]) @ slope[0, 0]
    found = grad_cam(tower, encoder.model.geometry, ids, other, places)
    torch.testing.assert_close(found, expected.clamp(min=0), atol=1e-6, rtol=1e-4)


def test_each_word_and_each_patch_has_a_share() -> None:
    encoder = small.encoder()
    explainer = GradientExplainer(encoder)
    words = explainer.text(SENTENCES[1], index_vector(encoder, SENTENCES[0]))
    assert [word for word, _ in words.words] == ["square,", "blue,", "bottom", "of", "it"]
    heat = explainer.picture(small.pictures()[0][0, 0], index_vector(encoder, SENTENCES[0]))
    assert heat.grid.shape == (4, 4)
    assert heat.method == words.method == "grad-cam"


def test_one_pair_of_tokens_has_its_own_map() -> None:
    geometry = {"name": "oblique_multi", "params": {"m": 2}}
    encoder = small.encoder({"image": {"tokens": 2}, "text": {"tokens": 2}, "geometry": geometry})
    explainer = GradientExplainer(encoder)
    assert explainer.tokens == 2
    picture, whole = small.pictures()[0][0, 0], index_vector(encoder, SENTENCES[0])
    grids = [explainer.picture(picture, isolate_part(whole, token, 2)).grid for token in range(2)]
    assert not np.allclose(grids[0], grids[1])
    assert all(grid.shape == (4, 4) and grid.max() > 0 for grid in grids)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cloud_gaussian", {"pads": "own"}),
        ("cloud_linear", {"kind": "bert", "width": 32, "depth": 1, "heads": 2, "context": 24}),
    ],
)
def test_shares_of_points_sum_to_the_similarity_of_clouds(name: str, text: dict[str, Any]) -> None:
    params = {} if name == "cloud_linear" else {"frequencies": 24}
    sides = {"image": {"tokens": "all"}, "text": {**text, "tokens": "all"}}
    encoder = small.encoder({**sides, "geometry": {"name": name, "params": params}})
    model, seen = encoder.model, small.pictures()[0][5, 0]
    features = encoder.pixels(seen[None]), encoder.texts(SENTENCES[:1]).features
    similarity = model.geometry.similarity(*(torch.from_numpy(one) for one in features)).item()
    picture, said = (encoder.vectors(one)[0] for one in features)

    explainer = GradientExplainer(encoder)
    heat, words = explainer.picture(seen, said), explainer.text(SENTENCES[0], picture)
    assert heat.method == words.method == "points"
    assert heat.grid.sum() == pytest.approx(similarity, rel=1e-4)
    ids = encoder.tokenizer(SENTENCES[:1]).ids
    held = {place for _, places in encoder.tokenizer.words(SENTENCES[0]) for place in places}
    rest = [place for place in range(ids.shape[1]) if place not in held]
    with torch.inference_mode():
        tower: Any = model.text
        unsaid = tower.points(torch.from_numpy(ids))[0, rest].numpy() @ picture
    assert sum(share for _, share in words.words) + unsaid.sum() == pytest.approx(similarity, rel=1e-4)


def test_what_cannot_be_explained_so_is_refused() -> None:
    encoder = small.encoder()
    for method in ("points", "occlusion"):
        with pytest.raises(ExplanationError, match=f"not explained by {method}"):
            GradientExplainer(encoder, method)
