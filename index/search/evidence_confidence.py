"""What the confidence of a hit rests on, beside the evidence for it."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float64

Evidence: TypeAlias = Float64[np.ndarray, " n"]  # in nats
CONFIDENCE_PRIOR = (0.1, 0.8, 0.0, 0.5, -0.3, 0.0, 0.5)  # of the facts below, before anything is fitted
GAIN_LIMITS, LEAD_LIMIT = (-10.0, 12.0), 6.0  # nats


@dataclass(frozen=True)
class Rivals:
    """What the evidence for an item is compared with: that of the first two, and of all items together."""

    items: int
    best: float
    second: float
    everything: float
    length: float  # of the query


def find_rivals(evidence: Evidence, items: int, length: float) -> Rivals:
    """Those of candidates among so many items; the evidence of the other items is nothing."""
    second, best = (
        np.sort(np.append(evidence, [0.0, 0.0]))[-2:] if len(evidence) < 2 else np.sort(evidence)[-2:]
    )
    everything = np.logaddexp.reduce(np.append(evidence, np.log(max(items - len(evidence), 1))))
    return Rivals(items, float(best), float(second), float(everything), length)


def confidence_facts(
    evidence: Evidence, whole: Bool[np.ndarray, " n"], rivals: Rivals
) -> Float64[np.ndarray, "n 7"]:
    """What a confidence rests on: how far the evidence goes beyond the number of items, its share of the
    evidence of all, by how much it leads or trails, whether all words of the query are in the item, in how
    many items, the length of the query, and a constant.
    """
    gain = np.clip(evidence - np.log(max(rivals.items, 1)), *GAIN_LIMITS)
    share = np.clip(evidence - rivals.everything, -GAIN_LIMITS[1], 0)
    lead = np.where(evidence >= rivals.best, rivals.best - rivals.second, evidence - rivals.best)
    peers = np.log(max(1, int(whole.sum())))
    length = np.full(len(evidence), rivals.length)
    lead = np.clip(lead, -LEAD_LIMIT, LEAD_LIMIT)
    return np.stack([gain, share, lead, whole, whole * peers, length, np.ones(len(evidence))], axis=1)
