"""The results of `multifold bench ablation`: read from their log, compared, and as tables of a report."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from multifold.errors import MultifoldError
from multifold.metrics import ranks, recall_at_k
from training.data.views import ItemViews
from training.evaluate.report import ReportPart, ReportSection, ReportTable
from training.retrieval.directions import STANDARD, RetrievalEncoder, direction, encode

CUTS = (1, 5, 10)
MEASURED = (1, 10)
DIRECTIONS = ("text_to_shape", "shape_to_text", "text_to_image")
BOTH_WAYS = DIRECTIONS[:2]
SAMPLES = 4000


@dataclass(frozen=True)
class AblationRun:
    """The cost of one run, and for each test item the share of its queries that hit."""

    study: str
    name: str
    seed: int
    steps: int
    images: int
    cpu_seconds: float
    hits: Mapping[str, Mapping[str, list[float]]]  # direction -> "R@k" -> one number an item


def ablation_sections(log: Path | None) -> list[ReportSection]:
    """A table of each study in the results; none without a results file."""
    if log is None:
        return []
    runs = read_runs(log)
    if not runs:
        raise MultifoldError(f"{log} has no results of `multifold bench ablation`")
    parts: list[ReportPart] = []
    for study in dict.fromkeys(run.study for run in runs):
        ours = [run for run in runs if run.study == study]
        names = dict.fromkeys(run.name for run in ours)
        parts += [study.capitalize(), ReportTable(*ablation_rows(ours, names))]
    return [ReportSection("Ablation", parts)]


def read_runs(log: Path) -> list[AblationRun]:
    if not log.exists():
        return []
    return [AblationRun(**json.loads(line)) for line in log.read_text(encoding="utf-8").splitlines()]


def item_hits(
    encoder: RetrievalEncoder, views: ItemViews, captions: Sequence[Sequence[str]], equal_texts: bool = False
) -> dict[str, dict[str, list[float]]]:
    """Each item's share of queries that hit, in the directions of the tables."""
    observed = encode(encoder, views, captions)
    hits: dict[str, dict[str, list[float]]] = {}
    for name, pool in STANDARD:
        found = direction(encoder, observed, name, pool, equal_texts=equal_texts)
        places, counts = ranks(found.scores, found.relevant), np.bincount(found.items)
        shares = {cut: np.bincount(found.items, recall_at_k(places, cut)) / counts for cut in CUTS}
        hits[name] = {f"R@{cut}": share.round(4).tolist() for cut, share in shares.items()}
    return hits


def measure_of(hits: Mapping[str, Mapping[str, list[float]]]) -> Float64[np.ndarray, " i"]:
    """For each item the mean of R@1 and R@10, text to shape and shape to text."""
    columns = [hits[direction][f"R@{cut}"] for direction in BOTH_WAYS for cut in MEASURED]
    return np.asarray(np.mean(columns, axis=0), np.float64)


def ablation_rows(
    runs: Sequence[AblationRun], names: Iterable[str], against: str | None = None, measure: bool = False
) -> tuple[list[str], list[list[str]]]:
    """Head and rows: the recalls of each named run in percent, or its lead over the run `against`.

    Intervals of 95 % are over seeds and items. With `measure`, the mean of four columns comes first.
    """
    measured = [one for one in DIRECTIONS if any(one in run.hits for run in runs)]
    cuts = [cut for cut in CUTS if all(f"R@{cut}" in way for run in runs for way in run.hits.values())]
    columns = [([direction], [cut]) for direction in measured for cut in cuts]
    recalls = [f"{way.replace('_', ' ').replace('to', '→')} R@{cut}" for (way,), (cut,) in columns]
    if measure:
        columns, recalls = [(list(BOTH_WAYS), list(MEASURED)), *columns], ["measure", *recalls]
    rows = []
    for name in names:
        pairs = _pairs(runs, name, against)
        if pairs:
            intervals = [_interval(_hits(pairs, *column)) for column in columns]
            cost = np.mean([run.cpu_seconds for run, _ in pairs])
            rows.append([name, str(len(pairs)), *intervals, f"{pairs[0][0].images:,}", f"{cost:.0f}"])
    return ["run", "seeds", *recalls, "images", "CPU s"], rows


def _pairs(
    runs: Sequence[AblationRun], name: str, against: str | None
) -> list[tuple[AblationRun, AblationRun | None]]:
    """Each run of a name with the run of the same seed that it is compared with."""
    others = {run.seed: run for run in runs if run.name == against}
    own = [run for run in runs if run.name == name and name != against]
    return [(run, others.get(run.seed)) for run in own if against is None or run.seed in others]


def _hits(
    pairs: Sequence[tuple[AblationRun, AblationRun | None]], ways: Sequence[str], cuts: Sequence[int]
) -> Float64[np.ndarray, "s i"]:
    """Mean hits of these columns by seed and item; less those of the other run, where there is one."""
    found = []
    for way, cut in product(ways, cuts):
        mine = [run.hits[way][f"R@{cut}"] for run, _ in pairs]
        others = [other.hits[way][f"R@{cut}"] if other else [0.0] for _, other in pairs]
        found.append(np.subtract(mine, others, dtype=np.float64))
    return np.asarray(np.mean(found, axis=0), np.float64)


def _interval(hits: Float64[np.ndarray, "s i"]) -> str:
    rng, means = np.random.default_rng(0), []
    for _ in range(SAMPLES // 100):
        seeds = rng.integers(len(hits), size=(100, len(hits)))
        items = rng.integers(hits.shape[1], size=(100, hits.shape[1]))
        means.append(hits[seeds[:, :, None], items[:, None, :]].mean((1, 2)))
    low, high = np.quantile(np.concatenate(means), [0.025, 0.975])
    return f"{100 * np.mean(hits):.1f} [{100 * low:.1f}, {100 * high:.1f}]"
