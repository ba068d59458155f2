"""How the evidence of the legs is weighted: a model for each side of a query, and what holds before a fit."""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float64

from index.legs.table import COLUMNS, COLUMNS_OF, DECLARED, LEGS
from index.search.confidence import CONFIDENCE_PRIOR, Curves
from index.search.promise import Outcome, QueryClass
from multifold.types import Leg, Side

log = logging.getLogger(__name__)

Weights: TypeAlias = Float64[np.ndarray, " w"]

RULES = 25  # another number fits every stored model again

PRIOR_SPREAD = 0.4  # how far a fit may carry a weight (std. dev.)
ENOUGH_BACKGROUND = 64  # items that a picture stands out of by more than chance
MEANINGLESS = 0.5  # nats beyond what others have together, that a query without a meaning may have
UNPROVED_SIGHT = 0.25  # of an encoder that does not say that it sees, until it is measured
UNHEARD, FAMILIAR = 0.3, 0.7  # the share of a query's rarity that an item has: up to, and no longer from


@dataclass(frozen=True)
class LegQuality:
    """What a leg is worth: the recall that it has alone, and that of all others together."""

    recall_alone: float
    recall_without: float


def in_order(weights: Mapping[str, float]) -> Weights:
    """Weights by their names as an array; 0 where none is stated."""
    assert weights.keys() <= set(COLUMNS)
    return np.array([weights.get(name, 0.0) for name in COLUMNS])


def prior_weights(side: Side) -> Weights:
    """Weights of queries of a side before anything is fitted.

    Those of all legs were fitted together on generated furniture, named models and emoji, with an encoder
    that knows them and with one of random weights.
    """
    stated = [leg.prior.get(side, {}) for leg in DECLARED]
    return in_order({name: weight for weights in stated for name, weight in weights.items()})


def wordless_weights() -> Weights:
    """Weights for queries of whose words no item has much: they are in another language than the captions, or
    have other words for the same things. A reader knows such words.
    """
    return in_order({name: weight for leg in DECLARED for name, weight in leg.wordless.items()})


def strangeness(heard: float, background: int) -> float:
    """How strange a query is, from 0 to 1, of whose rarity an item has this share at most, among so many."""
    strange = min(max((FAMILIAR - heard) / (FAMILIAR - UNHEARD), 0.0), 1.0)
    return strange * min(1.0, background / ENOUGH_BACKGROUND)


@dataclass(frozen=True)
class SideModel:
    """How the evidence of queries of one side is weighted, and what makes a confidence of it."""

    weights: Weights
    confidence: Curves = CONFIDENCE_PRIOR
    queries: int = 0  # that it was fitted on
    recall: Mapping[str, float] = field(default_factory=dict)  # expected of the first 1 and 10
    legs: Mapping[Leg, LegQuality] = field(default_factory=dict)
    judgements: int = 0  # of people, that are among them
    wordless: Weights = field(default_factory=wordless_weights)  # where no item has the words
    meaningless: float = MEANINGLESS  # the gain of most queries without a meaning, whose words no item has
    # 0 to 1, of pictures that ask: how well texts find the pictures of their items. None: not measured.
    sight: float | None = None
    # Of the collection's own questions, by the weights that other items gave; those that gained least first.
    outcomes: Mapping[QueryClass, tuple[Outcome, ...]] = field(default_factory=dict)

    def weights_for(self, strange: float) -> Weights:
        """Those of a query that is so strange."""
        return (1 - strange) * self.weights + strange * self.wordless

    def least_gain(self, strange: float) -> float:
        """What all items together have to gain by a query that is so strange, if it means anything."""
        return (1 - strange) * MEANINGLESS + strange * self.meaningless

    def heard(self, legs: Sequence[Leg]) -> tuple[Leg, ...]:
        """Those of some legs that weigh anything, in queries of any kind."""
        return tuple(leg for leg in legs if leg in self._heard)

    @cached_property
    def _heard(self) -> frozenset[Leg]:
        either = np.abs(self.weights) + np.abs(self.wordless)
        return frozenset(leg for leg in LEGS if either[COLUMNS_OF[leg]].any())

    def fields(self) -> dict[str, Any]:
        return asdict(self) | {"weights": by_name(self.weights), "wordless": by_name(self.wordless)}

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "SideModel":
        """A stored model."""
        return cls(
            in_order(fields["weights"]),
            tuple(map(tuple, fields["confidence"])),
            fields["queries"],
            fields["recall"],
            {leg: LegQuality(**quality) for leg, quality in fields["legs"].items()},
            fields["judgements"],
            in_order(fields["wordless"]),
            fields["meaningless"],
            fields["sight"],
            {name: tuple(Outcome(*one) for one in some) for name, some in fields["outcomes"].items()},
        )


def prior_model(side: Side) -> SideModel:
    """The model of a side before anything is fitted."""
    weights = prior_weights(side)
    return SideModel(weights) if side == "text" else SideModel(weights, wordless=weights)


@dataclass(frozen=True)
class EvidenceModel:
    """The models of a collection by the side of the query."""

    sides: Mapping[Side, SideModel] = field(default_factory=dict)
    items: int = 0  # that it was fitted on
    version: int = 0  # of the collection then
    made_with: str = ""  # the encoder, the reader and the languages that gave the scores

    def of(self, side: Side) -> SideModel:
        """The model of queries of this side."""
        return self.sides.get(side) or prior_model(side)

    def to_json(self) -> str:
        facts: dict[str, Any] = {
            "rules": RULES,
            "items": self.items,
            "version": self.version,
            "made_with": self.made_with,
        }
        text = json.dumps(facts | {"sides": {side: one.fields() for side, one in self.sides.items()}})
        return f"{_sum(text)} {text}"

    @classmethod
    def from_json(cls, note: str) -> "EvidenceModel | None":
        """A stored model; None if it was fitted by other rules, or is damaged."""
        told, _, text = note.partition(" ")
        if told != _sum(text):
            log.warning(
                "the weights of the evidence are damaged, or older than this version: they are fitted anew"
            )
            return None
        fields = json.loads(text)
        if fields.get("rules") != RULES:
            return None
        sides = {side: SideModel.of(one) for side, one in fields["sides"].items()}
        return cls(sides, fields["items"], fields["version"], fields["made_with"])


UNFITTED = EvidenceModel()


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def by_name(weights: Weights) -> dict[str, float]:
    return dict(zip(COLUMNS, weights.tolist(), strict=True))
