"""Facets and spans of payloads at hand, counted as browse.py counts those of the store. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from index.truth.browse import Facet, Span
from index.truth.facts import Value, facts_of

KINDS = ("bool", "number", "text")  # those that are counted; ties go in this order


class Tally:
    """Values of some keys, each counted once an item."""

    def __init__(self, payloads: Iterable[Mapping[str, Any]], keys: Sequence[str]) -> None:
        self._counts: dict[str, Counter[Value]] = {key: Counter() for key in keys}
        self._numbers: Counter[str] = Counter()  # items that have a number of the key
        for payload in payloads:
            told = [fact for fact in facts_of(payload) if fact.key in self._counts]
            for fact in told:
                if fact.value.kind in KINDS:
                    self._counts[fact.key][fact.value] += 1
            self._numbers.update({fact.key for fact in told if fact.value.kind == "number"})

    def facets(self, limit: int) -> dict[str, list[Facet]]:
        """For each key the values that most have; ties in the order of kinds, then of values."""
        return {key: self._facet(counts, limit) for key, counts in self._counts.items()}

    def spans(self) -> dict[str, Span]:
        """The span of each key that has numbers."""
        return {key: self._span(key, many) for key, many in self._numbers.items()}

    @staticmethod
    def _facet(counts: Counter[Value], limit: int) -> list[Facet]:
        ordered = sorted(counts, key=lambda one: (-counts[one], KINDS.index(one.kind), one.content))
        return [Facet(value.scalar, counts[value]) for value in ordered[:limit]]

    def _span(self, key: str, many: int) -> Span:
        numbers = [one.number for one in self._counts[key] if one.kind == "number" and one.number is not None]
        return Span(min(numbers), max(numbers), many)
