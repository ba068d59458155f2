"""Two encoders on the same held-out queries: how their recalls differ, and which is worse."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

import numpy as np

from multifold.errors import MultifoldError
from multifold.metrics import Interval, bootstrap, ranks, recall_at_k
from training.retrieval.directions import CUTS, RetrievalDirection

POWER = 1.96 + 0.84  # deviations: a difference of this size shows beyond chance four times out of five
DIFFERING = 0.2  # of the queries two encoders answer differently, as a rule
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

    @property
    def cells(self) -> list[str]:
        low, high = self.interval
        difference = f"{self.new - self.old:+.3f} [{low:+.3f}, {high:+.3f}]"
        return [
            self.direction.replace("_", " "),
            f"R@{self.cut}",
            f"{self.new:.3f}",
            f"{self.old:.3f}",
            difference,
        ]

    def __str__(self) -> str:
        return "{} {} {} for {}, a difference of {}".format(*self.cells)


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


def needed_items(difference: float) -> int:
    """How many held-out items show a difference of recall beyond chance."""
    return ceil(DIFFERING * (POWER / difference) ** 2)


def visible_difference(items: int) -> float:
    """The smallest difference of recall that so many held-out items show beyond chance."""
    return min(1.0, POWER * sqrt(DIFFERING / items))


def refuse_few(items: int, difference: float, force: bool) -> None:
    """Raise where so few items say nothing of a difference like that, unless forced."""
    if items < (needed := needed_items(difference)) and not force:
        raise WorseError(
            f"{items} held-out items cannot show that recall falls by {difference:g}: that takes {needed}. "
            "Hold out more, ask for a larger --difference, or write it all the same by --force"
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


def recall_table(differences: Sequence[RecallDifference]) -> str:
    lines = ["| direction | | this | that | difference |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(each.cells)} |" for each in differences]
    note = "The same queries to both; 95 % paired bootstrap intervals over items."
    return "\n".join([*lines, "", note, ""])


def recall_difference(
    name: str, new: RetrievalDirection, old: RetrievalDirection, cut: int
) -> RecallDifference:
    if not np.array_equal(new.items, old.items):
        raise ValueError(f"the two were not asked the same {name}")
    ours, theirs = (recall_at_k(ranks(each.scores, each.relevant), cut) for each in (new, old))
    interval = bootstrap(ours - theirs, groups=new.items)
    return RecallDifference(name, cut, float(ours.mean()), float(theirs.mean()), interval)
