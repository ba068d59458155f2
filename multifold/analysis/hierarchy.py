"""Hierarchical classification metrics on a tree of classes such as WordNet.

TIE: steps on the tree between the predicted and the true class. LCA: steps from the predicted class up to
their least common ancestor; 1 where it is right. Jaccard, precision, recall: of the sets of ancestors.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from multifold.errors import MultifoldError


class ClassTreeError(MultifoldError):
    """A tree of classes that cannot be used."""


@dataclass(frozen=True)
class ClassTree:
    """Each class and what it is a kind of; several parents are possible, circles are not."""

    parents: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        """A circle has no top."""
        for name in self.parents:
            if name in self.ancestors(name):
                raise ClassTreeError(f"{name!r} is a kind of itself in this tree; a tree has no circles")

    def ancestors(self, name: str) -> frozenset[str]:
        """All that a class is a kind of."""
        ancestors: set[str] = set()
        waiting = list(self.parents.get(name, ()))
        while waiting:
            one = waiting.pop()
            if one not in ancestors:
                ancestors.add(one)
                waiting.extend(self.parents.get(one, ()))
        return frozenset(ancestors)

    def steps(self, start: str, end: str) -> int:
        """The length of the shortest way between two classes, up and down."""
        away = {start: 0}
        last = {start}
        while last and end not in away:
            last = {near for one in last for near in self._near[one] if near not in away}
            away |= dict.fromkeys(last, max(away.values()) + 1)
        if end not in away:
            raise ClassTreeError(
                f"no way leads from {start!r} to {end!r} in this tree; it needs one top, and both of them"
            )
        return away[end]

    @cached_property
    def _near(self) -> Mapping[str, set[str]]:
        near: dict[str, set[str]] = defaultdict(set)
        for child, parents in self.parents.items():
            near[child].update(parents)
            for parent in parents:
                near[parent].add(child)
        return near


@dataclass(frozen=True)
class HierarchyMeasures:
    """Means over all predictions."""

    accuracy: float
    tie: float
    lca: float
    jaccard: float
    precision: float
    recall: float


def read_tree(path: Path) -> ClassTree:
    """A tree from JSON: {"chair": "seating", "seating": "furniture"}; a list names several parents."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ClassTreeError(f"the tree {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ClassTreeError(f"{path} is no JSON: {error}") from error
    if not isinstance(raw, dict) or not all(isinstance(one, str | list) for one in raw.values()):
        raise ClassTreeError(f"{path} is no tree: it must be an object, each class with what it is a kind of")
    return ClassTree({name: (of,) if isinstance(of, str) else tuple(of) for name, of in raw.items()})


def measure(tree: ClassTree, predicted: Sequence[str], true: Sequence[str]) -> HierarchyMeasures:
    """The means of all measures over pairs of a predicted and a true class."""
    if not true or len(predicted) != len(true):
        raise ClassTreeError(f"{len(predicted)} predictions for {len(true)} things cannot be measured")
    each = [vars(_measure_one(tree, one, other)) for one, other in zip(predicted, true, strict=True)]
    return HierarchyMeasures(**{name: sum(one[name] for one in each) / len(each) for name in each[0]})


def _measure_one(tree: ClassTree, predicted: str, true: str) -> HierarchyMeasures:
    ours = tree.ancestors(predicted)
    theirs = tree.ancestors(true)
    shared = len(ours & theirs)
    return HierarchyMeasures(
        accuracy=float(predicted == true),
        tie=float(tree.steps(predicted, true)),
        lca=float(len(ours) - shared + 1),
        jaccard=shared / max(1, len(ours | theirs)),
        precision=shared / max(1, len(ours)),
        recall=shared / max(1, len(theirs)),
    )
