"""How evidence is weighted: standard scores, the weights of the legs, and the confidence of hits.

A *standard score* is a score of any unit as standard deviations from what strangers score.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Bool, Float32, Float64

from multifold.types import ASPECTS, Leg, Side

Weights: TypeAlias = Float64[np.ndarray, " w"]
Evidence: TypeAlias = Float64[np.ndarray, " n"]  # in nats
Values: TypeAlias = Float32[np.ndarray, " n"]
Curves: TypeAlias = tuple[tuple[float, ...], ...]  # what each fact adds, by kind of hit
AnyScores: TypeAlias = Float32[np.ndarray, "..."]
LOWEST, HIGHEST = -4.0, 8.0  # standard deviations that count
# What each fact adds to the log odds of a hit before anything is fitted. The first hit has rows of its own,
# and so have pictures that ask, and queries whose words no item has: nothing but pictures answers these.
CONFIDENCE_PRIOR: Curves = (
    (-0.26, 0.63, 0.11, 0.05, -0.20, -0.15, 0.45),  # the first
    (-0.30, 1.20, 1.04, 0.50, -0.30, 0.27, 0.71),  # of a strange query
    (-0.05, 0.94, 1.63, 0.50, -0.30, 0.00, 1.05),  # of a picture
    (0.02, 0.74, 0.00, 0.29, -0.27, 0.02, -0.47),  # another
    (-0.10, 0.94, 0.43, 0.50, -0.30, 0.23, 0.30),  # of a strange query
    (-0.11, 1.03, 0.93, 0.50, -0.30, 0.00, 0.03),  # of a picture
)
GAIN_LIMIT, LEAD_LIMIT, ODDS_LIMIT, TINY = 10.0, 6.0, 8.0, 1e-9  # nats

LEGS: tuple[Leg, ...] = (*ASPECTS, "words", "reader")
SHAPE_LEGS: tuple[Leg, ...] = ("shape", "points")  # what is known of a shape
# What is weighted of each leg. "… long" grows with the words of the query, up to a whole sentence, and "words
# short" falls with them; "words all" is what they say together, where an item has nearly all of them.
COLUMNS: Mapping[Leg, tuple[str, ...]] = {
    "text": ("text", "text long"),
    "image": ("image", "image long"),
    "shape": ("shape", "shape long"),
    "points": ("points", "points long"),
    "words": ("words", "words all", "words short"),
    "reader": ("reader", "reader long"),
}
NAMES = tuple(name for leg in LEGS for name in COLUMNS[leg])  # of the weights
PLACES: Mapping[Leg, slice] = {
    leg: slice(NAMES.index(names[0]), NAMES.index(names[-1]) + 1) for leg, names in COLUMNS.items()
}
RULES = 10  # another number fits every stored model again

# Weights before anything is fitted, by the side of the query, and how far a fit may carry them (std. dev.).
# Pictures find less with points.
PRIOR: Mapping[Side, Mapping[str, float]] = {
    "text": {
        "text": 0.1, "text long": 0.1, "image": 0.2, "image long": 0.4, "shape": 0.2, "shape long": 0.4,
        "points": 0.1, "points long": 0.2,
        "words": 0.3, "words all": 0.4, "words short": 0.5, "reader": 0.1, "reader long": 0.1,
    },
    "image": {"text": 0.5, "image": 1.5, "shape": 1.0},
    "shape": {"text": 0.5, "image": 1.0, "shape": 2.0, "points": 1.0},
}  # fmt: skip
PRIOR_SPREAD = 0.4
ENOUGH_STRANGERS = 64  # of whom a picture stands out by more than chance
MEANINGLESS = 0.4  # nats beyond what strangers have together, that a query without a meaning may have
# Weights for queries of whose words no item has much: they are in another language than the captions, or
# have other words for the same things. A reader knows such words.
WORDLESS: Mapping[str, float] = {
    "text": 0.1, "text long": 0.1, "image": 0.3, "image long": 1.2, "shape": 0.3, "shape long": 1.2,
    "points": 0.15, "points long": 0.6,
    "words": 0.03, "words all": 0.04, "words short": 0.05, "reader": 1.6,
}  # fmt: skip
UNHEARD, FAMILIAR = 0.18, 0.3  # the share of a query's rarity that an item has: up to, and no longer from


@dataclass(frozen=True)
class Rivals:
    """What the evidence for an item is compared with: that of the first two, and of all items together."""

    items: int
    best: float
    second: float
    everything: float
    length: float  # of the query; 0: it is a picture
    strange: float  # how strange the query is, from 0 to 1


def find_rivals(evidence: Evidence, items: int, length: float, strange: float = 0.0) -> Rivals:
    """Those of candidates among so many items; the evidence of the other items is nothing."""
    second, best = (
        np.sort(np.append(evidence, [0.0, 0.0]))[-2:] if len(evidence) < 2 else np.sort(evidence)[-2:]
    )
    everything = np.logaddexp.reduce(np.append(evidence, np.log(max(items - len(evidence), 1))))
    return Rivals(items, float(best), float(second), float(everything), length, strange)


def confidence_facts(
    evidence: Evidence, whole: Bool[np.ndarray, " n"], rivals: Rivals
) -> Float64[np.ndarray, "n 42"]:
    """What a confidence rests on: how far all evidence goes beyond the number of items, the odds of an item
    against all others, by how much it leads or trails, whether all words of the query are in it, in how many
    items, the length of the query, and a constant. All are 0 but those of the row that holds.
    """
    gain = np.full(len(evidence), min(rivals.everything - np.log(max(rivals.items, 1)), GAIN_LIMIT))
    likely = np.clip(evidence - rivals.everything, -ODDS_LIMIT, -TINY)
    odds = np.clip(likely - np.log(-np.expm1(likely)), -ODDS_LIMIT, ODDS_LIMIT)
    first = evidence >= rivals.best
    lead = np.where(first, rivals.best - rivals.second, evidence - rivals.best)
    peers = np.log(max(1, int(whole.sum())))
    length = np.full(len(evidence), rivals.length)
    lead = np.clip(lead, -LEAD_LIMIT, LEAD_LIMIT)
    facts = np.stack([gain, odds, lead, whole, whole * peers, length, np.ones(len(evidence))], axis=1)
    text = float(rivals.length > 0)
    shares = (text * (1 - rivals.strange), text * rivals.strange, 1 - text)
    rows = [part * share for part in (first, ~first) for share in shares]
    return np.concatenate([facts * row[:, None] for row in rows], axis=1)


@dataclass(frozen=True)
class LegQuality:
    """What a leg is worth: the recall that it has alone, and that of all others together."""

    recall_alone: float
    recall_without: float
    off: str | None = None  # why it has no weight; no fit takes it away


def in_order(weights: Mapping[str, float]) -> Weights:
    """Weights by their names as an array; 0 where none is stated."""
    return np.array([weights.get(name, 0.0) for name in NAMES])


def prior_weights(side: Side, legs: Sequence[Leg] = LEGS) -> Weights:
    """The weights of a side before anything is fitted; of other legs than these, none."""
    named = {name for leg in legs for name in COLUMNS[leg]}
    return in_order({name: weight for name, weight in PRIOR[side].items() if name in named})


def strangeness(heard: float, strangers: int) -> float:
    """How strange a query is, from 0 to 1, of whose rarity an item has this share at most, among so many."""
    strange = float(np.clip((FAMILIAR - heard) / (FAMILIAR - UNHEARD), 0, 1))
    return strange * min(1.0, strangers / ENOUGH_STRANGERS)


@dataclass(frozen=True)
class SideModel:
    """How the evidence of queries of one side is weighted, and what makes a confidence of it."""

    weights: Weights
    confidence: Curves = CONFIDENCE_PRIOR  # of the facts that it rests on
    queries: int = 0  # that it was fitted on
    recall: Mapping[str, float] = field(default_factory=dict)  # expected of the first 1 and 10
    legs: Mapping[Leg, LegQuality] = field(default_factory=dict)
    judgements: int = 0  # of people, that are among them
    wordless: Weights = field(default_factory=lambda: in_order(WORDLESS))  # where no item has the words
    meaningless: float = MEANINGLESS  # the gain of most queries without a meaning, whose words no item has

    def weights_for(self, strange: float) -> Weights:
        """Those of a query that is so strange."""
        return (1 - strange) * self.weights + strange * self.wordless

    def least_gain(self, strange: float) -> float:
        """What all items together have to gain by a query that is so strange, if it means anything."""
        return (1 - strange) * MEANINGLESS + strange * self.meaningless

    def chances(self, evidence: Evidence, whole: Bool[np.ndarray, " n"], rivals: Rivals) -> Evidence:
        """The confidence of each item."""
        facts = confidence_facts(evidence, whole, rivals)
        chances: Evidence = 1 / (1 + np.exp(-(facts @ np.ravel(self.confidence))))
        return chances

    def fields(self) -> dict[str, Any]:
        """The model as it is stored."""
        return asdict(self) | {"weights": _by_name(self.weights), "wordless": _by_name(self.wordless)}

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "SideModel":
        """A stored model."""
        return cls(
            in_order(fields["weights"]),  # older ones know fewer legs
            tuple(map(tuple, fields["confidence"])),
            fields["queries"],
            fields["recall"],
            {leg: LegQuality(**quality) for leg, quality in fields["legs"].items()},
            fields["judgements"],
            in_order(fields["wordless"]),
            fields["meaningless"],
        )


@dataclass(frozen=True)
class EvidenceModel:
    """The models of a collection by the side of the query."""

    sides: Mapping[Side, SideModel] = field(default_factory=dict)
    items: int = 0  # that it was fitted on
    version: int = 0  # of the collection then
    made_with: str = ""  # the encoder, the reader and the languages that gave the scores
    shapes: Mapping[Side, SideModel] = field(default_factory=dict)  # of the legs of a shape alone

    def of(self, side: Side) -> SideModel:
        """The model of queries of this side."""
        return self.sides.get(side) or SideModel(prior_weights(side))

    def of_shapes(self, side: Side) -> SideModel:
        """The model of queries of this side that ask for shapes alone."""
        return self.shapes.get(side) or SideModel(prior_weights(side, SHAPE_LEGS))

    def to_json(self) -> str:
        """The model as it is stored."""
        sides, shapes = (
            {side: one.fields() for side, one in models.items()} for models in (self.sides, self.shapes)
        )
        facts: dict[str, Any] = {
            "rules": RULES,
            "items": self.items,
            "version": self.version,
            "made_with": self.made_with,
        }
        return json.dumps(facts | {"sides": sides, "shapes": shapes})

    @classmethod
    def from_json(cls, note: str) -> "EvidenceModel | None":
        """A stored model; None if it was fitted by other rules."""
        fields = json.loads(note)
        if fields.get("rules") != RULES:
            return None
        sides, shapes = (
            {side: SideModel.of(one) for side, one in models.items()}
            for models in (fields["sides"], fields.get("shapes", {}))  # older ones have no "shapes"
        )
        return cls(sides, fields["items"], fields["version"], fields["made_with"], shapes)


UNFITTED = EvidenceModel()


def _by_name(weights: Weights) -> dict[str, float]:
    return dict(zip(NAMES, weights.tolist(), strict=True))


def standardise(scores: Values, strangers: Bool[np.ndarray, " n"]) -> Values:
    """How many standard deviations of strangers each score lies above their median; 0 where it is missing."""
    return standardise_by(scores, scores[strangers])


def standardise_by(scores: AnyScores, known: AnyScores) -> AnyScores:
    """How many standard deviations of what is known each score lies above its median; 0 if missing."""
    known = known[~np.isnan(known)]
    if len(known) < 2:
        return np.zeros(scores.shape, np.float32)
    middle = _median(known)
    # a few look-alikes among the strangers must not widen what is usual
    spread = max(1.4826 * _median(np.abs(known - middle)), float(known.std()) / 2, 1e-9)
    standard: AnyScores = np.clip((scores - np.float32(middle)) / np.float32(spread), LOWEST, HIGHEST)
    standard[np.isnan(standard)] = 0.0
    return standard


def _median(values: Float32[np.ndarray, " k"]) -> float:
    """The median of a few numbers, in a small part of the time that numpy takes."""
    ordered = np.sort(values)
    return (float(ordered[(len(ordered) - 1) // 2]) + float(ordered[len(ordered) // 2])) / 2
