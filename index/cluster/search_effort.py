"""How far a graph in Milvus has to look, chosen by measured recall."""

from collections.abc import Callable, Sequence

from index.engines.faiss_index import SearchSetting

# Efforts that are tried. Not less: rows that are not in the graph yet are all found, and hide its misses.
LEAST, MOST = 128, 4_096
STEP = 1.5  # between two efforts
FARTHER = 2  # how many times as far as it has to a graph looks whose recall is not measured


def effort_for(reach: int, measured: Sequence[SearchSetting]) -> int:
    """How far to look for so many candidates: as was measured (by rising limit), beyond in proportion."""
    if not measured:
        return max(LEAST, FARTHER * reach)
    one = next((one for one in measured if reach <= one.candidates), measured[-1])
    return max(one.effort, -(-one.effort * reach // one.candidates))


def least_effort(
    limit: int, reach: int, target: float, measure: Callable[[int], tuple[float, float]]
) -> SearchSetting:
    """The least effort that reaches the target, or the best; `measure` returns its recall and seconds."""
    effort, tried = effort_for(reach, ()), list[SearchSetting]()
    while not tried or (tried[-1].recall < target and tried[-1].effort < MOST):
        tried.append(SearchSetting(limit, min(effort, MOST), reach, *measure(min(effort, MOST))))
        effort = int(effort * STEP)
    return max(tried, key=lambda one: one.recall)
