"""Two encoders on the same held-out queries: how their recalls differ, and which is worse."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from multifold.errors import MultifoldError
from multifold.metrics import Interval, paired_bootstrap, ranks, recall_at_k
from training.retrieval.directions import CUTS, RetrievalDirection

JUDGED_DIRECTIONS = ("text_to_shape", "shape_to_text")


class WorseError(MultifoldError):
    """A bundle that would take the place of a better one."""


@dataclass(frozen=True)
class RecallDifference:
    direction: str
    cut: int
    new: float
    old: float
    interval: Interval  # of new − old

    @property
    def worse(self) -> bool:
        """Lower beyond chance."""
        return self.interval.high < 0

    def __str__(self) -> str:
        low, high = self.interval
        name = self.direction.replace("_", " ")
        return (
            f"{name} R@{self.cut} {self.new:.3f} for {self.old:.3f}, a difference of "
            f"{self.new - self.old:+.3f} [{low:+.3f}, {high:+.3f}]"
        )


@dataclass(frozen=True)
class RivalEncoder:
    """A bundle in use, and its scores on the held-out items."""

    name: str
    bundle_id: str
    directions: Mapping[str, RetrievalDirection]


def compare_recalls(
    new: Mapping[str, RetrievalDirection], old: Mapping[str, RetrievalDirection]
) -> list[RecallDifference]:
    return [recall_difference(name, new[name], old[name], cut) for name in JUDGED_DIRECTIONS for cut in CUTS]


def refuse_worse(differences: Sequence[RecallDifference], name: str, force: bool) -> None:
    """Raise where the new one is worse, unless forced."""
    worse = [difference for difference in differences if difference.worse]
    if worse and not force:
        raise WorseError(
            f"this model finds less than {name}, beyond chance: {'; '.join(map(str, worse))}. "
            "Nothing was written; --force writes it all the same"
        )


def describe_comparison(
    differences: Sequence[RecallDifference], rival: RivalEncoder, forced: bool
) -> dict[str, Any]:
    """The comparison, for the bundle's provenance."""
    about = {"name": rival.name, "bundle_id": rival.bundle_id, "forced": forced}
    return {**about, "recalls": recalls(differences)}


def recalls(differences: Sequence[RecallDifference]) -> dict[str, list[float]]:
    """By direction and cut: new, old, and the ends of the interval."""
    return {
        f"{each.direction}/R@{each.cut}": [round(float(x), 4) for x in (each.new, each.old, *each.interval)]
        for each in differences
    }


def comparison_markdown(differences: Sequence[RecallDifference], rival: RivalEncoder) -> str:
    return f"## Against {rival.name} ({rival.bundle_id})\n\n{recall_table(differences)}"


def recall_table(differences: Sequence[RecallDifference]) -> str:
    lines = ["| direction | | this | that | difference |", "|---|---|---|---|---|"]
    for each in differences:
        low, high = each.interval
        difference = f"{each.new - each.old:+.3f} [{low:+.3f}, {high:+.3f}]"
        name = each.direction.replace("_", " ")
        lines.append(f"| {name} | R@{each.cut} | {each.new:.3f} | {each.old:.3f} | {difference} |")
    return "\n".join(
        [*lines, "", "The same queries to both; 95 % paired bootstrap intervals over items.", ""]
    )


def recall_difference(
    name: str, new: RetrievalDirection, old: RetrievalDirection, cut: int
) -> RecallDifference:
    if not np.array_equal(new.items, old.items):
        raise ValueError(f"the two were not asked the same {name}")
    ours, theirs = (recall_at_k(ranks(each.scores, each.relevant), cut) for each in (new, old))
    interval = paired_bootstrap(ours, theirs, groups=new.items)
    return RecallDifference(name, cut, float(ours.mean()), float(theirs.mean()), interval)
