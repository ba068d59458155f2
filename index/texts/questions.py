"""A question in the words of one index: the terms that are looked for, and what each counts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, islice, pairwise

import numpy as np
from jaxtyping import Float64, Int32

from index.contracts import Ids
from index.texts.analysis import Analyzer, chunks, quotes
from index.texts.dictionaries import is_correct
from index.texts.vocabulary import NO_WORD, Vocabulary

MAX_QUERY_WORDS = 64
MAX_LOOKED_AT = 2_000  # words that begin alike
MAX_ALTERNATIVES = 8  # words that stand for one that no item has
LEAST_PREFIX, LEAST_TYPO = 3, 4  # letters of a word that others may begin with, or that may be a typo
LEAST_HALF = 3  # letters of either word that a longer one is cut into
ALTERNATIVE = 0.6  # what such words count
STOP = 0.5  # what stop words count, where an item has them: "no" or "off" may be all that tells two apart
LEAST_STOP = 2  # letters of such a word; a single one is often part of a number
RARE = 1 << 17  # items with the rarest words of a question, which give candidates


@dataclass(frozen=True)
class QueryTerm:
    """A term that is looked for: its number, the chunk of the question it is of, and what it counts."""

    number: int  # or `NO_WORD`, for a word that nothing stands for
    chunk: str
    word: int  # of the question, by its place, which several may share; joined ones and stop words follow
    weight: float = 1.0
    heard: bool = True  # whether an item that has it has the word
    tells: bool = True  # False: it is a stop word


@dataclass(frozen=True, eq=False)
class WordQuestion:
    """A question at one moment of an index: the terms that an item has, and what they count."""

    numbers: Int32[np.ndarray, " q"]
    chunks: tuple[str, ...]
    words: Int32[np.ndarray, " q"]  # of the question, by place, that these stand for
    rarities: Float64[np.ndarray, " q"]  # times the weights
    heard: Float64[np.ndarray, " q"]  # the share of the words' rarity that a term stands for; 0: a guess
    telling: int  # how many terms are no stop words, which come last: an item without any is not found
    rare: Ids  # places of the rarest of these, of which candidates are made
    most: float  # what all words score together
    having: Mapping[str, int]  # how many items have each word, as it stands in the question
    phrases: tuple[Int32[np.ndarray, " _"], ...]  # that a text must have as they stand


class QueryParser:
    """Understands questions in the words of one index."""

    def __init__(self, analyzer: Analyzer, vocabulary: Vocabulary) -> None:
        self._analyzer, self._vocabulary = analyzer, vocabulary

    def parse(self, query: str, items: int) -> WordQuestion:
        """What is looked for among so many items."""
        every, words = self._terms(query)
        asked = len(words)
        counts = np.array(self._vocabulary.having([term.number for term in every]))
        lacking = np.maximum(items - counts, 0)  # a change may have counted words before it counts items
        rarity_of = np.log1p((lacking + 0.5) / (counts + 0.5))
        by_word: dict[int, float] = {}
        for term, rarity in zip(every, rarity_of.tolist(), strict=True):
            counted = rarity if term.word < asked else term.weight * rarity
            by_word[term.word] = max(counted, by_word.get(term.word, 0.0))
        stand = zip(every, counts.tolist(), strict=True)
        having = {words[term.word]: count for term, count in stand if term.word < asked and term.weight == 1}
        there = np.flatnonzero(counts)
        terms, rarities, counts = [every[place] for place in there.tolist()], rarity_of[there], counts[there]
        heard = [by_word[term.word] if term.heard and term.word < asked else 0.0 for term in terms]
        whole = sum((rarity for word, rarity in by_word.items() if word < asked), 0.0)
        telling = sum(term.tells for term in terms)
        order = np.argsort(counts[:telling], kind="stable")
        return WordQuestion(
            np.array([term.number for term in terms], np.int32),
            tuple(term.chunk for term in terms),
            np.array([term.word for term in terms], np.int32),
            np.array([term.weight for term in terms], np.float64) * rarities,
            np.array(heard, np.float64) / max(whole, 1e-9),
            telling,
            order[: max(1, np.count_nonzero(np.cumsum(counts[order]) <= RARE))],
            sum(by_word.values(), 0.0),
            dict.fromkeys(words, 0) | having,
            tuple(np.array(phrase, np.int32) for phrase in self._phrases(query) if phrase),
        )

    def _phrases(self, query: str) -> Iterator[list[int]]:
        for text in quotes(query):
            yield [self._number(word) for chunk in chunks(text) for word in chunk.pieces]

    def _terms(self, query: str) -> tuple[Sequence[QueryTerm], Sequence[str]]:
        """What is looked for, and the words of the question: stop words only where it has no others."""
        every, stops = list(chunks(query)), self._analyzer.stop_words
        chunk_of: dict[str, str] = {}
        for chunk in every:
            for word in chunk.pieces:
                chunk_of.setdefault(word, chunk.text)
        told = [word for word in chunk_of if word not in stops]
        words = (told or list(chunk_of))[:MAX_QUERY_WORDS]
        known = self._known(words)
        both = self._known([a + b for a, b in pairwise(words) if a not in known or b not in known])
        terms = []
        for place, word in enumerate(words):
            pairs = map("".join, pairwise(words[max(place - 1, 0) : place + 2]))
            joined = [both[one] for one in pairs if one in both]
            if word in known:
                terms.append(QueryTerm(known[word], chunk_of[word], place))
            elif not joined:
                terms += self._instead(word, chunk_of[word], place, alone=not known)
            terms += [QueryTerm(number, chunk_of[word], place, ALTERNATIVE) for number in joined]
        wholes = {word: chunk.text for chunk in every for word in chunk.wholes}
        found = self._known(list(wholes)).items()
        terms += [QueryTerm(number, wholes[word], at) for at, (word, number) in enumerate(found, len(words))]
        if told:
            idle = self._known([word for word in chunk_of if word in stops and len(word) >= LEAST_STOP])
            places = enumerate(idle.items(), len(words) + len(found))
            terms += [QueryTerm(no, chunk_of[word], at, STOP, tells=False) for at, (word, no) in places]
        return list(islice(_once(terms, {*both.values()}), MAX_QUERY_WORDS)), words

    def _number(self, word: str) -> int:
        return self._vocabulary.get(self._analyzer.term(word))

    def _known(self, words: Sequence[str]) -> dict[str, int]:
        """Those words whose term an item has, with its number."""
        numbers = self._vocabulary.find(list(map(self._analyzer.term, words)))
        counts = self._vocabulary.having(numbers)
        return {word: number for word, number, count in zip(words, numbers, counts, strict=True) if count}

    def _instead(self, word: str, chunk: str, place: int, *, alone: bool) -> list[QueryTerm]:
        """The terms for a word that no item has: its two halves, or guesses. A correct word means itself."""
        correct = is_correct(word, self._analyzer.languages)
        near = self._halves(word) or self._guesses(word, alone=alone, correct=correct) or [NO_WORD]
        return [QueryTerm(number, chunk, place, ALTERNATIVE, not correct) for number in near]

    def _halves(self, word: str) -> list[int]:
        """The terms of two words that are written as one."""
        for at in range(LEAST_HALF, len(word) - LEAST_HALF + 1):
            halves = self._known([word[:at], word[at:]])
            if len(halves) == 2:
                return list(halves.values())
        return []

    def _guesses(self, word: str, *, alone: bool, correct: bool) -> list[int]:
        """Terms that a word begins, or that it may be a misspelling of if it is not correct.

        Where other words of the question are found, a guess has to be a better one.
        """
        if word.isdigit() or len(word) < LEAST_PREFIX + (not alone):
            return []
        if near := self._commonest(islice(self._vocabulary.beginning_with(word), MAX_LOOKED_AT)):
            return near
        if not word.isalpha() or len(word) < LEAST_TYPO + (not alone) or correct:
            return []
        stems = dict.fromkeys((word, self._analyzer.term(word)))
        return self._commonest(chain(*map(self._vocabulary.one_typo_from, stems)))

    def _commonest(self, numbers: Iterable[int]) -> list[int]:
        """Those terms that most items have."""
        every = list(dict.fromkeys(numbers))
        counts = zip(self._vocabulary.having(every), every, strict=True)
        ordered = sorted(counts, key=lambda one: (-one[0], one[1]))
        return [number for count, number in ordered if count][:MAX_ALTERNATIVES]


def _once(terms: Iterable[QueryTerm], joined: Set[int]) -> Iterator[QueryTerm]:
    """Each term as it came first, but what two words are together for both; and words that nothing has."""
    met: set[int] = set()
    for term in terms:
        if term.number not in met or term.number in joined:
            yield term
        if term.number != NO_WORD:
            met.add(term.number)
