"""Segments of an index of words: the texts of items as numbers of words, and which items have each word."""

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int32, Int64, UInt8, UInt64

from index.contracts import Ids
from index.texts.analysis import path_steps
from index.texts.contracts import CAPTION, NAME, NOTHING, PATH, PAYLOAD, ItemTexts, Scores
from index.texts.kernels import (
    ITEM_BITS,
    STEP_BITS,
    add_impacts,
    have_phrase,
    head_of,
    post_words,
    score_items,
)
from index.texts.questions import WordQuestion
from index.texts.segments import LivingItems, TextSegment, places_of_best

MAX_LETTERS = 1 << 16  # of each field of an item, in which words are looked for
# of name, path, payload and caption: what a word counts, and how much longer texts make it count less
WEIGHTS, LENGTH = np.array([2.0, 0.5, 1.0, 1.0]), np.array([0.5, 0.3, 0.5, 0.75])


@dataclass(frozen=True, eq=False)
class NumberedTexts:
    """The texts of items as kernels read them, and where those of each begin."""

    starts: Int64[np.ndarray, " i"]
    texts: Int32[np.ndarray, " t"]


def number_texts(
    items: Iterable[ItemTexts], number: Callable[[str], tuple[int, Sequence[int]]]
) -> NumberedTexts:
    """Texts in which `number` tells how many words a chunk has, and which numbers stand for it."""
    texts, starts = array("i"), [0]
    for item in items:
        fields = [(NAME, step) for step in path_steps(item.name)]
        fields += [(PATH, step) for step in path_steps(item.path)] if item.path else []
        fields += [(PAYLOAD, text) for text in item.values] + [(CAPTION, text) for text in item.captions]
        room = dict.fromkeys((NAME, PATH, PAYLOAD, CAPTION), MAX_LETTERS)
        for field, text in fields:
            head, length = len(texts), 0
            texts.extend((0, 0))
            chunks = text[: room[field]].split()
            room[field] -= min(room[field], len(text))
            for chunk in chunks:
                words, numbers = number(chunk)
                texts.extend(numbers)
                length += words
            texts[head], texts[head + 1] = head_of(field, len(texts) - head - 2), max(length, 1)
        starts.append(len(texts))
    return NumberedTexts(np.array(starts, np.int64), np.frombuffer(texts, np.int32))


def field_norms(sums: Float64[np.ndarray, "3 f"]) -> Float64[np.ndarray, "3 f"]:
    """What the times that a word is in a field are divided by: a constant, and a slope by the length of all
    texts and of one; from how many words, items and texts with the field there are.
    """
    words, items, texts = sums
    whole, single = (np.maximum(words, 1) / np.maximum(many, 1) for many in (items, texts))
    return np.asarray(np.array([1 - LENGTH, LENGTH / whole, LENGTH / single]) / WEIGHTS)


@dataclass(frozen=True, eq=False)
class WordSegment(TextSegment):
    """Items, their texts, and which of them have each word."""

    texts: Int32[np.ndarray, " t"]
    words: Int32[np.ndarray, " w"]  # those that are there, rising
    firsts: Int64[np.ndarray, " v"]  # of the holders of each
    holders: Int32[np.ndarray, " h"]  # items that have a word, rising for each
    impacts: UInt8[np.ndarray, " h"]  # about how much it says of each, without its rarity

    def holders_of(self, word: int) -> Int32[np.ndarray, " h"]:
        """The items that have a word, and those that had it."""
        place = int(np.searchsorted(self.words, word))
        there = place < len(self.words) and self.words[place] == word
        return self.holders[self.firsts[place] : self.firsts[place + 1]] if there else self.holders[:0]

    def nearest(
        self, question: WordQuestion, terms: Ids, limit: int, among: Ids | None
    ) -> tuple[Ids, Scores]:
        """The best living editions by some terms of a question, and about what these say, in no order."""
        scores, allowed = np.zeros(len(self.editions), np.float32), self.allowed(among)
        add_impacts(
            question.numbers[terms], question.rarities[terms], self.words, self.firsts, self.holders,
            self.impacts, scores,
        )  # fmt: skip
        for phrase in question.phrases:
            allowed = allowed & self._having_phrase(phrase)
        if not allowed.all():
            scores *= allowed
        best = places_of_best(scores, limit)
        return self.editions[best], scores[best]

    def _having_phrase(self, phrase: Int32[np.ndarray, " p"]) -> Bool[np.ndarray, " n"]:
        rarest = min(map(self.holders_of, phrase.tolist()), key=len).astype(np.int64)
        mask = np.zeros(len(self.editions), np.bool_)
        mask[rarest[have_phrase(phrase, rarest, self.starts, self.texts)]] = True
        return mask


def new_segment(editions: Ids, numbered: NumberedTexts, norms: Float64[np.ndarray, "3 f"]) -> WordSegment:
    """A segment of these items, whose editions rise."""
    postings = np.sort(post_words(numbered.starts, numbered.texts, norms))
    numbers = (postings >> (ITEM_BITS + STEP_BITS)).astype(np.int32)
    firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
    return WordSegment(
        editions,
        numbered.starts,
        np.ones(len(editions), np.bool_),
        numbered.texts,
        numbers[firsts],
        np.append(firsts, len(numbers)),
        (postings >> STEP_BITS & (1 << ITEM_BITS) - 1).astype(np.int32),
        (postings & (1 << STEP_BITS) - 1).astype(np.uint8),
    )


def merged_segment(parts: Sequence[WordSegment], norms: Float64[np.ndarray, "3 f"]) -> WordSegment:
    """What is alive in some segments as one."""
    living = LivingItems.of(parts)
    texts = living.joined([part.texts for part in parts])
    return new_segment(living.editions, NumberedTexts(living.starts, texts), norms)


@dataclass(frozen=True, eq=False)
class WordScores:
    """What the words of items say of a question."""

    scores: Scores
    shares: Scores  # of the rarity of its words, from 0 to 1
    stated: Scores  # the share of the text that says most which the question has
    labels: Int64[np.ndarray, " n"]  # of the text that says most
    masks: UInt64[np.ndarray, " n"]  # the terms that are there, but for stop words

    @classmethod
    def none(cls, count: int) -> "WordScores":
        """Of so many items of which nothing is said."""
        return cls(
            np.zeros(count, np.float32),
            np.zeros(count, np.float32),
            np.zeros(count, np.float32),
            np.full(count, NOTHING, np.int64),
            np.zeros(count, np.uint64),
        )

    def add(
        self,
        question: WordQuestion,
        norms: Float64[np.ndarray, "3 f"],
        texts: NumberedTexts | WordSegment,
        places: Ids,
    ) -> None:
        """Note what is said of the items at these places; those below 0 are not there."""
        for phrase in question.phrases:
            there = np.flatnonzero(places >= 0)
            have = have_phrase(phrase, places[there], texts.starts, texts.texts)
            places[there[~have]] = -1
        score_items(
            question.numbers, question.rarities, question.heard, question.words, question.telling, places,
            texts.starts, texts.texts, norms, self.scores, self.shares, self.stated, self.labels, self.masks,
        )  # fmt: skip
