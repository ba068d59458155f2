"""A linear probe: what a linear classifier can read from frozen features of pictures."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy

from multifold.types import Features, PixelBatch
from training.evaluate.protocols import accuracy
from training.retrieval.encoder import TorchEncoder
from training.towers.base import Tower
from training.towers.heads import CloudHead

STRENGTHS = np.logspace(-6, 6, 97)
STRIDE = 16
PROBE_STEPS = 1000

Labelled: TypeAlias = tuple[np.ndarray, np.ndarray]  # features [b n] and classes [b]


def fit_probe(train: Labelled, val: Labelled, test: Labelled, *, balanced: bool = False) -> dict[str, Any]:
    """Accuracy on test, of the strength that is best on val; `balanced` lets every class weigh the same."""
    classes = int(max(labels.max() for _, labels in (train, val, test))) + 1

    def share_right(place: int) -> float:
        scores = _scores(_fitted(train, classes, STRENGTHS[place], balanced), val[0])
        return float((scores.argmax(axis=1) == val[1]).mean())

    best = _best(share_right, len(STRENGTHS))
    both = np.concatenate([train[0], val[0]]), np.concatenate([train[1], val[1]])
    scores = _scores(_fitted(both, classes, STRENGTHS[best], balanced), test[0])
    sizes = {"classes": classes, "train": len(both[1]), "items": len(test[1])}
    return {**sizes, "C": float(STRENGTHS[best]), **accuracy(scores, test[1])}


def features_before_projection(encoder: TorchEncoder, batch: PixelBatch) -> Features:
    """The input of a tower's head, as one vector a picture."""
    tower = encoder.model.image
    assert isinstance(tower, Tower)
    with torch.inference_mode():
        tokens, mask = tower.tokens(torch.from_numpy(np.array(batch)).to(encoder.device))
        if isinstance(tower.project, CloudHead):
            weights = tower.project.geometry.weigh((tokens @ tower.project.weights).squeeze(2), mask)
            tokens = (weights[:, :, None] * tokens).sum(1, keepdim=True)
        read: Features = tokens.flatten(1).float().cpu().numpy()
        return read


def _best(share: Callable[[int], float], count: int) -> int:
    """The best place, searched with decreasing steps."""
    shares = {place: share(place) for place in range(0, count, STRIDE)}
    step = STRIDE
    while True:
        best = max(shares, key=lambda place: (shares[place], -place))
        if step == 1:
            return best
        step //= 2
        near = (place for place in (best - step, best + step) if 0 <= place < count)
        shares |= {place: share(place) for place in near if place not in shares}


def _fitted(
    labelled: Labelled, classes: int, strength: float, balanced: bool
) -> tuple[Float[Tensor, "c n"], Float[Tensor, " c"], Tensor, Tensor]:
    """For standardised features: weights and biases that make Σ losses + ‖weights‖² / 2C least."""
    x = torch.from_numpy(labelled[0]).double()
    y = torch.from_numpy(np.asarray(labelled[1], np.int64))
    middle = x.mean(0)
    spread = x.std(0, correction=0).clamp(min=1e-6)
    x = (x - middle) / spread
    counts = torch.bincount(y, minlength=classes).clamp(min=1)
    worth = len(y) / (classes * counts.double()) if balanced else None
    weights = torch.zeros(classes, x.shape[1], dtype=torch.float64, requires_grad=True)
    biases = torch.zeros(classes, dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS([weights, biases], max_iter=PROBE_STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        solver.zero_grad()
        errors = cross_entropy(x @ weights.T + biases, y, weight=worth, reduction="sum")
        total = (errors + weights.square().sum() / (2 * strength)) / len(y)
        total.backward()
        return total

    solver.step(loss)
    return weights.detach(), biases.detach(), middle, spread


def _scores(fitted: tuple[Tensor, Tensor, Tensor, Tensor], features: Features) -> np.ndarray:
    weights, biases, middle, spread = fitted
    x = (torch.from_numpy(features).double() - middle) / spread
    scores: np.ndarray = (x @ weights.T + biases).float().numpy()
    return scores
