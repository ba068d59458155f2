"""How far a graph in Milvus has to look, chosen by measured recall."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass

# Efforts that are tried. Not less: rows that are not in the graph yet are all found, and hide its misses.
LEAST, MOST = 128, 4_096
STEP = 1.5  # between two efforts
FARTHER = 2  # how many times as far as it has to a graph looks whose recall is not measured


@dataclass(frozen=True)
class GraphEffort:
    """How far to look for `reach` candidates, and the recall of the answer of `limit` rows among them."""

    limit: int
    reach: int
    effort: int
    recall: float
    seconds: float  # one query of a batch


@dataclass(frozen=True)
class GraphMeasurement:
    """The efforts that so many queries measured when there were so many rows."""

    target: float
    rows: int
    probes: int
    efforts: tuple[GraphEffort, ...]  # by rising limit

    def effort(self, reach: int) -> int:
        """How far to look for so many candidates: as was measured, and beyond in proportion."""
        for one in self.efforts:
            if reach <= one.reach:
                return one.effort
        last = self.efforts[-1]
        return -(-last.effort * reach // last.reach)


def first_effort(reach: int) -> int:
    """How far to look for so many candidates before the recall is measured."""
    return max(LEAST, FARTHER * reach)


def least_effort(
    limit: int, reach: int, target: float, measure: Callable[[int], tuple[float, float]]
) -> GraphEffort:
    """The least effort that reaches the target, or the best; `measure` returns its recall and seconds."""
    tried = []
    for effort in _rising(first_effort(reach)):
        tried.append(GraphEffort(limit, reach, effort, *measure(effort)))
        if tried[-1].recall >= target:
            return tried[-1]
    return max(tried, key=lambda one: one.recall)


def _rising(effort: int) -> Iterator[int]:
    while effort < MOST:
        yield effort
        effort = int(effort * STEP)
    yield MOST


def measurements_as_note(measured: Mapping[str, GraphMeasurement]) -> str:
    """For the store, by the name in the cluster."""
    return json.dumps({name: asdict(one) for name, one in measured.items()})


def measurements_from_note(note: str | None) -> dict[str, GraphMeasurement]:
    """What `as_note` wrote."""
    raw = {} if note is None else json.loads(note)
    return {
        name: GraphMeasurement(**one | {"efforts": tuple(GraphEffort(**effort) for effort in one["efforts"])})
        for name, one in raw.items()
    }
