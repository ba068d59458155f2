"""A point tower beside the towers of a bundle: a copy of the bundle that reads points of shapes, too."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torch import nn

from multifold.bundle import bundle as bundles
from multifold.bundle import canary
from multifold.bundle.bundle import POINTS_FILE, Bundle, BundleError, stage_bundle
from multifold.bundle.encoder import Encoder
from multifold.bundle.point_groups import PointSpec
from training.checkpoint import Checkpoint
from training.data.points import ItemPoints
from training.data.views import ItemViews
from training.export.bundle import bundle_report, point_numbers
from training.export.graphs import check_points, write_points
from training.prepare import points_of
from training.retrieval import comparison, directions
from training.retrieval.comparison import RivalEncoder
from training.retrieval.features import NO_BANK


def add_points(
    original: Bundle,
    folder: Path,
    tower: nn.Module,
    spec: PointSpec,
    origin: Mapping[str, object],
    measure: Callable[[Encoder], Bundle] | None = None,
) -> Bundle:
    """Write the copy. The original and its collections stay; a tower that fails parity is not written.

    `measure` may describe the copy anew, and raise where it is not to be written.
    """
    if folder.resolve() == original.folder.resolve():
        raise BundleError(f"{folder} has collections of its own vectors: write the new bundle elsewhere")
    if original.has(POINTS_FILE):
        raise BundleError(f"bundle {original.name} has a point tower already")
    with stage_bundle(folder) as aside:
        shutil.copytree(original.folder, aside, dirs_exist_ok=True)
        (aside / bundles.DESCRIPTION_FILE).unlink()
        write_points(tower, spec, aside)
        provenance = {**original.provenance, "points": dict(origin)}
        draft = replace(original, folder=aside, points=spec, provenance=provenance)
        draft = replace(draft, files=bundles.hash_files(aside), serves={})
        encoder = Encoder(draft)
        check_points(tower, encoder)
        texts, pictures, _ = canary.read(original.path(canary.CANARY_FILE))
        canary.record(encoder, texts, pictures)
        bundles.save(draft if measure is None else measure(encoder))
    return bundles.load(folder)


def add_trained_points(
    trained: Checkpoint,
    original: Bundle,
    folder: Path,
    origin: Mapping[str, object],
    views: ItemViews,
    captions: Sequence[Sequence[str]],
    groups: ItemPoints | None,
    force: bool = False,
) -> Bundle:
    """The same with what a recipe has trained, measured on held-out items.

    It is refused if shapes are found less with points than by their views, unless it is forced.
    """

    tower = trained.model.points
    spec = points_of(trained.recipe)
    if tower is None or spec is None or groups is None:
        raise BundleError("this recipe trains no point tower that could be added to a bundle")

    def measure(encoder: Encoder) -> Bundle:
        observed = directions.encode(encoder, views, captions, encoder.grouped_points(groups))
        numbers = {**directions.report(encoder, observed), **point_numbers(encoder, observed)}
        differences = comparison.compare_recalls(
            directions.served_directions(encoder, observed),
            directions.served_directions(encoder, replace(observed, points=NO_BANK)),
        )
        comparison.refuse_worse(differences, original.name, force)
        rival = RivalEncoder(original.name, original.bundle_id, {})
        against = comparison.describe_comparison(differences, rival, force)
        draft = encoder.bundle
        report = bundle_report(draft, numbers)
        report += f"\n## Beside the same without points\n\n{comparison.recall_table(differences)}"
        draft.path("report.md").write_text(report, encoding="utf-8")
        points = {**draft.provenance["points"], "against": against}
        return replace(draft, evaluation=numbers, provenance={**draft.provenance, "points": points})

    return add_points(original, folder, tower, spec, origin, measure)
