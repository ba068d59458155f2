"""What a step minimises: a recipe's loss over the four ways to compare views and captions."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import relu

from multifold.errors import MultifoldError
from training import losses
from training.batches import TrainingBatch
from training.distributed import SINGLE_PROCESS, ProcessRank
from training.geometries.base import EntailmentGeometry, Geometry
from training.losses import Loss
from training.losses.rows import occurrence
from training.recipes.schema import EntailmentSection, Recipe
from training.recipes.schema import LossSection as Options
from training.sides import BatchFeatures, FeatureMemory, encode_batch, pool_items
from training.teacher import Teacher
from training.tiled_loss import FeaturePair, Logits, tiled_loss
from training.towers import TwoTowerModel


class Objective:
    """The loss of a step, or this rank's part of it; holds the teacher and the memory."""

    def __init__(self, recipe: Recipe, model: TwoTowerModel, ranks: ProcessRank = SINGLE_PROCESS) -> None:
        _check(recipe, model.geometry)
        self.recipe, self.ranks = recipe, ranks
        self.loss = losses.build(recipe.loss.name, **recipe.loss.params)
        if self.loss.target == "swapped" and (recipe.loss.block or ranks.count > 1):
            raise MultifoldError(f"{recipe.loss.name} needs the whole matrix: one process, and block = 0")
        self.teacher = Teacher(model, recipe.teacher) if self.loss.target == "teacher" else None
        self.memory = FeatureMemory(recipe.loss.memory) if recipe.loss.memory else None

    def __call__(self, model: TwoTowerModel, batch: TrainingBatch, progress: float) -> Float[Tensor, ""]:
        """The weighted sum of all terms of the recipe; `progress` is the share of the training done."""
        options, train = self.recipe.loss, self.recipe.train
        student = encode_batch(model, batch, train.text_parts, train.chunk, self.ranks)
        taught = None
        if self.teacher is not None:
            with self.teacher.teaching() as teacher:
                taught = encode_batch(teacher, batch, train.text_parts, train.chunk, self.ranks)
        compare = BatchComparison(self.loss, model.geometry, self.recipe, progress, self.ranks)
        total = sum_comparisons(compare, options, student, taught, self.memory)
        if self.memory is not None:
            self.memory.keep(student if taught is None else taught)
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

    def __call__(self, seen: BatchFeatures, taught: BatchFeatures | None) -> Float[Tensor, ""]:
        """All images with all texts, as one matrix or in blocks of it."""
        student = _pair(seen, self.geometry.logits)
        teacher = None if taught is None else _pair(taught, self._taught_logits)
        rows, columns = seen.images.items, seen.texts.items
        block = self.recipe.loss.block
        if block or self.ranks.count > 1:
            return tiled_loss(self.loss, student, rows, columns, block, teacher, self.progress, self.ranks)
        return self.loss(
            student.matrix(), rows, columns, None if teacher is None else teacher.matrix(), self.progress
        )

    def with_past(
        self, seen: BatchFeatures, taught: BatchFeatures | None, past: BatchFeatures
    ) -> Float[Tensor, ""]:
        """The same, with past features as more columns in both directions."""
        there = self._beside(seen, taught, past)
        back = self._beside(seen.swapped, None if taught is None else taught.swapped, past.swapped)
        return self.loss.forward * there + (1 - self.loss.forward) * back

    def _beside(
        self, seen: BatchFeatures, taught: BatchFeatures | None, past: BatchFeatures
    ) -> Float[Tensor, ""]:
        query, gallery = seen.images, seen.texts.before(past.texts)
        mine = self.ranks.share(len(query.items))
        logits = self.geometry.logits(query.features[mine], gallery.features)
        teacher = None
        if taught is not None:
            teacher = self._taught_logits(
                taught.images.features[mine], taught.texts.before(past.texts).features
            )
        places = occurrence(query.items)[mine]
        terms = self.loss.direction(logits, query.items[mine], gallery.items, teacher, self.progress, places)
        return terms.total / self.ranks.total(terms.counted.sum()).clamp(min=1)

    @torch.no_grad()
    def _taught_logits(self, query: Tensor, gallery: Tensor) -> Tensor:
        scale = self.recipe.teacher.scale
        if scale is None:
            return self.geometry.logits(query, gallery)
        return self.geometry.similarity(query, gallery) * scale


def sum_comparisons(
    compare: BatchComparison,
    options: Options,
    seen: BatchFeatures,
    taught: BatchFeatures | None,
    memory: FeatureMemory | None,
) -> Float[Tensor, ""]:
    """Views and captions, each alone or pooled by item: every comparison with its weight."""
    if memory is not None and memory.past is not None:
        return options.text_image * compare.with_past(seen, taught, memory.past)
    ways = (
        (options.text_image, False, False),
        (options.agg_image, True, False),
        (options.agg_text, False, True),
        (options.agg_both, True, True),
    )
    total = seen.images.features.new_zeros(())
    for weight, images, texts in ways:
        if weight:
            ours, theirs = (_joined(sides, images, texts, options) for sides in (seen, taught))
            assert ours is not None
            total = total + weight * compare(ours, theirs)
    return total


def entailment(
    geometry: Geometry,
    seen: BatchFeatures,
    options: EntailmentSection,
    progress: float,
    ranks: ProcessRank = SINGLE_PROCESS,
) -> Float[Tensor, ""]:
    """The mean distance of pictures outside the cones of their own texts."""
    assert isinstance(geometry, EntailmentGeometry)
    end = options.k if options.k_end is None else options.k_end
    mine = ranks.share(len(seen.texts.items))
    energy = geometry.entail(
        seen.texts.features[mine], seen.images.features, options.k + (end - options.k) * progress
    )
    same = seen.texts.items[mine, None] == seen.images.items[None, :]
    return options.weight * relu(energy)[same].sum() / ranks.total(same.sum())


def _joined(sides: BatchFeatures | None, images: bool, texts: bool, options: Options) -> BatchFeatures | None:
    if sides is None:
        return None
    return BatchFeatures(
        pool_items(sides.images, options.pool, options.normalised) if images else sides.images,
        pool_items(sides.texts, "mean", options.normalised) if texts else sides.texts,
    )


def _pair(sides: BatchFeatures, logits: Logits) -> FeaturePair:
    return FeaturePair(sides.images.features, sides.texts.features, logits)


def _check(recipe: Recipe, geometry: Geometry) -> None:
    options = recipe.loss
    if not (options.text_image or options.agg_image or options.agg_text or options.agg_both):
        raise MultifoldError(
            "[loss] compares nothing: give text_image, agg_image, agg_text or agg_both a weight"
        )
    if options.memory and (options.agg_image or options.agg_text or options.agg_both or options.block):
        raise MultifoldError(
            "a memory goes with text_image alone, in one piece: set agg_image = 0, block = 0"
        )
    if options.entailment.weight and not isinstance(geometry, EntailmentGeometry):
        raise MultifoldError(f"entailment needs a geometry with cones, and {geometry.name} has none")
