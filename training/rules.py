"""Which options of a recipe do not go together: refused here, before any data is read."""

from torch import nn

from multifold.errors import MultifoldError
from training import losses
from training.geometries import GEOMETRIES
from training.geometries.base import EntailmentGeometry
from training.recipes.schema import AugmentSection, Recipe, TrainSection


def check_recipe(recipe: Recipe, processes: int = 1) -> None:
    """Raise for the first options that contradict each other, or that so many processes cannot share."""
    loss, train, points = recipe.loss, recipe.train, recipe.points
    whole = losses.build(loss.name, **loss.params).target == "swapped"
    cones = issubclass(GEOMETRIES.get(recipe.geometry.name, object), EntailmentGeometry)
    frozen = [one.trainable == "none" for one in (recipe.image, recipe.text, points) if one is not None]
    heads = recipe.heads is not None
    moved = train.shift or train.augment != AugmentSection(spin=train.augment.spin)
    refused = {
        "[loss] compares nothing: weigh text_image, agg_image, agg_text or agg_both": not (
            loss.sees or loss.text_points
        ),
        "[points] and the weights text_points, image_points of [loss] need each other": (points is None)
        == bool(loss.text_points or loss.views_points),
        "entailment is between captions and views, and [loss] compares no views": loss.entailment.weight
        and not loss.sees,
        f"entailment needs a geometry with cones, and {recipe.geometry.name} has none": loss.entailment.weight
        and not cones,
        f"{loss.name} needs the whole matrix: one process, and block = 0": whole
        and (loss.block or processes > 1),
        "pairs are drawn evenly, and judged items are not: set pairs = false, or judged = 0": train.pairs
        and train.judged,
        "a pair compares one with one: set views = 1 and captions = 1 where [loss] compares each": train.pairs
        and (
            (train.views != 1 and (loss.text_image or loss.agg_text or loss.image_points))
            or (train.captions != 1 and (loss.text_image or loss.agg_image or loss.text_points))
        ),
        "nothing learns: neither images nor texts, and there is no other tower": all(frozen) and not heads,
        "[heads] are for the towers of a bundle, without [points]": heads
        and not (recipe.image.kind == recipe.text.kind == "bundle" and points is None),
        "[heads] are chosen on the val split: set validation.every": heads and not recipe.validation.every,
        "[heads] learn in one process, and compare without entailment": heads
        and (processes > 1 or loss.entailment.weight),
        "an image tower that does not learn reads each view as it is: set shift = 0": frozen[0] and moved,
        f"a step of {train.items} items cannot be shared by {processes} processes": train.items < processes,
        "[points] is trained by one process": processes > 1 and points is not None,
    }
    for sentence, wrong in refused.items():
        if wrong:
            raise MultifoldError(sentence)


def check_model(model: nn.Module, train: TrainSection, processes: int) -> None:
    """Raise for BatchNorm that learns, whose statistics differ between parts of a batch."""
    norms = [part for part in model.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    if (train.chunk or processes > 1) and any(part.training for part in norms):
        shared, instead = ("chunks", ", or chunk = 0") if train.chunk else ("several processes", "")
        exact = f"{shared} are exact without BatchNorm only"
        raise MultifoldError(f"{exact}: set still = true in [image]{instead}")
