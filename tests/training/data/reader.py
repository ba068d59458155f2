"""Reads captions back: a small parser with its own view of English, to catch the grammar lying.

It knows every word that any piece may use, so that a word which is not true of *this* piece is seen.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tests.training.data.pieces import mixed
from training.data.furniture.captions import NAMELESS_NOUNS, OPENINGS
from training.data.furniture.modeling.facts import FurnitureFact
from training.data.furniture.modeling.piece import FurniturePiece

Meanings: TypeAlias = Mapping[str, set[tuple[str, str]]]  # phrase -> attributes with values
GLUE = {"a", "an", "and", "with", "that", "has", "it", "is", "this", ".", ",", ":"}
LONGEST = 9


@dataclass(frozen=True)
class Lexicon:
    """Every phrase with what it may mean, by its place: before a noun, after it, or as the noun."""

    before: Meanings
    after: Meanings
    nouns: frozenset[str]

    def first(self, words: list[str]) -> str:
        """The longest known phrase that the words begin with, or an empty string."""
        starts = (" ".join(words[:length]) for length in range(LONGEST, 0, -1))
        return next(
            (start for start in starts if start in self.before or start in self.after or start in self.nouns),
            "",
        )


def lexicon() -> Lexicon:
    """All that can be said of any piece."""
    facts = [fact for piece in mixed() for fact in piece.facts]
    nouns = {noun for fact in facts for noun in fact.thing.nouns}
    nouns |= {noun for piece in mixed() for noun in piece.whole.nouns} | set(NAMELESS_NOUNS)
    before = _meanings((word, fact) for fact in facts for word in fact.words)
    after = _meanings((tail, fact) for fact in facts for tail in fact.tails)
    return Lexicon(before, after, frozenset(map(_spaced, nouns)))


def _meanings(pairs: Iterable[tuple[str, FurnitureFact]]) -> Meanings:
    meanings: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for phrase, fact in pairs:
        meanings[_spaced(phrase)].add((fact.attribute, fact.value))
    return dict(meanings)


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9'-]+|[.,:]", text)


def _spaced(text: str) -> str:
    return " ".join(_words(text))


class Reader:
    """Reads one caption of one piece; `claims` holds, for each claim, the true facts it may stand for."""

    def __init__(self, piece: FurniturePiece, words: Lexicon) -> None:
        self.piece, self.words = piece, words
        self.claims: list[set[str]] = []

    def read(self, text: str) -> list[set[str]]:
        """Fails on a word it does not know, and on any claim that is not true of the piece."""
        for opening in sorted(filter(None, OPENINGS), key=len, reverse=True):
            text = text.removeprefix(opening)
        words, noun, pending, predicate = _words(text), "", list[str](), False
        while words:
            phrase = self.words.first(words)
            if not phrase:
                assert words[0] in GLUE, (words[0], text)
                predicate = words[0] == "is" or (predicate and words[0] != "has")
                del words[0]
                continue
            del words[: len(phrase.split())]
            if phrase in self.words.nouns:
                noun = phrase
                self._name(noun)
                for earlier in pending:
                    self._claim(noun, self.words.before[earlier])
                pending = []
            elif phrase in self.words.after:
                self._claim(noun, self.words.after[phrase])
            elif predicate:
                self._claim(noun, self.words.before[phrase])
            else:
                pending.append(phrase)
        assert not pending, text
        return self.claims

    def _name(self, noun: str) -> None:
        """A noun must be the kind of the piece, or something that a fact speaks of."""
        if noun in map(_spaced, self.piece.whole.nouns):
            self.claims.append({f"whole.kind={self.piece.kind}"})
        else:
            assert noun in NAMELESS_NOUNS or self._things(noun), (noun, self.piece.kind)

    def _claim(self, noun: str, meanings: set[tuple[str, str]]) -> None:
        facts = [fact for fact in self.piece.facts if fact.thing.id in self._things(noun)]
        true = {fact.id for fact in facts if (fact.attribute, fact.value) in meanings}
        assert true, (noun, meanings, [fact.id for fact in facts])
        self.claims.append(true)

    def _things(self, noun: str) -> set[str]:
        if noun in NAMELESS_NOUNS or noun in map(_spaced, self.piece.whole.nouns):
            return {"whole"}
        return {fact.thing.id for fact in self.piece.facts if noun in map(_spaced, fact.thing.nouns)}
