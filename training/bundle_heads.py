"""Heads on the features of a bundle, whose towers stay: what they learn is added to what it finds.

    feature = [ what the bundle says, at length 1 ; share · what the heads say, at length 1 ]

So a similarity is the bundle's, and the heads' times share². Both heads begin at the axes along which the
bundle's texts reach farthest, and learn the difference. Pictures and texts are read once.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor, nn
from torch.nn.functional import normalize

from multifold.bundle.encoder import Encoder
from multifold.durable import replace_file
from multifold.files import tar_shards
from multifold.manifest import ManifestEntry
from multifold.metrics import ranks, recall_at_k
from training import prepare, validation
from training.batches import BatchStream, TrainingItems
from training.data.views import ItemViews, LazyViews
from training.geometries import build
from training.objective import Objective
from training.recipes.schema import HeadsSection, Recipe
from training.retrieval.directions import RetrievalDirection, directions
from training.retrieval.encoder import TorchEncoder
from training.retrieval.features import NO_BANK, HeldOutFeatures, make_bank, make_text_bank
from training.run import learning_rate, make_optimizer
from training.towers import TwoTowerModel
from training.towers.tokenizers import TrainedTokenizer

PICTURES_AT_ONCE = 64  # pictures in memory


@dataclass(frozen=True, eq=False)
class ReadItems:
    """Items with the features of all their views and captions."""

    entries: Sequence[ManifestEntry]
    views: Float32[np.ndarray, "i v n"]
    texts: Float32[np.ndarray, "c n"]

    @property
    def captions(self) -> list[Sequence[str]]:
        return [entry.texts for entry in self.entries]

    def for_training(self) -> TrainingItems:
        ends = np.cumsum([len(entry.texts) for entry in self.entries]).tolist()
        rows = list(zip([0, *ends[:-1]], ends, strict=True))
        return TrainingItems(self.views, self.texts, rows, [entry.id for entry in self.entries])


class AddedHead(nn.Module):
    """A bundle's feature at length 1, and beside it what a matrix makes of it."""

    def __init__(self, axes: Float[Tensor, "n w"]) -> None:
        super().__init__()
        self.axes: Tensor
        self.share: Tensor
        self.register_buffer("axes", axes)
        self.register_buffer("share", torch.ones(()))
        self.learned = nn.Parameter(torch.zeros_like(axes))

    @property
    def matrix(self) -> Float[Tensor, "n w"]:
        return self.axes + self.learned

    def forward(self, features: Float[Tensor, "b n"]) -> Float[Tensor, "b m"]:
        said = normalize(features, dim=-1)
        return torch.cat([said, self.share * normalize(said @ self.matrix, dim=-1)], dim=-1)


@dataclass(frozen=True, eq=False)
class LearnedHeads:
    """The best heads on the val split, and what they and the bundle alone find there."""

    model: TwoTowerModel
    measure: str
    rate: float
    step: int
    share: float
    score: float
    alone: float  # of the bundle


def read_items(
    encoder: Encoder, entries: Sequence[ManifestEntry], views: ItemViews | LazyViews, cache: Path
) -> ReadItems:
    """The features of items, computed once and kept in the cache."""
    digest = sha256(json.dumps([encoder.vector_id, [entry.texts for entry in entries]]).encode())
    for entry in entries:
        for path in (entry.mesh,) if entry.mesh is not None else entry.images:
            digest.update(tar_shards.content_hash(path).encode())
    path = cache / f"features-{digest.hexdigest()[:16]}.npz"
    if not path.exists():
        items, most = views.shape[:2]
        texts = encoder.texts([text for entry in entries for text in entry.texts]).features
        seen = np.concatenate([encoder.pixels(part) for part in _pictures(views)])
        cache.mkdir(parents=True, exist_ok=True)
        with replace_file(path) as file:
            np.savez(file, views=seen.reshape(items, most, -1), texts=texts)
    with np.load(path) as stored:
        return ReadItems(entries, stored["views"], stored["texts"])


def _pictures(views: ItemViews | LazyViews) -> Iterator[np.ndarray]:
    items, most = views.shape[:2]
    for start in range(0, items * most, PICTURES_AT_ONCE):
        rows = np.arange(start, min(items * most, start + PICTURES_AT_ONCE))
        yield np.asarray(views[rows // most, rows % most])


def learn(recipe: Recipe, train: ReadItems, held_out: ReadItems, tokenizer: TrainedTokenizer) -> LearnedHeads:
    """Learn at each rate until the val split finds no more, and keep the best step with its best share."""
    heads = recipe.heads
    assert heads is not None
    judge = HeadsJudge(recipe, held_out, tokenizer)
    before = judge.score_alone()
    best = LearnedHeads(alone(train.views.shape[2]), judge.measure, 0.0, 0, 0.0, before, before)
    groups = train.for_training()
    axes = _main_axes(train.texts, heads.width)
    for rate in heads.rates:
        top, since = -math.inf, 0
        for step, model in _steps(recipe, rate, groups, axes):
            share, score = judge.best_share(model, heads)
            print(f"rate {rate:g}, step {step}: {judge.measure} {score:.4f}, added at {share:g}", flush=True)
            if score > best.score:
                kept = deepcopy(model)
                set_share(kept, share)
                best = LearnedHeads(kept, judge.measure, rate, step, share, score, before)
            since = 0 if score > top else since + 1
            top = max(top, score)
            if since == heads.patience:
                break
    return best


def _steps(
    recipe: Recipe, rate: float, groups: TrainingItems, axes: Float[Tensor, "n w"]
) -> Iterator[tuple[int, TwoTowerModel]]:
    """A training at this rate: the model after every so many steps."""
    torch.manual_seed(recipe.train.seed)
    count = min(recipe.train.items, len(groups.captions))
    options = recipe.train.model_copy(update={"rate": rate, "items": count})
    recipe = recipe.model_copy(update={"train": options})
    model = TwoTowerModel(AddedHead(axes), AddedHead(axes), build("clip", sum(axes.shape)))
    objective = Objective(recipe, model)
    optimizer = make_optimizer(model, options)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate(step, options))
    batches = BatchStream(groups, options)
    for step in range(1, options.steps + 1):
        loss = objective(model, next(batches), step / options.steps)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), options.clip)
        optimizer.step()
        schedule.step()
        model.geometry.clamp()
        objective.after_step(model)
        if step % recipe.validation.every == 0 or step == options.steps:
            yield step, model


def _main_axes(texts: Float32[np.ndarray, "c n"], width: int) -> Float[Tensor, "n w"]:
    """The axes along which texts reach farthest."""
    units = texts / np.maximum(np.linalg.norm(texts, axis=1, keepdims=True), 1e-8)
    _, turns = np.linalg.eigh(units.T.astype(np.float64) @ units)
    return torch.from_numpy(np.ascontiguousarray(turns[:, ::-1][:, :width], np.float32))


def set_share(model: TwoTowerModel, share: float) -> None:
    for head in (model.image, model.text):
        assert isinstance(head, AddedHead)
        head.share.fill_(share)


def alone(numbers: int) -> TwoTowerModel:
    """The bundle as it is, on its own features."""
    return TwoTowerModel(nn.Identity(), nn.Identity(), build("clip", numbers))


class HeadsJudge:
    """What a model finds among held-out items that are read already."""

    def __init__(self, recipe: Recipe, read: ReadItems, tokenizer: TrainedTokenizer) -> None:
        self.recipe, self.read = recipe, read
        self.reader = prepare.reader(recipe, tokenizer)
        self.measure = validation.choosing_measure(recipe.validation.measure, len(read.entries))

    def best_share(self, model: TwoTowerModel, heads: HeadsSection) -> tuple[float, float]:
        """How much of the heads finds most, and how much that is."""
        found: Mapping[float, float] = {}
        for share in heads.shares:
            set_share(model, share)
            found = {**found, share: self.score(model)}
        set_share(model, 1.0)
        best = max(found, key=found.__getitem__)
        return best, found[best]

    def score(self, model: TwoTowerModel) -> float:
        numbers = {}
        for name, one in self.search(model).items():
            places = ranks(one.scores, one.relevant)
            numbers[f"{name}/{validation.RECIPROCAL}"] = float((1 / places).mean())
            for cut in (1, 5, 10):
                numbers[f"{name}/R@{cut}"] = float(recall_at_k(places, cut).mean())
        return validation.score(numbers, self.measure)

    def search(self, model: TwoTowerModel) -> dict[str, RetrievalDirection]:
        """Every direction that is watched during training."""
        learning = model.training
        found = directions(TorchEncoder(model, self.reader), self.observe(model))
        model.train(learning)
        return found

    def observe(self, model: TwoTowerModel) -> HeldOutFeatures:
        with torch.inference_mode():
            items, views = self.read.views.shape[:2]
            seen = model.image(torch.from_numpy(self.read.views.reshape(items * views, -1))).numpy()
            said = model.text(torch.from_numpy(self.read.texts)).numpy()
        captions = self.read.captions
        return HeldOutFeatures(
            captions, make_text_bank(said, captions), NO_BANK, make_bank(seen, [views] * items)
        )

    def alone(self) -> dict[str, RetrievalDirection]:
        """The same by the bundle as it is."""
        return self.search(alone(self.read.views.shape[2]))

    def score_alone(self) -> float:
        return self.score(alone(self.read.views.shape[2]))
