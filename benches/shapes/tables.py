"""Tables of `multifold bench shapes`: recall in percent, and paired leads with 95 % intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float64, Int64

from benches.reporting import head, row
from benches.shapes.asking import KINDS, Answers
from benches.shapes.shapes import WAYS
from multifold.metrics import bootstrap

Hits: TypeAlias = Float64[np.ndarray, " q"]

ITS_BETTER_LEG = "its better leg"
LEADS = (
    ("points", "views"),
    ("views + points", "views"),
    ("views + points", "points"),
    ("views + points", ITS_BETTER_LEG),
)
MANY = 1_000_000  # more than a world has items


@dataclass(frozen=True)
class ShapesRun:
    """What one training has cost and found."""

    world: str
    way: str
    seed: int
    steps: Sequence[int]  # of each stage
    cpu_seconds: float
    answers: Mapping[str, Answers]  # of the whole, called "", and of its legs


def shapes_table(world: str, runs: Sequence[ShapesRun]) -> str:
    """How many queries of each task find their item at once, and how much more one way finds than another."""
    if not runs:
        return f"\n### {world}: no run\n"
    tasks = [task for task in KINDS if any(task in one.answers[""].hits for one in runs)]
    lines = [f"\n### {world}\n", head("way", "seeds", "steps", "CPU s", *tasks, "text → shape, R@10")]
    for way in WAYS:
        ours = [one for one in runs if one.way == way]
        for leg in ours[0].answers if ours else ():
            steps = " + ".join(map(str, np.mean([one.steps for one in ours], axis=0).round().astype(int)))
            cost = f"{np.mean([one.cpu_seconds for one in ours]):.0f}"
            told = ["", "", ""] if leg else [len(ours), steps, cost]
            cells = [_percent(_hits(ours, task, leg)) for task in tasks]
            cells.append(_percent(_hits(ours, tasks[0], leg, "R@10")))
            lines.append(row(f"… {leg}" if leg else way, *told, *cells))
    lines += ["", head("lead", *tasks)]
    for way, other in LEADS:
        cells = [_lead(runs, task, way, other) for task in tasks]
        lines.append(row(f"{way} over {other}", *cells))
    return "\n".join(lines)


def _hits(runs: Sequence[ShapesRun], task: str, leg: str = "", cut: str = "R@1") -> Hits:
    """Those of all runs, one after the other; none, where none of them has the task."""
    found = [one.answers[leg].hits[task][cut] for one in runs if task in one.answers[leg].hits]
    return np.concatenate(found) if found else np.empty(0)


def _percent(hits: Hits) -> str:
    return f"{100 * hits.mean():.1f}" if len(hits) else ""


def _lead(runs: Sequence[ShapesRun], task: str, way: str, other: str) -> str:
    """The mean difference over runs of the same seed, in points."""
    ours = {one.seed: one for one in runs if one.way == way}
    theirs, leg = ours, ""
    if other == ITS_BETTER_LEG:
        legs = [name for name in next(iter(ours.values())).answers if name] if ours else []
        leg = max(legs, key=lambda name: float(_hits([*ours.values()], task, name).mean()), default="")
    else:
        theirs = {one.seed: one for one in runs if one.way == other}
    both = [seed for seed in ours if seed in theirs]
    first = _hits([ours[seed] for seed in both], task)
    second = _hits([theirs[seed] for seed in both], task, leg)
    if not len(first) or not len(second):
        return ""
    groups = np.concatenate([_groups(ours[seed], task) for seed in both])
    low, high = bootstrap(first - second, groups=groups)
    return f"{100 * (first - second).mean():+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def _groups(one: ShapesRun, task: str) -> Int64[np.ndarray, " q"]:
    """The item of each query; each seed asks for a kit of its own, and for the same furniture."""
    items = np.array(one.answers[""].items[task])
    return items + MANY * one.seed if one.world == "kits" else items
