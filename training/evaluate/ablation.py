"""The results of `multifold bench ablation`: read from their log, compared, and as tables of a report."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from multifold.errors import MultifoldError
from training.evaluate.report import ReportPart, ReportSection, ReportTable

CUTS = (1, 10)
DIRECTIONS = ("text_to_shape", "shape_to_text", "text_to_image")
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


def ablation_rows(
    runs: Sequence[AblationRun], names: Iterable[str], against: str | None = None
) -> tuple[list[str], list[list[str]]]:
    """Head and rows: the recalls of each named run in percent, or its lead over the run `against`.

    Intervals of 95 % are over seeds and items.
    """
    columns = [(direction, cut) for direction in DIRECTIONS for cut in CUTS]
    recalls = [f"{direction.replace('_', ' ').replace('to', '→')} R@{cut}" for direction, cut in columns]
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
    pairs: Sequence[tuple[AblationRun, AblationRun | None]], direction: str, cut: int
) -> Float64[np.ndarray, "s i"]:
    """Hits by seed and item; less those of the other run, where there is one."""
    mine = [run.hits[direction][f"R@{cut}"] for run, _ in pairs]
    others = [other.hits[direction][f"R@{cut}"] if other else [0.0] for _, other in pairs]
    return np.subtract(mine, others, dtype=np.float64)


def _interval(hits: Float64[np.ndarray, "s i"]) -> str:
    rng, means = np.random.default_rng(0), []
    for _ in range(SAMPLES // 100):
        seeds = rng.integers(len(hits), size=(100, len(hits)))
        items = rng.integers(hits.shape[1], size=(100, hits.shape[1]))
        means.append(hits[seeds[:, :, None], items[:, None, :]].mean((1, 2)))
    low, high = np.quantile(np.concatenate(means), [0.025, 0.975])
    return f"{100 * np.mean(hits):.1f} [{100 * low:.1f}, {100 * high:.1f}]"
