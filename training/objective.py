"""What a step minimises: a recipe's loss over the four ways to compare views and captions."""

from copy import deepcopy
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import relu

from training import losses
from training.batches import TrainingBatch
from training.distributed import SINGLE_PROCESS, ProcessRank
from training.geometries.base import EntailmentGeometry, Geometry
from training.losses import Loss
from training.recipes.schema import EntailmentSection, Recipe, TeacherSection
from training.sides import BatchFeatures, encode_batch, pool_items
from training.tiled_loss import FeaturePair, Logits, direction_loss
from training.towers import TwoTowerModel


class Teacher:
    """t = m·t + (1 − m)·s after every step, s the student; BatchNorm's buffers are copied."""

    def __init__(self, model: TwoTowerModel, options: TeacherSection) -> None:
        self.model = deepcopy(model).eval().requires_grad_(False)
        self.options = options

    @torch.no_grad()
    def follow(self, model: TwoTowerModel) -> None:
        """Move towards the student's weights."""
        for weight, new in zip(self.model.parameters(), model.parameters(), strict=True):
            weight.lerp_(new, 1 - self.options.momentum)
        for buffer, seen in zip(self.model.buffers(), model.buffers(), strict=True):
            buffer.copy_(seen)


class Objective:
    """The loss of a step, or this rank's part of it; holds the teacher."""

    def __init__(self, recipe: Recipe, model: TwoTowerModel, ranks: ProcessRank = SINGLE_PROCESS) -> None:
        self.recipe, self.ranks = recipe, ranks
        self.loss = losses.build(recipe.loss.name, **recipe.loss.params)
        self.teacher = Teacher(model, recipe.teacher) if self.loss.target == "teacher" else None

    def __call__(self, model: TwoTowerModel, batch: TrainingBatch, progress: float) -> Float[Tensor, ""]:
        """The weighted sum of all terms of the recipe; `progress` is the share of the training done."""
        options, train = self.recipe.loss, self.recipe.train
        encode = partial(
            encode_batch,
            batch=batch,
            text_parts=train.text_parts,
            chunk=train.chunk,
            ranks=self.ranks,
            sees=options.sees,
        )
        student = encode(model)
        taught = None
        if self.teacher is not None:
            with torch.no_grad():
                taught = encode(self.teacher.model)
        compare = BatchComparison(self.loss, model.geometry, self.recipe, progress, self.ranks)
        total = compare.sum_all(student, taught)
        if options.nested and model.geometry.turn is not None:
            model.geometry.turn.observe(student.images.features, student.texts.features)
        if options.entailment.weight:
            total = total + entailment(model.geometry, student, options.entailment, progress, self.ranks)
        return total

    def after_step(self, model: TwoTowerModel) -> None:
        if self.teacher is not None:
            self.teacher.follow(model)


@dataclass(frozen=True)
class BatchComparison:
    """How views and captions are compared in one step."""

    loss: Loss
    geometry: Geometry
    recipe: Recipe
    progress: float
    ranks: ProcessRank = SINGLE_PROCESS

    def sum_all(self, seen: BatchFeatures, taught: BatchFeatures | None) -> Float[Tensor, ""]:
        """Views and captions, each alone or pooled by item: every comparison with its weight."""
        options = self.recipe.loss
        ways = (
            (options.text_image, False, False),
            (options.agg_image, True, False),
            (options.agg_text, False, True),
            (options.agg_both, True, True),
        )
        total = seen.images.features.new_zeros(())
        for weight, images, texts in ways:
            if weight:
                theirs = taught and self._pooled(taught, images, texts)
                total = total + weight * self(self._pooled(seen, images, texts), theirs)
        for weight, pooled, texts in (
            (options.text_points, False, True),
            (options.image_points, False, False),
            (options.agg_points, True, False),
        ):
            if weight:
                theirs = taught and _with_points(self._pooled(taught, pooled, False), texts)
                total = total + weight * self(_with_points(self._pooled(seen, pooled, False), texts), theirs)
        return total

    def __call__(self, seen: BatchFeatures, taught: BatchFeatures | None) -> Float[Tensor, ""]:
        """All images with all texts."""
        if not self.recipe.loss.block and self.ranks.count == 1:
            teacher = None if taught is None else _pair(taught, self._taught_logits).matrix()
            logits = _pair(seen, self.geometry.logits).matrix()
            return self.loss(logits, seen.images.items, seen.texts.items, teacher, self.progress)
        there = self._direction(seen, taught)
        back = self._direction(seen.swapped, taught and taught.swapped)
        return self.loss.forward * there + (1 - self.loss.forward) * back

    def _direction(self, seen: BatchFeatures, taught: BatchFeatures | None) -> Float[Tensor, ""]:
        teacher = None if taught is None else _pair(taught, self._taught_logits)
        pair = _pair(seen, self.geometry.logits)
        block = self.recipe.loss.block
        rows = seen.images.items
        columns = seen.texts.items
        return direction_loss(self.loss, pair, rows, columns, block, teacher, self.progress, self.ranks)

    @torch.no_grad()
    def _taught_logits(self, query: Tensor, gallery: Tensor) -> Tensor:
        scale = self.recipe.teacher.scale
        if scale is None:
            return self.geometry.logits(query, gallery)
        return self.geometry.similarity(query, gallery) * scale

    def _pooled(self, sides: BatchFeatures, images: bool, texts: bool) -> BatchFeatures:
        options = self.recipe.loss
        return BatchFeatures(
            pool_items(sides.images, options.pool) if images else sides.images,
            pool_items(sides.texts, "mean") if texts else sides.texts,
            sides.points,
        )


def entailment(
    geometry: Geometry, seen: BatchFeatures, options: EntailmentSection, progress: float, ranks: ProcessRank
) -> Float[Tensor, ""]:
    """The mean distance of pictures outside the cones of their own texts."""
    assert isinstance(geometry, EntailmentGeometry)
    end = options.k if options.k_end is None else options.k_end
    mine = ranks.share(len(seen.texts.items))
    k = options.k + (end - options.k) * progress
    energy = geometry.entail(seen.texts.features[mine], seen.images.features, k)
    same = seen.texts.items[mine, None] == seen.images.items[None, :]
    return options.weight * relu(energy)[same].sum() / ranks.total(same.sum())


def _with_points(sides: BatchFeatures, texts: bool) -> BatchFeatures:
    """The points as rows, the captions or the views as columns."""
    assert sides.points is not None
    return BatchFeatures(sides.points, sides.texts if texts else sides.images)


def _pair(sides: BatchFeatures, logits: Logits) -> FeaturePair:
    return FeaturePair(sides.images.features, sides.texts.features, logits)
