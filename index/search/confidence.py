"""How sure a search is of its hits: logistic curves over what the evidence for an item has to say.

A confidence is the chance that this item is what was meant. It rests on how far the evidence stands out of
that for all other items, on the lead over the next one, and on how much was understood: a text that has the
whole query says the more, the more of its own words the query states. Three words of a sentence may be
anybody's; the two words of a name are the name.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float64

from multifold.compiling import compile_annotated

Evidence: TypeAlias = Float64[np.ndarray, " n"]  # in nats
Curves: TypeAlias = tuple[tuple[float, ...], ...]  # what each fact adds to the log odds, by kind of hit

WHOLE = 0.999  # of the rarity of a query's words: all of them
GAIN_LIMIT, LEAD_LIMIT, ODDS_LIMIT, LEAST_DOUBT = 10.0, 6.0, 8.0, 1e-9  # nats
FACTS = ("gain", "odds", "lead", "stated", "peers", "length", "constant")
RISING_FACTS = ("odds", "lead", "stated")  # of which more never makes less sure
# Before anything is fitted. The first hit has rows of its own, and so have pictures that ask, and queries
# whose words no item has: nothing but readers answers these and, where an item has no text, pictures.
CONFIDENCE_PRIOR: Curves = (
    (-0.18, 0.84, 0.00, 3.99, -0.38, 2.12, -1.10),  # the first
    (-0.66, 0.56, 0.39, 0.50, -0.30, 1.77, -0.57),  # of a strange query
    (-0.76, 0.99, 0.23, 0.50, -0.30, 2.56, -1.93),  # and without a text: seen alone
    (0.13, 0.74, 3.78, 0.50, -0.30, 0.00, 1.56),  # of a picture
    (-0.06, 0.78, 0.03, 0.11, 0.01, 0.35, -0.51),  # another
    (-0.03, 0.32, 0.36, 0.50, -0.30, -0.14, -0.73),  # of a strange query
    (0.45, 1.17, 0.11, 0.50, -0.30, 2.22, -1.65),  # and without a text
    (-0.43, 0.62, 3.41, 0.50, -0.30, 0.00, 0.86),  # of a picture
)
RISING = np.tile(np.isin(FACTS, RISING_FACTS), len(CONFIDENCE_PRIOR))


@dataclass(frozen=True)
class Rivals:
    """What the evidence for an item is compared with: that of the first two, and of all items together."""

    items: int
    best: float
    second: float
    everything: float
    length: float  # of the query; 0: it is a picture
    strange: float  # how strange the query is, from 0 to 1

    @property
    def gain(self) -> float:
        """Nats by which all evidence goes beyond what so many items have by chance."""
        return self.everything - float(np.log(max(self.items, 1)))


def find_rivals(evidence: Evidence, items: int, length: float, strange: float) -> Rivals:
    """Those of candidates among so many items; the evidence of the other items is nothing."""
    second, best = np.sort(np.append(evidence, [0.0, 0.0]) if len(evidence) < 2 else evidence)[-2:].tolist()
    rest = math.log(max(items - len(evidence), 1))
    most = max(best, rest)  # so that no exponential is too large
    everything = most + math.log(np.exp(evidence - most).sum() + math.exp(rest - most))
    return Rivals(items, best, second, everything, length, strange)


def confidence_facts(
    evidence: Evidence, stated: Float64[np.ndarray, " n"], bare: Bool[np.ndarray, " n"], rivals: Rivals
) -> Float64[np.ndarray, "n f"]:
    """What a confidence rests on, of each item: `FACTS`, in the columns of the row that holds; else 0."""
    facts = np.zeros((len(evidence), len(RISING)))
    rows = facts.reshape(len(evidence), *np.shape(CONFIDENCE_PRIOR))
    gain, text = min(rivals.gain, GAIN_LIMIT), float(rivals.length > 0)
    heard, strange = text * (1 - rivals.strange), text * rivals.strange
    same = np.ones(len(evidence))
    shares = np.stack([heard * same, strange * ~bare, strange * bare, (1 - text) * same], axis=1)
    write_facts(
        evidence, stated, shares, gain, rivals.everything, rivals.best, rivals.second, rivals.length, rows
    )
    return facts


@compile_annotated("facts")
def write_facts(
    evidence: Evidence,
    stated: Float64[np.ndarray, " n"],
    shares: Float64[np.ndarray, "n k"],
    gain: float,
    everything: float,
    best: float,
    second: float,
    length: float,
    facts: Float64[np.ndarray, "n r f"],
) -> None:
    """Write them by how much each hit is of each kind; all other rows have to be 0."""
    peers = np.log(max(1, int(np.count_nonzero(stated))))
    for item in range(len(evidence)):
        likely = max(-ODDS_LIMIT, min(evidence[item] - everything, -LEAST_DOUBT))
        odds = max(-ODDS_LIMIT, min(likely - np.log(-np.expm1(likely)), ODDS_LIMIT))
        first = evidence[item] >= best
        lead = max(-LEAD_LIMIT, min(best - second if first else evidence[item] - best, LEAD_LIMIT))
        known = (gain, odds, lead, stated[item], peers if stated[item] > 0 else 0.0, length, 1.0)
        for kind in range(shares.shape[1]):
            row = kind if first else kind + shares.shape[1]
            for place in range(len(known)):
                facts[item, row, place] = known[place] * shares[item, kind]


def confidences(
    curves: Curves,
    evidence: Evidence,
    stated: Float64[np.ndarray, " n"],
    bare: Bool[np.ndarray, " n"],
    rivals: Rivals,
) -> Evidence:
    facts = confidence_facts(evidence, stated, bare, rivals)
    chances: Evidence = 1 / (1 + np.exp(-(facts @ np.ravel(curves))))
    return chances


def as_curves(numbers: Sequence[float] | Float64[np.ndarray, " f"]) -> Curves:
    """Curves of their numbers in one row."""
    return tuple(map(tuple, np.reshape(numbers, np.shape(CONFIDENCE_PRIOR)).tolist()))
