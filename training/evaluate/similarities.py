"""How alike right and wrong pairs are: the scores of a search, as histograms."""

from dataclasses import asdict
from typing import Any

from training.evaluate.figures import share_histograms
from training.evaluate.protocols import DirectionSearch
from training.retrieval.directions import Key

SHOWN: tuple[Key, ...] = (("text_to_shape", "mean"), ("text_to_image", "each"))


def measure_similarities(search: DirectionSearch) -> dict[str, Any]:
    """Of each direction, histograms of the scores of right and of wrong pairs, in the same bins."""
    measured = {}
    for name, pool in SHOWN:
        found = search(name, pool)
        if found is None or found.relevant.all():
            continue
        pairs = {"right": found.scores[found.relevant], "wrong": found.scores[~found.relevant]}
        low = float(found.scores.min())
        measured[f"{name}, {pool}"] = {
            side: asdict(one) for side, one in share_histograms(pairs, low).items()
        }
    return measured
