"""A checkpoint becomes a bundle: graphs, tokenizer, canaries, probes and report, checked against torch."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image

from multifold import bundle as bundles
from multifold import canary
from multifold.bundle import Bundle, GeometrySpec, Tolerance
from multifold.encoder import Encoder
from multifold.staging import staged
from training import prepare, promotion
from training.checkpoint import Checkpoint
from training.evaluate import retrieval
from training.evaluate.observed import Observed
from training.geometries.base import Geometry
from training.graphs import check_parity, write_graphs
from training.promotion import Rival

CANARIES = 8
PROBES = 256
TOLERANCES = {
    "fp32/CPUExecutionProvider": Tolerance(cosine=0.9999, norm=1e-3, rank=1.0),
    "fp32/*": Tolerance(cosine=0.999, norm=1e-2, rank=0.9),
}
STRANGE = ("", "  Çhair &amp; table\t—\n\u200b\U0001f6cb\ufe0f ", "word " * 200)


def export(
    checkpoint: Checkpoint,
    views: UInt8[np.ndarray, "i v h w 3"],
    captions: Sequence[Sequence[str]],
    folder: Path,
    provenance: Mapping[str, object],
    rival: Rival | None = None,
    force: bool = False,
    points: bool = True,
) -> Bundle:
    """Write a bundle, its report measured on the given held-out items; clouds bring graphs of their points.

    None is written that fails parity, or that finds less than its rival unless it is forced.
    """
    with staged(folder) as aside:
        _write(checkpoint, views, captions, aside, provenance, rival, force, points)
    return bundles.load(folder)


def _write(
    checkpoint: Checkpoint,
    views: UInt8[np.ndarray, "i v h w 3"],
    captions: Sequence[Sequence[str]],
    folder: Path,
    provenance: Mapping[str, object],
    rival: Rival | None,
    force: bool,
    points: bool,
) -> None:
    (folder / "tokenizer.json").write_text(checkpoint.tokenizer.definition, encoding="utf-8")
    draft = _draft(checkpoint, folder, provenance)
    write_graphs(checkpoint.model, draft.image, draft.text, folder, points)
    draft = replace(draft, files=bundles.hashes(folder))
    encoder = Encoder(draft)
    check_parity(checkpoint.model, encoder, views[0], list(captions[0]))
    observed = retrieval.encode(encoder, views, captions)
    _write_canaries(encoder, views, captions)
    write_probes(observed, folder)
    numbers = retrieval.report(encoder, observed)
    report = markdown(draft, numbers)
    if rival is not None:
        differences = promotion.compare(retrieval.directions(encoder, observed), rival.asked)
        promotion.check(differences, rival.name, force)
        draft = _compared(draft, promotion.described(differences, rival, force))
        report += "\n" + promotion.markdown(differences, rival)
    (folder / "report.md").write_text(report, encoding="utf-8")
    geometry = replace(draft.geometry, root=_root(checkpoint.model.geometry, observed))
    bundles.save(replace(draft, geometry=geometry, evaluation=numbers))


def _compared(draft: Bundle, described: Mapping[str, object]) -> Bundle:
    return replace(draft, provenance={**draft.provenance, "against": described})


def _draft(checkpoint: Checkpoint, folder: Path, provenance: Mapping[str, object]) -> Bundle:
    recipe, geometry = checkpoint.recipe, checkpoint.model.geometry
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
        image=prepare.image_spec(recipe),
        text=prepare.text_spec(recipe, checkpoint.tokenizer),
        views=prepare.view_spec(recipe),
        tolerances=TOLERANCES,
        provenance={**provenance, "recipe": recipe.model_dump(mode="json")},
    )


def _root(geometry: Geometry, observed: Observed) -> tuple[float, ...]:
    """Where traversals end; both sides have the same say in it."""
    sides = (geometry.root(torch.from_numpy(side)) for side in _sides(observed).values())
    return tuple(torch.stack([*sides]).mean(0).tolist())


def _write_canaries(
    encoder: Encoder, views: UInt8[np.ndarray, "i v h w 3"], captions: Sequence[Sequence[str]]
) -> None:
    """Pictures of odd sizes and texts, strange ones among them, spread over the held-out items."""
    spread = np.linspace(0, len(views) - 1, min(CANARIES, len(views))).astype(int)
    sizes = [(150 - 7 * i, 110 + 9 * i) for i in range(len(spread))]
    pictures = [Image.fromarray(views[i, 0]).resize(s) for i, s in zip(spread, sizes, strict=True)]
    texts = [captions[i][0] for i in spread] + list(STRANGE)
    canary.record(encoder, texts, [np.asarray(picture) for picture in pictures])


def write_probes(observed: Observed, folder: Path) -> None:
    """Held-out query features of each side, for an index to measure its recall with."""
    probes: dict[str, Any] = {side: features[:PROBES] for side, features in _sides(observed).items()}
    np.savez(folder / "probe.npz", **probes)


def _sides(observed: Observed) -> dict[str, np.ndarray]:
    """The features that queries have, by side."""
    return {"text": observed.text.features, "shape": observed.shape.pooled().features}


def markdown(bundle: Bundle, numbers: Mapping[str, Mapping[str, object]]) -> str:
    lines = [f"# {bundle.name}", "", bundle.about, ""]
    lines += ["| direction | queries | gallery | R@1 | R@5 | R@10 | NDCG@5 | median rank |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    lines += [_row(name.replace("_", " "), values) for name, values in numbers.items()]
    return "\n".join([*lines, "", "95 % bootstrap intervals in brackets; ties count against us.", ""])


def _row(name: str, values: Mapping[str, object]) -> str:
    def show(value: object) -> str:
        return "{} [{}, {}]".format(*value) if isinstance(value, list) else str(value)

    keys = ("queries", "gallery", "R@1", "R@5", "R@10", "NDCG@5", "median_rank")
    return f"| {name} | " + " | ".join(show(values[key]) for key in keys) + " |"
