"""The keys of a collection by what they hold, as words of a query name them."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from index.store.filters import JOINS, Filter, FilterError, ranges_of
from index.store.keys import KeyValues
from multifold.payload import FILE_KEYS

NamedKind: TypeAlias = Literal["numbers", "truths", "texts"]  # of what stands under a key

YEAR_KEYS = re.compile(r"year|jahr", re.IGNORECASE)
DATE = re.compile(r"(?:19|20)\d\d(?:-\d\d.*)?", re.DOTALL)


@dataclass(frozen=True)
class PayloadVocabulary:
    """What texts are read by: the keys that a collection has, and what stands under them."""

    keys: Mapping[str, KeyValues]
    read_texts: Callable[[Sequence[str]], Mapping[str, Sequence[str]]]  # that stand under some keys

    @cached_property
    def dates(self) -> tuple[str, ...]:
        """Keys whose texts are dates, as far as the first and the last tell, or whose numbers are years."""
        return tuple(
            key
            for key, has in self.keys.items()
            if (has.texts and all(map(DATE.fullmatch, has.texts))) or (has.numbers and YEAR_KEYS.search(key))
        )

    @cached_property
    def texts(self) -> tuple[str, ...]:
        return tuple(key for key, has in self.keys.items() if has.texts and key not in self.dates)

    @cached_property
    def values(self) -> Mapping[str, Mapping[str, list[str]]]:
        """Texts of payloads, in lower case: the keys that have them, and how they stand there."""
        values: dict[str, dict[str, list[str]]] = {}
        for key, texts in self.read_texts([key for key in self.texts if key not in FILE_KEYS]).items():
            for text in texts:
                values.setdefault(text.lower(), {}).setdefault(key, []).append(text)
        return values

    def check_ranges(self, where: Filter) -> None:
        """Refuse comparisons with what never stands under a key: of numbers with a text, or of texts."""
        for one in ranges_of(where):
            has = self.keys.get(one.key)
            if has is None or has.numbers == (has.texts is not None):
                continue
            if one.of_texts and has.numbers:
                raise FilterError(f"{one.key!r} has numbers: compare it with a number, not with a text.")
            if not one.of_texts and not has.numbers:
                raise FilterError(f"{one.key!r} has texts: compare it with a text, not with a number.")

    def names(self, word: str) -> bool:
        return american(word) in self._by_name

    def named(self, word: str, kind: NamedKind = "numbers") -> str | None:
        """The only key of a kind that a word names, in one or in many."""
        found = [key for key in self._by_name.get(american(word), ()) if self._is_of(key, kind)]
        return found[0] if len(found) == 1 else None

    def _is_of(self, key: str, kind: NamedKind) -> bool:
        return key in self.texts if kind == "texts" else bool(getattr(self.keys[key], kind))

    @cached_property
    def _by_name(self) -> Mapping[str, Sequence[str]]:
        by_name: dict[str, list[str]] = {}
        for key in self.keys:
            if key not in (*FILE_KEYS, *JOINS):
                name = american(key.rpartition(".")[2].lower())
                for word in {name, name.removesuffix("s"), f"{name}s"}:
                    by_name.setdefault(word, []).append(key)
        return by_name


def american(word: str) -> str:
    """One spelling of what is spelt in two ways."""
    return word.replace("licence", "license")
