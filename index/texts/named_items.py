"""Which items a question names beside a vector.

Named are those that have all that tells in a question, where these are few. A question with codes (part
numbers, names of files) names the items that have all of them. One without codes names those of which one
text quotes all of it; if none does, those with a name that has its words in any order.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from index.texts.analysis import chunks, pieces, steps
from index.texts.contracts import ItemTexts
from index.texts.text_indexes import texts_of
from index.texts.words import WordIndex
from multifold.errors import needs_extra

with needs_extra("serve"):
    from sqlalchemy import Connection

MAX_NAMED = 8  # items that words may name beside a vector; words that more items have identify none
MOST_READ = 64  # items whose texts are read
QUOTED, ALL_OF = 1.0, 2.0  # how sure it is that an item was meant
# a part number or a file's name: digits with letters or signs between, many digits, a_b, a.b, aB
_CODE = re.compile(
    r"^(?=.*\d)(?=.*[^\W\d_])|\d[-_/\\#:]+\d|\d{4}|\w_+\w|[^\W\d_]\.[^\W\d_]|[a-zß-ÿ][A-ZÀ-Þ]", re.DOTALL
)


@dataclass(frozen=True)
class LexicalMatch:
    """An item that some words name: how much they say, and which chunks of the question they are of."""

    score: float
    chunks: tuple[str, ...]


@dataclass(frozen=True)
class RequiredWords:
    """What an item must have to be named: all these words and, without a code, one text that quotes them, or
    one name that has them all."""

    words: tuple[str, ...]
    chunks: tuple[str, ...]  # that they are of
    quote: tuple[str, ...]  # pieces that follow one another; none where there are codes

    def sureness(self, texts: ItemTexts) -> tuple[float, float]:
        """How sure it is that an item was meant: by one of its texts, and by its names; 0: it was not."""
        names = [texts.name, *texts.values, *([texts.path] if texts.path else ())]
        every = [*names, *texts.captions]
        if not self.quote:
            has = set(chain.from_iterable(map(_words, every)))
            return (QUOTED if has.issuperset(self.words) else 0.0), 0.0
        quoting = max(map(self.quoted_in, every))
        called = any({*pieces(name)}.issuperset(self.quote) for name in names)
        return quoting, QUOTED if called else 0.0

    def quoted_in(self, text: str) -> float:
        """How sure it is that a text is meant, which may have the quote in it, or be it."""
        cut, length = pieces(text), len(self.quote)
        if cut == self.quote:
            return ALL_OF
        starts = range(len(cut) - length + 1)
        return QUOTED if any(cut[at : at + length] == self.quote for at in starts) else 0.0


def required_words(text: str) -> RequiredWords:
    """What identifies an item in a question: its codes; without codes, all of it as a quote."""
    every = list(chunks(text))
    codes = [chunk for chunk in every if _CODE.search(chunk.text)]
    of_words: dict[str, str] = {}
    for chunk in codes or every:
        for word in steps(chunk.text):
            of_words.setdefault(word, chunk.text)
    quote = () if codes else tuple(piece for chunk in every for piece in chunk.pieces)
    return RequiredWords(tuple(of_words), tuple(dict.fromkeys(of_words.values())), quote)


def find_named(connection: Connection, words: WordIndex, question: str) -> dict[int, LexicalMatch] | None:
    """The editions that a question names, none if they are many; None if the store has gone on meanwhile."""
    required = required_words(question)
    editions = words.having_all(required.words, MOST_READ + 1)
    if not editions or len(editions) > MOST_READ:
        return {}
    texts = texts_of(connection, editions)
    if len(texts) < len(editions):
        return None
    sure = {one.edition: required.sureness(one) for one in texts}
    quoting, called = (
        {edition: pair[place] for edition, pair in sure.items() if pair[place]} for place in (0, 1)
    )
    scores = quoting or called
    if len(scores) > MAX_NAMED:
        scores = {edition: score for edition, score in scores.items() if score == ALL_OF}
    if len(scores) > MAX_NAMED:
        return {}
    return {edition: LexicalMatch(score, required.chunks) for edition, score in scores.items()}


def _words(text: str) -> Iterable[str]:
    return chain.from_iterable((*chunk.pieces, *chunk.wholes) for chunk in chunks(text))
