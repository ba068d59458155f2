"""A checkpoint becomes a bundle: graphs, tokenizer, canaries, probes and report, checked against torch."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import torch
from PIL import Image

from multifold.bundle import bundle as bundles
from multifold.bundle import canary
from multifold.bundle.bundle import Bundle, GeometrySpec, Tolerance, stage_bundle
from multifold.bundle.encoder import Encoder
from multifold.errors import MultifoldError
from training import prepare, towers
from training.checkpoint import Checkpoint
from training.data.points import ItemPoints
from training.data.views import ItemViews
from training.export.graphs import check_parity, write_graphs
from training.retrieval import comparison, directions
from training.retrieval.comparison import RivalEncoder
from training.retrieval.directions import BY_CHANCE, CHANCE, tells_nothing
from training.retrieval.features import HeldOutFeatures

CANARY_COUNT = 8
PROBE_COUNT = 256
TOLERANCES = {
    "fp32/CPUExecutionProvider": Tolerance(cosine=0.9999, norm=1e-3, rank=1.0),
    "fp32/*": Tolerance(cosine=0.999, norm=1e-2, rank=0.9),
}
ODD_TEXTS = ("", "  Çhair &amp; table\t—\n\u200b\U0001f6cb\ufe0f ", "word " * 200)


def _refuse_unserved(checkpoint: Checkpoint) -> None:
    """Raise where a bundle would search by what was not trained."""
    if not checkpoint.recipe.loss.sees:
        raise MultifoldError("this model knows shapes by their points alone, and a bundle sees views")


def export_bundle(
    checkpoint: Checkpoint,
    views: ItemViews,
    captions: Sequence[Sequence[str]],
    folder: Path,
    provenance: Mapping[str, object],
    rival: RivalEncoder | None = None,
    force: bool = False,
    groups: ItemPoints | None = None,
) -> Bundle:
    """Write a bundle, its report measured on the given held-out items.

    With the `groups` of the items' points it is measured by these, too.
    None is written that fails parity, or that finds less than its rival unless it is forced.
    """
    _refuse_unserved(checkpoint)
    with stage_bundle(folder) as aside:
        (aside / "tokenizer.json").write_text(checkpoint.tokenizer.definition, encoding="utf-8")
        draft = _draft(checkpoint, aside, provenance)
        write_graphs(checkpoint.model, draft.image, draft.text, aside, draft.points)
        draft = replace(draft, files=bundles.hash_files(aside))
        encoder = Encoder(draft)
        check_parity(checkpoint.model, encoder, views[0], list(captions[0]))
        by_points = None if groups is None else encoder.grouped_points(groups)
        observed = directions.encode(encoder, views, captions, by_points)
        _write_canaries(encoder, views, captions)
        write_probes(observed, aside)
        numbers = directions.report(encoder, observed)
        lengths = directions.report_prefixes(encoder, observed, draft.prefixes)
        numbers = {**numbers, **point_numbers(encoder, observed)}
        report = bundle_report(draft, numbers, lengths)
        if rival is not None:
            differences = comparison.compare_recalls(
                directions.served_directions(encoder, observed), rival.directions
            )
            comparison.refuse_worse(differences, rival.name, force)
            described = comparison.describe_comparison(differences, rival, force)
            draft = replace(draft, provenance={**draft.provenance, "against": described})
            report += (
                f"\n## Against {rival.name} ({rival.bundle_id})\n\n{comparison.recall_table(differences)}"
            )
        (aside / "report.md").write_text(report, encoding="utf-8")
        roots = [checkpoint.model.geometry.root(torch.from_numpy(one)) for one in _sides(observed).values()]
        geometry = replace(draft.geometry, root=tuple(torch.stack(roots).mean(0).tolist()))
        bundles.save(
            replace(
                draft, geometry=geometry, evaluation={**numbers, **({"prefixes": lengths} if lengths else {})}
            )
        )
    return bundles.load(folder)


def _draft(checkpoint: Checkpoint, folder: Path, provenance: Mapping[str, object]) -> Bundle:
    recipe = checkpoint.recipe
    geometry = checkpoint.model.geometry
    signs = geometry.query_signs
    return Bundle(
        folder=folder,
        name=recipe.name,
        about=recipe.about,
        geometry=GeometrySpec(
            name=geometry.name,
            feature_dim=geometry.feature_dim,
            dim=geometry.dim,
            metric=geometry.metric,
            query_signs=None if signs is None else tuple(signs.tolist()),
            params={**recipe.geometry.params, **geometry.stated()},
        ),
        image=towers.image_spec(recipe.image),
        text=towers.text_spec(recipe.text, checkpoint.tokenizer),
        views=prepare.view_spec(recipe),
        tolerances=TOLERANCES,
        provenance={**provenance, "recipe": recipe.model_dump(mode="json")},
        prefixes=recipe.loss.nested,
        points=prepare.points_of(recipe),
    )


def point_numbers(encoder: Encoder, observed: HeldOutFeatures) -> dict[str, Mapping[str, Any]]:
    """What finds shapes by their points, and by all; none where there are no points."""
    return {
        name: directions.numbers(directions.direction(encoder, observed, name, "mean"))
        for name in directions.POINT_DIRECTIONS
        if len(observed.points)
    }


def _write_canaries(encoder: Encoder, views: ItemViews, captions: Sequence[Sequence[str]]) -> None:
    """Pictures of odd sizes and texts, unusual ones among them, spread over the held-out items."""
    spread = np.linspace(0, len(views) - 1, min(CANARY_COUNT, len(views))).astype(int)
    sizes = [(150 - 7 * i, 110 + 9 * i) for i in range(len(spread))]
    pictures = [Image.fromarray(views[i, 0]).resize(s) for i, s in zip(spread, sizes, strict=True)]
    texts = [captions[i][0] for i in spread] + list(ODD_TEXTS)
    canary.record(encoder, texts, [np.asarray(picture) for picture in pictures])


def write_probes(observed: HeldOutFeatures, folder: Path) -> None:
    """Held-out query features of each side, with which an index measures its recall."""
    probes: dict[str, Any] = {side: features[:PROBE_COUNT] for side, features in _sides(observed).items()}
    np.savez(folder / "probe.npz", **probes)


def _sides(observed: HeldOutFeatures) -> dict[str, np.ndarray]:
    return {"text": observed.text.features, "shape": observed.shape.pooled().features}


Numbers: TypeAlias = Mapping[str, Mapping[str, object]]  # by direction and measure
NO_PREFIXES: Mapping[str, Numbers] = MappingProxyType({})


def bundle_report(bundle: Bundle, numbers: Numbers, prefixes: Mapping[str, Numbers] = NO_PREFIXES) -> str:
    keys = ("queries", "gallery", "R@1", "R@5", "R@10", CHANCE, "NDCG@5", "median_rank")
    lines = [f"# {bundle.name}", "", bundle.about, ""]
    lines += [f"| direction | {' | '.join(keys)} |".replace("_", " "), "|---" * (1 + len(keys)) + "|"]
    shorter = {
        f"{name}, first {k} numbers": one for k, some in prefixes.items() for name, one in some.items()
    }
    for name, values in {**numbers, **shorter}.items():
        shown = (values[key] for key in keys)
        cells = ["{} [{}, {}]".format(*one) if isinstance(one, list) else str(one) for one in shown]
        lines.append(f"| {name.replace('_', ' ')} | {' | '.join(cells)} |")
    lines += ["", "95 % bootstrap intervals in brackets; ties count against us."]
    if numbers and all(map(tells_nothing, numbers.values())):
        lines.append(BY_CHANCE)
    return "\n".join([*lines, ""])
