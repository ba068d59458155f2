"""An index of the words of items: BM25 over their fields (see kernels.py).

Names, paths, values of the payload and captions are fields with weights of their own. Words are known by
their stems (see analysis.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from index.contracts import Ids
from index.texts.analysis import Analyzer, chunks, spoken_languages, voting_words
from index.texts.contracts import FIELDS, ItemTexts, Scores, TextMatch, text_of_label
from index.texts.kernels import add_sizes
from index.texts.questions import QueryParser, WordQuestion
from index.texts.saving import read_arrays, write_arrays
from index.texts.segments import TextSegments
from index.texts.vocabulary import PackedWords, Vocabulary
from index.texts.word_segments import (
    NumberedTexts,
    WordScores,
    WordSegment,
    field_norms,
    merged_segment,
    new_segment,
    number_texts,
)

KEPT_CHUNKS = 1 << 16  # chunks whose words need not be looked up again
KEPT_QUESTIONS = 64  # questions of one moment
SCORED_ITEMS = 2_048  # allowed items that are scored one by one
# Candidates that are ranked by their scores: so many, and a multiple of the limit.
RANKED_CANDIDATES, DEEPER = 512, 4


@dataclass(frozen=True, eq=False)
class AskedWords:
    """A question to the segments of one moment."""

    question: WordQuestion
    parts: tuple[WordSegment, ...]
    norms: Float64[np.ndarray, "3 f"]
    _near: dict[int, Ids] = field(default_factory=dict)

    def near(self, limit: int) -> Ids:
        """About so many best editions of all by the rarest terms, best first; they are found once."""
        if limit not in self._near:
            self._near[limit] = self.nearest(self.question.rare, limit, None)
        return self._near[limit]

    def nearest(self, terms: Ids, limit: int, among: Ids | None) -> Ids:
        """The best editions by some terms, about, best first."""
        found = [part.nearest(self.question, terms, limit, among) for part in self.parts]
        editions = np.concatenate([np.empty(0, np.int64), *(some for some, _ in found)])
        scores = np.concatenate([np.empty(0, np.float32), *(some for _, some in found)])
        return editions[np.lexsort((editions, -scores))[: max(limit, 0)]]

    def score_texts(self, texts: NumberedTexts) -> WordScores:
        """What texts say that are not in the index."""
        said = WordScores.none(len(texts.starts) - 1)
        said.add(self.question, self.norms, texts, np.arange(len(said.scores)))
        return said

    def score(self, editions: Ids) -> WordScores:
        """What the words of editions say, in their order."""
        said = WordScores.none(len(editions))
        for part in self.parts:
            said.add(self.question, self.norms, part, part.places(editions))
        return said


class WordIndex:
    """Items by their words."""

    def __init__(self, languages: tuple[str, ...] | None = None) -> None:
        """Words are known by their stems in these languages."""
        self._begin(Analyzer() if languages is None else Analyzer(languages), Vocabulary())

    def _begin(self, analyzer: Analyzer, vocabulary: Vocabulary) -> None:
        """Be empty."""
        self._analyzer, self._vocabulary = analyzer, vocabulary
        self._parser = QueryParser(analyzer, vocabulary)
        self._segments = TextSegments[WordSegment](
            lambda parts: merged_segment(parts, field_norms(self._sums))
        )
        self._sums = np.zeros((3, len(FIELDS)))  # words, items and texts with each field
        self._numbers: dict[str, tuple[int, tuple[int, ...]]] = {}
        self._asked: dict[str, AskedWords] = {}

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages whose stems words are known by."""
        return self._analyzer.languages

    def spoken(self) -> tuple[str, ...]:
        """The languages of the texts, as their stop words tell."""
        words = list(voting_words())
        counts = self._vocabulary.having([self._vocabulary.get(self._analyzer.term(word)) for word in words])
        return spoken_languages(dict(zip(words, counts, strict=True)), self.count())

    def add(self, items: Sequence[ItemTexts]) -> None:
        """Add items; an edition that is already there is a TextIndexError, and nothing is added."""
        items = sorted(items, key=lambda item: item.edition)
        editions = np.array([item.edition for item in items], np.int64)
        self._segments.check_new(editions)
        if items:
            texts = number_texts(items, self._number)
            sums = self._sums.copy()
            add_sizes(texts.starts, texts.texts, 1, sums)
            new = new_segment(editions, texts, field_norms(sums))
            self._count(new, 1)
            self._segments.add(new)
            self._asked = {}
            self._vocabulary.pack()

    def remove(self, editions: Sequence[int]) -> None:
        """Remove editions; those that are not there are ignored."""
        self._segments.remove(editions, lambda ended: self._count(ended, -1))
        self._asked = {}

    def _count(self, part: WordSegment, sign: int) -> None:
        """Count all items of a segment and their words, or (-1) count them no more."""
        self._vocabulary.count(part.words, sign * np.diff(part.firsts))
        sums = self._sums.copy()
        add_sizes(part.starts, part.texts, sign, sums)
        self._sums = sums

    def rank(self, query: str, limit: int, allowed: Ids | None = None) -> tuple[Ids, Scores]:
        """The best editions, best first, with scores above 0; ties go to the smaller edition."""
        asked, editions = self._ask(query), allowed
        if editions is None or len(editions) > SCORED_ITEMS:
            every = np.arange(len(asked.question.numbers))
            editions = asked.nearest(every, max(RANKED_CANDIDATES, DEEPER * limit), allowed)
        scores = asked.score(editions).scores
        order = np.lexsort((editions, -scores))[: min(max(limit, 0), np.count_nonzero(scores > 0))]
        return editions[order], scores[order]

    def near(self, query: str, limit: int, allowed: Ids | None = None) -> Ids:
        """About the best editions, for those who score them by all legs: the commonest words are left out."""
        if allowed is not None and len(allowed) <= SCORED_ITEMS:
            return self.rank(query, limit, allowed)[0]
        asked = self._ask(query)
        return asked.near(limit) if allowed is None else asked.nearest(asked.question.rare, limit, allowed)

    def scores(self, query: str, editions: Ids) -> Scores:
        """What the words of these editions say of a query, in their order; 0 where they say nothing."""
        return self._ask(query).score(editions).scores

    def weigh(self, query: str, editions: Ids) -> WordScores:
        """What the words of these editions say of a query, in their order."""
        return self._ask(query).score(editions)

    def scores_of(self, query: str, items: Sequence[ItemTexts]) -> Scores:
        """What texts that are not in the index would score in it."""
        return self.weigh_texts(query, items).scores

    def weigh_texts(self, query: str, items: Sequence[ItemTexts]) -> WordScores:
        """The same for texts that are not in the index: rarities and lengths count as they do there."""
        return self._ask(query).score_texts(number_texts(items, self._number))

    def most(self, query: str) -> float:
        """The score of an item that has all words of a query, once in each text."""
        return self._ask(query).question.most

    def having(self, query: str) -> Mapping[str, int]:
        """How many items have each word of a query; of stop words nothing is said beside others."""
        return self._ask(query).question.having

    def matches(self, query: str, editions: Ids) -> list[TextMatch]:
        """The text of each edition that matches best, and the chunks of a query that it has a word of."""
        asked = self._ask(query)
        said = asked.score(editions)
        chunks_asked = asked.question.chunks
        return [
            TextMatch(
                text_of_label(label),
                tuple(dict.fromkeys(chunk for at, chunk in enumerate(chunks_asked) if mask >> at & 1)),
            )
            for label, mask in zip(said.labels.tolist(), said.masks.tolist(), strict=True)
        ]

    def count(self) -> int:
        return self._segments.count()

    @property
    def nbytes(self) -> int:
        """How much memory or mapped file it takes."""
        return self._segments.nbytes + self._vocabulary.nbytes

    def save(self, path: Path) -> None:
        """Write it into a folder that is made."""
        self._vocabulary.pack(all_new=True)
        groups = {"vocabulary": vars(self._vocabulary.packed), **self._segments.saved()}
        write_arrays(path, groups, {"languages": self.languages})

    def load(self, path: Path) -> None:
        """Replace all of it by what was saved, which is read as it is needed."""
        groups, about = read_arrays(path)
        self._begin(Analyzer(tuple(about["languages"])), Vocabulary(PackedWords(**groups["vocabulary"])))
        if "segment" in groups:
            part = WordSegment.read(groups["segment"])
            self._count(part, 1)
            self._segments.replace([part])

    def _number(self, text: str) -> tuple[int, tuple[int, ...]]:
        """How many pieces a chunk has, and the numbers of these and of its wholes."""
        known = self._numbers.get(text)
        if known is None:
            if len(self._numbers) >= KEPT_CHUNKS:
                self._numbers.clear()
            number = self._vocabulary.add
            pieces, wholes = [], []
            for chunk in chunks(text):
                pieces += [number(term) for term in self._analyzer.terms(chunk.pieces)]
                wholes += [~number(term) for term in self._analyzer.terms(chunk.wholes)]
            known = self._numbers[text] = len(pieces), (*pieces, *wholes)
        return known

    def _ask(self, query: str) -> AskedWords:
        known, parts = self._asked, self._segments.now
        asked = known.get(query)
        if asked is None or asked.parts is not parts:
            if len(known) >= KEPT_QUESTIONS:
                known.clear()
            question = self._parser.parse(query, sum(part.count() for part in parts))
            asked = known[query] = AskedWords(question, parts, field_norms(self._sums))
        return asked
