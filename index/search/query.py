"""What is asked of a collection: a query, and among which items it looks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from index.contracts import QueryError
from index.legs.table import TARGET_LEGS, TEXT_LEGS
from index.legs.words import WORDS
from index.search.model import UNFITTED, EvidenceModel
from index.store.filters import Filter
from index.store.item_rows import MAX_NUMBER, usable
from multifold.types import NO_EXAMPLES, SIDES, Aspect, Examples, Leg, Mix, Pooling, Side, Target, Vector

WordMode: TypeAlias = Literal["auto", "off", "only"]

MAX_WEIGHT = 1e3
MAX_PARTS = 64  # of a mixed query


@dataclass(frozen=True, eq=False)
class Query:
    """An index vector, or a mix of several, on its way to the items that are meant."""

    vector: Vector | Mix
    target: Target = "item"
    limit: int = 10
    pool: Pooling = "mean"
    offset: int = 0  # hits to pass over first
    text: str | None = None  # of the query
    text_weight: float = (
        1.0  # 0 to 1: how much words and readers count, as other parts of a mix may weigh more
    )
    words: WordMode = "auto"  # whether its words are looked for, or nothing else
    where: Filter | None = None
    exact: bool = False  # score every row
    side: Side = "text"  # of the query, for the weights of evidence
    # Vectors of the query by the leg that has such: they are compared by their cosine, as like with like. A
    # mesh has one of its views and one of its points.
    own: Mapping[Aspect, Vector] = field(default_factory=dict)
    model: EvidenceModel = UNFITTED
    examples: Examples = NO_EXAMPLES  # those that are not there say nothing
    diversity: float = 0.0  # 0 to 1, how far look-alikes give way
    error: float | None = None  # how often an answer may lack what is meant; it ends where it is long enough
    strong: bool = True  # whether all that is stored is seen, also where a cluster has yet to be fed

    @property
    def legs(self) -> tuple[Leg, ...]:
        """The legs that are asked, in the order of the table."""
        if self.words == "only":
            return (WORDS.name,)
        silent = self.text is None or self.words == "off"
        return tuple(leg for leg in TARGET_LEGS[self.target] if not (silent and leg in TEXT_LEGS))

    def check(self, dim: int) -> None:
        """Refuse a query that no engine could answer."""
        if isinstance(self.vector, Mix):
            _check_mix(self.vector, dim)
        else:
            _check_vector(self.vector, dim)
        for vector in self.own.values():
            _check_vector(vector, dim)
        if self.limit < 1:
            raise QueryError(f"The limit must be 1 or more, not {self.limit}.")
        if self.offset < 0:
            raise QueryError(f"The offset must be 0 or more, not {self.offset}.")
        if self.target not in TARGET_LEGS:
            raise QueryError(f"The target must be one of {', '.join(TARGET_LEGS)}, not {self.target!r}.")
        if self.pool not in ("mean", "max"):
            raise QueryError(f"The pool must be mean or max, not {self.pool!r}.")
        if self.side not in SIDES:
            raise QueryError(f"The side of a query is one of {', '.join(SIDES)}, not {self.side!r}.")


def _check_vector(vector: Vector, dim: int) -> None:
    if vector.shape != (dim,):
        raise QueryError(f"The query's vector has the shape {vector.shape}, this collection's have ({dim},).")
    if not usable(vector[None])[0]:
        raise QueryError(f"The query's vector has numbers that are not finite, or beyond {MAX_NUMBER:g}.")


def _check_mix(mix: Mix, dim: int) -> None:
    if not 1 <= len(mix.parts) <= MAX_PARTS:
        raise QueryError(f"A mixed query has 1 to {MAX_PARTS} parts, not {len(mix.parts)}.")
    for vector, weight in mix.parts:
        _check_vector(vector, dim)
        if not abs(weight) <= MAX_WEIGHT:  # false for NaN too
            raise QueryError(f"A weight lies between -{MAX_WEIGHT:g} and {MAX_WEIGHT:g}, not at {weight}.")
    if not any(weight for _, weight in mix.parts):
        raise QueryError("The weights of a mixed query are all 0: nothing is asked for.")
