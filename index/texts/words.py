"""An index of the words of items: BM25 over their fields (see word_kernels.py).

Names, paths, values of the payload and captions are fields with weights of their own. Words are known by
their stems (see analysis.py). Changes go to small segments, which are merged as they grow; questions see
the segments of one moment and wait for nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float64, Int32, Int64, UInt64

from index.contracts import Ids
from index.texts.analysis import (
    Analyzer,
    ParsedQuery,
    QueryParser,
    chunks,
    no_dictionary,
    spoken_languages,
    voting_words,
)
from index.texts.contracts import ItemTexts, Scores, TextIndexError
from index.texts.saved_words import read_index, write_index
from index.texts.word_arrays import (
    CAPTION,
    FIELDS,
    NAME,
    PATH,
    PAYLOAD,
    ItemTokens,
    Vocabulary,
    WordSegment,
    field_norms,
    merged_segment,
    new_segment,
    places_of_best,
)
from index.texts.word_kernels import kernels

MAX_TOKENS = 1 << 16  # words of one item that count
CACHED = 1 << 16  # chunks whose words need not be looked up again
REMEMBERED = 64  # questions of one moment
SMALL = 256  # items of segments that are always merged
FEW = 2_048  # allowed items that are scored one by one
RARE = 1 << 17  # items of a segment with the rarest words of a question, which give candidates


@dataclass(frozen=True, eq=False)
class WordQuestion:
    """A question at one moment of the index."""

    parsed: ParsedQuery
    segments: tuple[WordSegment, ...]
    numbers: Int32[np.ndarray, " q"]  # of the terms that are there
    chunks: tuple[str, ...]  # of each of these
    words: Int32[np.ndarray, " q"]  # of the question, by place, that these stand for
    rarities: Float64[np.ndarray, " q"]  # times the weights
    heard: Float64[np.ndarray, " q"]  # the rarity of the word that a term stands for; 0 for a mere guess
    most: float  # what all words score together
    whole: float  # the rarity of all words, without what several are together
    norms: Float64[np.ndarray, "6 f"]
    holders: dict[int, Bool[np.ndarray, " i"]] = field(default_factory=dict)  # of the phrases, by segment

    def allowed(self, place: int, among: Ids | None = None) -> Bool[np.ndarray, " i"]:
        """The living items of a segment that have all phrases, of some editions or of all."""
        segment = self.segments[place]
        mask = segment.alive if among is None else segment.alive & np.isin(segment.editions, among)
        if not self.parsed.phrases:
            return mask
        if place not in self.holders:
            masks = [segment.with_phrase(phrase) for phrase in self.parsed.phrases]
            self.holders[place] = np.logical_and.reduce(masks)
        return np.asarray(self.holders[place] & mask)


class WordIndex:
    """Items by their words."""

    def __init__(
        self, languages: tuple[str, ...] | None = None, is_word: Callable[[str], bool] = no_dictionary
    ) -> None:
        """Words are known by their stems in these languages; `is_word` tells which are no misspellings."""
        self._is_word = is_word
        self._analyzer = Analyzer() if languages is None else Analyzer(languages)
        self._vocabulary = Vocabulary()
        self._segments: tuple[WordSegment, ...] = ()
        self._cut: dict[str, tuple[int, tuple[int, ...]]] = {}
        self._questions: dict[str, WordQuestion] = {}

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages whose stems words are known by."""
        return self._analyzer.languages

    def spoken(self) -> tuple[str, ...]:
        """The languages of the texts, as their stop words tell."""
        words = list(voting_words())
        numbers = [self._vocabulary.get(self._analyzer.term(word)) for word in words]
        counts = dict(zip(words, _living(self._segments, numbers).tolist(), strict=True))
        return spoken_languages(counts, self.count())

    def add(self, items: Sequence[ItemTexts]) -> None:
        """Add items; an edition that is already there is a TextIndexError, and nothing is added."""
        items = sorted(items, key=lambda item: item.edition)
        editions = np.array([item.edition for item in items], np.int64)
        there = [part.places(editions) >= 0 for part in self._segments]
        if len(np.unique(editions)) < len(editions) or np.any(there):
            raise TextIndexError("An edition stands twice among the words: which of the two is meant?")
        if items:
            new = new_segment([item.edition for item in items], [self._tokens(item) for item in items])
            self._show([*self._segments, new])
            self._vocabulary.pack()

    def remove(self, editions: Sequence[int]) -> None:
        """Remove editions; those that are not there are ignored."""
        ended = np.array(editions, np.int64)
        if sum([part.remove(ended) for part in self._segments]):
            self._show(self._segments)

    def rank(self, query: str, limit: int, allowed: Ids | None = None) -> tuple[Ids, Scores]:
        """The best editions, best first, with scores above 0; ties go to the smaller edition."""
        if allowed is not None and len(allowed) <= FEW:
            editions, scores = allowed, self.scores(query, allowed)
            editions, scores = editions[scores > 0], scores[scores > 0]
        else:
            editions, scores = self._best(self._ask(query), limit, allowed)
        order = np.lexsort((editions, -scores))[: max(limit, 0)]
        return editions[order], scores[order]

    def near(self, query: str, limit: int, allowed: Ids | None = None) -> Ids:
        """About the best editions, for those who score them by all legs: the commonest words are left out."""
        if allowed is not None and len(allowed) <= FEW:
            return self.rank(query, limit, allowed)[0]
        question = self._ask(query)
        editions, scores = [np.empty(0, np.int64)], [np.empty(0, np.float32)]
        for place, part in enumerate(question.segments):
            words = part.word_places(question.numbers)
            having = np.where(words >= 0, part.holder_starts[words + 1] - part.holder_starts[words], 0)
            here = (words >= 0) & _rarest(having, RARE)
            first, values = part.holder_starts[words[here]], np.zeros(len(part.editions), np.float32)
            kernels().add_impacts(
                first, first + having[here], question.rarities[here], part.holders, part.impacts, values
            )
            values *= question.allowed(place, allowed)
            best = places_of_best(values, limit)
            best = best[values[best] > 0]
            editions.append(part.editions[best])
            scores.append(values[best])
        every, values = np.concatenate(editions), np.concatenate(scores)
        return every[np.lexsort((every, -values))[: max(limit, 0)]]

    def scores(self, query: str, editions: Ids) -> Scores:
        """What the words of these editions say of a query, in their order; 0 where they say nothing."""
        return self._score(self._ask(query), editions)[0]

    def weigh(self, query: str, editions: Ids) -> tuple[Scores, Scores]:
        """Their scores, and the share of a question's rarity that their words have, from 0 to 1."""
        return self._weigh(self._ask(query), editions)

    def scores_of(self, query: str, items: Sequence[ItemTexts]) -> Scores:
        """What texts that are not in the index would score in it."""
        return self._score(*self._asked_of(query, items))[0]

    def weigh_texts(self, query: str, items: Sequence[ItemTexts]) -> tuple[Scores, Scores]:
        """The same for texts that are not in the index."""
        return self._weigh(*self._asked_of(query, items))

    def knows(self, query: str) -> bool:
        """Whether any item has any word of it, or what stands for one."""
        return len(self._ask(query).numbers) > 0

    def most(self, query: str) -> float:
        """The score of an item that has all words of a query, once in each text."""
        return self._ask(query).most

    def best_texts(self, query: str, editions: Ids) -> list[int | str | None]:
        """Of each edition the text that matches best: a caption's place, or "name", "payload" or "path"."""
        question = self._ask(query)
        _, rows, _, places = self._score(question, editions)
        return [
            None if row < 0 else question.segments[place].text_at(row)
            for row, place in zip(rows.tolist(), places.tolist(), strict=True)
        ]

    def matches(self, query: str, editions: Ids) -> list[tuple[str, ...]]:
        """For each of some editions the chunks of a query that it has a word of."""
        question = self._ask(query)
        masks = self._score(question, editions)[2].tolist()
        every = {
            mask: tuple(dict.fromkeys(chunk for at, chunk in enumerate(question.chunks) if mask >> at & 1))
            for mask in set(masks)
        }
        return [every[mask] for mask in masks]

    def having_all(self, words: Sequence[str], most: int) -> list[int]:
        """The first editions that have the stems of all of these words, up to so many of each segment."""
        terms = dict.fromkeys(self._analyzer.terms(words))
        numbers = np.array([self._vocabulary.get(term) for term in terms], np.int32)
        editions: list[int] = []
        for part in self._segments if len(numbers) else ():
            places = part.word_places(numbers)
            if (places < 0).any():
                continue
            places = places[np.argsort(part.having[places], kind="stable")]
            items = np.empty(most, np.int64)
            kept = kernels().intersect_items(
                part.starts[places], part.starts[places + 1], part.rows, part.row_items, part.first_rows,
                part.alive, items,
            )  # fmt: skip
            editions += part.editions[items[:kept]].tolist()
        return sorted(editions)[:most]

    def count(self) -> int:
        """How many items there are."""
        return sum(part.count() for part in self._segments)

    @property
    def nbytes(self) -> int:
        """How much memory or mapped file it takes."""
        return sum(part.nbytes for part in self._segments) + self._vocabulary.nbytes

    def save(self, path: Path) -> None:
        """Write it into a folder that is made."""
        self._vocabulary.pack(all_new=True)
        if len(self._segments) > 1 or not all(part.alive.all() for part in self._segments):
            self._segments = (merged_segment(self._segments),)
        write_index(path, self.languages, self._vocabulary.packed, *self._segments or (None,))

    def load(self, path: Path) -> None:
        """Replace all of it by what was saved, which is read as it is needed."""
        languages, words, segments = read_index(path)
        self._analyzer, self._vocabulary = Analyzer(languages), Vocabulary(words)
        self._cut = {}
        self._show(segments)

    def _show(self, segments: Sequence[WordSegment]) -> None:
        """Let questions see these segments, merged as far as it pays."""
        parts = [part for part in segments if part.alive.any()]
        first = max(len(parts) - 1, 0)
        tail = sum(part.count() for part in parts[first:])
        while first and parts[first - 1].count() <= max(tail, SMALL):
            first -= 1
            tail += parts[first].count()
        if len(parts) - first > 1:
            parts[first:] = [merged_segment(parts[first:])]
        parts = [merged_segment([part]) if 2 * part.count() < len(part.alive) else part for part in parts]
        self._segments = tuple(parts)
        self._questions = {}

    def _tokens(self, item: ItemTexts) -> ItemTokens:
        texts = [(NAME, item.name), *([(PATH, item.path)] if item.path else ())]
        texts += [(PAYLOAD, text) for text in item.values] + [(CAPTION, text) for text in item.captions]
        rows, count = [], 0
        for kind, text in texts:
            tokens: list[int] = []
            length = 0
            for chunk in text.split() if count < MAX_TOKENS else ():
                pieces, numbers = self._cut.get(chunk) or self._numbers(chunk)
                tokens += numbers
                length += pieces
            rows.append((kind, length, tokens))
            count += len(tokens)
        return rows

    def _numbers(self, text: str) -> tuple[int, tuple[int, ...]]:
        """How many pieces a chunk has, and the numbers of these and of its wholes."""
        if len(self._cut) >= CACHED:
            self._cut.clear()
        number = self._vocabulary.add
        pieces, wholes = [], []
        for chunk in chunks(text):
            pieces += [number(term) for term in self._analyzer.terms(chunk.pieces)]
            wholes += [~number(term) for term in self._analyzer.terms(chunk.wholes)]
        self._cut[text] = len(pieces), (*pieces, *wholes)
        return self._cut[text]

    def _ask(self, query: str) -> WordQuestion:
        segments, known = self._segments, self._questions
        question = known.get(query)
        if question is None or question.segments is not segments:
            if len(known) >= REMEMBERED:
                known.clear()
            question = known[query] = self._question(query, segments)
        return question

    def _question(self, query: str, segments: tuple[WordSegment, ...]) -> WordQuestion:
        parser = QueryParser(
            self._analyzer,
            self._vocabulary,
            lambda some: _living(segments, some).tolist(),
            self._is_word,
        )
        parsed = parser.parse(query)
        items = sum(part.count() for part in segments)
        having = _living(segments, [term.number for term in parsed.terms])
        rarities = np.log1p((items - having + 0.5) / (having + 0.5))
        by_word: dict[int, float] = {}
        for term, rarity in zip(parsed.terms, rarities.tolist(), strict=True):
            by_word[term.word] = max(rarity, by_word.get(term.word, 0.0))
        there = [
            (term, rarity) for term, rarity, has in zip(parsed.terms, rarities, having, strict=True) if has
        ]
        return WordQuestion(
            parsed,
            segments,
            np.array([term.number for term, _ in there], np.int32),
            tuple(term.chunk for term, _ in there),
            np.array([term.word for term, _ in there], np.int32),
            np.array([term.weight * rarity for term, rarity in there], np.float64),
            np.array([by_word[term.word] if term.heard else 0.0 for term, _ in there], np.float64),
            sum(by_word.values(), 0.0),
            sum((rarity for word, rarity in by_word.items() if word < parsed.words), 0.0),
            _norms(segments),
        )

    def _asked_of(self, query: str, items: Sequence[ItemTexts]) -> tuple[WordQuestion, Ids]:
        """A question to some texts alone, which counts rarities and lengths as the index does."""
        places = np.arange(len(items), dtype=np.int64)
        segment = new_segment(places.tolist(), [self._tokens(item) for item in items])
        return replace(self._ask(query), segments=(segment,), holders={}), places

    def _weigh(self, question: WordQuestion, editions: Ids) -> tuple[Scores, Scores]:
        scores, _, masks, _ = self._score(question, editions)
        total = np.zeros(len(editions))
        if masks.any():
            places = np.arange(len(question.numbers), dtype=np.uint64)
            shares = ((masks[:, None] >> places) & np.uint64(1)) * question.heard
            words, order = np.unique(question.words, return_index=True)  # those of a word stand together
            best = np.maximum.reduceat(shares, order, axis=1)
            total = best[:, words < question.parsed.words].sum(axis=1)
        return scores, (total / max(question.whole, 1e-9)).astype(np.float32)

    def _best(self, question: WordQuestion, limit: int, allowed: Ids | None) -> tuple[Ids, Scores]:
        """The best of each segment, in no order."""
        editions, scores = [np.empty(0, np.int64)], [np.empty(0, np.float32)]
        for place, part in enumerate(question.segments):
            words = part.word_places(question.numbers)
            here = words >= 0
            most = min(limit, len(part.editions))
            if not here.any() or most < 1:
                continue
            items, values = np.empty(most, np.int64), np.empty(most, np.float32)
            kept = kernels().rank_items(
                part.starts[words[here]], part.starts[words[here] + 1], question.rarities[here], part.rows,
                part.times, part.row_items, part.row_fields, part.row_lengths, part.first_rows, part.lengths,
                question.norms, question.allowed(place, allowed), items, values,
            )  # fmt: skip
            editions.append(part.editions[items[:kept]])
            scores.append(values[:kept])
        return np.concatenate(editions), np.concatenate(scores)

    def _score(
        self, question: WordQuestion, editions: Ids
    ) -> tuple[Scores, Ids, UInt64[np.ndarray, " n"], Int64[np.ndarray, " n"]]:
        """Of each edition its score, the row that says most, the terms that it has, and its segment."""
        scores, rows = np.zeros(len(editions), np.float32), np.full(len(editions), -1, np.int64)
        masks, segments = np.zeros(len(editions), np.uint64), np.full(len(editions), -1, np.int64)
        for at, part in enumerate(question.segments if len(question.numbers) else ()):
            places = part.places(editions)
            here = np.flatnonzero(places >= 0)
            if question.parsed.phrases:
                here = here[question.allowed(at)[places[here]]]
            if not len(here):
                continue
            some = (
                np.empty(len(here), np.float32),
                np.empty(len(here), np.int64),
                np.empty(len(here), np.uint64),
            )
            kernels().score_items(
                question.numbers, question.rarities, places[here], part.tokens, part.row_starts,
                part.first_rows, part.row_fields, part.row_lengths, part.lengths, question.norms, *some,
            )  # fmt: skip
            scores[here], rows[here], masks[here] = some
            segments[here] = at
        return scores, rows, masks, segments


def _living(segments: Sequence[WordSegment], numbers: Sequence[int]) -> Int64[np.ndarray, " q"]:
    """How many living items have each of these terms."""
    wanted = np.array(numbers, np.int32)
    return sum((part.counts(wanted) for part in segments), np.zeros(len(wanted), np.int64))


def _rarest(having: Int64[np.ndarray, " q"], most: int) -> Bool[np.ndarray, " q"]:
    """The words that the fewest have, as long as all of these are not too many; at least one."""
    order = np.argsort(having, kind="stable")
    rarest = np.zeros(len(having), np.bool_)
    rarest[order] = (np.cumsum(having[order]) <= most) | (
        np.arange(len(having)) <= np.count_nonzero(having == 0)
    )
    return rarest


def _norms(segments: Sequence[WordSegment]) -> Float64[np.ndarray, "6 f"]:
    """Those of all segments together."""
    return field_norms(sum((part.sums for part in segments), np.zeros((3, len(FIELDS)))))
