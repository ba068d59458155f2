"""How far an index in Milvus has to look, chosen by measured recall."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from index.engines.search_setting import SearchSetting

# Efforts that are tried. Not less: rows that are not in the graph yet are all found, and hide its misses.
LEAST_EFFORT, MOST_EFFORT = 128, 4_096
EFFORT_STEP = 1.5  # between two efforts
FARTHER = 2  # how many times as far as it has to a graph looks whose recall is not measured


@dataclass(frozen=True)
class EffortRange:
    """What a type of index calls how far it looks, and which efforts are tried."""

    name: str
    least: int = LEAST_EFFORT
    most: int = MOST_EFFORT
    unmeasured: int = LEAST_EFFORT  # before the recall is measured
    counts_candidates: bool = True  # so that it grows with the candidates that are wanted


GRAPH_EFFORT = EffortRange("ef")
EFFORTS = {
    "HNSW": GRAPH_EFFORT,
    "DISKANN": EffortRange("search_list"),
    "IVF_SQ8": EffortRange("nprobe", least=16, most=1_024, unmeasured=64, counts_candidates=False),
}


def effort_for(reach: int, measured: Sequence[SearchSetting], by: EffortRange = GRAPH_EFFORT) -> int:
    """How far to look for so many candidates: as was measured (by rising limit), beyond in proportion."""
    if not measured:
        return max(by.unmeasured, FARTHER * reach) if by.counts_candidates else by.unmeasured
    one = next((one for one in measured if reach <= one.candidates), measured[-1])
    more = -(-one.effort * reach // one.candidates)
    return max(one.effort, more if by.counts_candidates else min(more, by.most))


def least_effort(
    limit: int,
    reach: int,
    target: float,
    measure: Callable[[int], tuple[float, float]],
    by: EffortRange = GRAPH_EFFORT,
) -> SearchSetting:
    """The least effort that reaches the target, or the best; `measure` returns its recall and seconds."""
    effort = effort_for(reach, (), by) if by.counts_candidates else by.least
    tried = list[SearchSetting]()
    while not tried or (tried[-1].recall < target and tried[-1].effort < by.most):
        effort = min(effort, by.most)
        recall, seconds = measure(effort)
        tried.append(SearchSetting(limit, effort, reach, recall, seconds))
        effort = int(effort * EFFORT_STEP)
    return max(tried, key=lambda one: one.recall)
