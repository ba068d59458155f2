"""What tools answer: as little as an agent needs to go on."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from multifold.types import Kind, Side
from multifold.wire.insight import ExplainAnswer, MatchExplanation
from multifold.wire.items import ObservationInfo
from multifold.wire.search import SearchAnswer, SearchHit

MOST_PAYLOAD_BYTES = 64_000  # of one answer, as JSON
SHOWN_OBSERVATIONS = 5
MOST_SHARES = 12


@dataclass(frozen=True)
class FoundItem:
    """An item, what of it matched, and how sure that is: a probability, where one is known."""

    id: str
    confidence: float | None
    matched: str
    payload: dict[str, Any]


@dataclass(frozen=True)
class FoundItems:
    """Items, best first; `matches_well` is false where nothing stands out.

    `understood` has the words of the text that were read as a filter, and that filter.
    """

    items: list[FoundItem]
    matches_well: bool | None
    understood: dict[str, dict[str, Any]]
    warnings: list[str]


@dataclass(frozen=True)
class AddedItem:
    """An item as it was stored, and how many captions, photos and views it has."""

    id: str
    observations: dict[Kind, int]
    warnings: list[str]


@dataclass(frozen=True)
class ExplainedMatch:
    """The index score of each side and of the best observations, and the share of words in the match."""

    item: str
    sides: dict[Side, float]
    best: dict[str, float]
    words_of_the_item: dict[str, float]
    words_of_the_query: dict[str, float]
    warnings: list[str]


def found_items(answer: SearchAnswer) -> FoundItems:
    payloads, warnings = bound_payloads([hit.payload for hit in answer.hits])
    items = [
        FoundItem(hit.id, hit.confidence, _name_match(hit), payload)
        for hit, payload in zip(answer.hits, payloads, strict=True)
    ]
    conditions = answer.understood.conditions if answer.understood else ()
    understood = {one.words: one.filter for one in conditions}
    return FoundItems(items, answer.matches_well, understood, [*answer.warnings, *warnings])


def bound_payloads(payloads: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """The first payloads that an agent can take in, the others empty; and a warning if there are such."""
    kept: list[dict[str, Any]] = []
    left = MOST_PAYLOAD_BYTES
    for payload in payloads:
        size = len(json.dumps(payload, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        kept.append(payload if size <= left else {})
        left -= size if size <= left else 0
    missing = sum(bool(whole) and not some for whole, some in zip(payloads, kept, strict=True))
    if not missing:
        return kept, []
    most = f"{MOST_PAYLOAD_BYTES // 1000} kB"
    return kept, [f"{missing} payloads are left out, as all have more than {most}: ask with payload_keys"]


def explained_match(answer: ExplainAnswer) -> ExplainedMatch:
    best = {name_observation(one): round(one.score, 4) for one in answer.observations[:SHOWN_OBSERVATIONS]}
    sides = {side: round(score, 4) for side, score in answer.sides.items()}
    return ExplainedMatch(
        item=answer.item,
        sides=sides,
        best=best,
        words_of_the_item=word_shares(answer.explained),
        words_of_the_query=word_shares(answer.query),
        warnings=list(answer.warnings),
    )


def _name_match(hit: SearchHit) -> str:
    name = name_observation(hit.matched)
    return f"{name}, looks like: {', '.join(hit.looks_like)}" if hit.looks_like else name


def name_observation(observation: ObservationInfo) -> str:
    """An observation in words: a caption with its text, a picture with its number."""
    name = f"{observation.kind} {observation.index}"
    return name if observation.text is None else f"{name}: {observation.text}"


def word_shares(explanation: MatchExplanation) -> dict[str, float]:
    """The share of each word, the largest first; a word that comes twice has both."""
    shares: dict[str, float] = {}
    for one in () if explanation.words is None else explanation.words.words:
        shares[one.text] = shares.get(one.text, 0.0) + one.share
    return dict(largest(shares.items()))


def largest(shares: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    return sorted(((word, round(share, 4)) for word, share in shares), key=lambda one: -one[1])[:MOST_SHARES]
