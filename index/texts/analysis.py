"""From texts and questions to terms: words, stems in the languages of a collection, and stop words.

A text is cut at blanks, and each chunk is known by its pieces and by its wholes: `KX-42/7b` by kx, 42, 7, b,
and kx42, 7b, kx427b; `chairs/kitchenTable_A` by chairs, kitchen, table, a, and kitchentable, kitchentablea,
and all of it. Letters are folded: case, width, ligatures and accents make no difference.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain

from index.texts.languages import IRREGULAR, STOP_WORDS
from multifold.errors import needs_extra

with needs_extra("serve"):
    import snowballstemmer

MAX_WORD_LENGTH = 64  # letters of a word; longer ones are left out, their pieces stay
GIVEN_BY_CAMERAS = frozenset(
    ("dcim", "dji", "dsc", "dscf", "dscn", "gopr", "image", "img", "mvi", "photo", "picture", "pxl", "scan")
)
KEPT_CHUNKS = 1 << 15  # chunks that need not be cut again
_SIGNS = ".,;:!?\"'()[]{}<>«»“”„"  # around a chunk, not of it
_STEPS = re.compile(r"[/\\]")
_EDGES = re.compile(r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])|(?<=[a-zß-ÿ])(?=[A-ZÀ-Þ])")
_PARTS = re.compile(r"[^\W_]+")
_ACCENTS = re.compile(r"(?<=[\u0000-\u03ff])[\u0300-\u036f]+")  # on Latin and Greek letters
_LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i"})


@dataclass(frozen=True)
class Chunk:
    """What stands between two blanks: what it is made of, and what some of its pieces are together."""

    text: str
    pieces: tuple[str, ...]
    wholes: tuple[str, ...] = ()


def chunks(text: str) -> Iterator[Chunk]:
    """A text cut at blanks."""
    for one in unicodedata.normalize("NFKC", text).split():
        yield _cached(one) if len(one) <= MAX_WORD_LENGTH else _cut(one)


def pieces(text: str) -> tuple[str, ...]:
    """A text cut as far as it can be, in order."""
    return tuple(piece for chunk in chunks(text) for piece in chunk.pieces)


def steps(chunk: str) -> tuple[str, ...]:
    """One word for each step of a path."""
    return _fit("".join(_parts(step)) for step in _STEPS.split(chunk))


def path_steps(path: str) -> list[str]:
    """The steps of a path; of what is none, itself."""
    return [step for step in _STEPS.split(path) if step] or [path]


def words_of_name(name: str) -> str:
    """A name or path as people write its words: apart, without numbers and, if there are others, what has no
    three letters. A name that a camera gave has none.
    """
    parts = chain.from_iterable(map(_parts, _STEPS.split(unicodedata.normalize("NFKC", name))))
    words = [piece for part in parts for piece in _pieces(part) if piece.isalpha()]
    if all(word.casefold() in GIVEN_BY_CAMERAS for word in words):
        return ""
    return " ".join([word for word in words if len(word) >= LEAST_STEMMED or not word.isascii()] or words)


def fold(word: str) -> str:
    """A word without case, width, ligatures and accents."""
    folded = word.casefold()
    if folded.isascii():
        return folded
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", folded)).translate(_LETTERS)
    return "".join(unicodedata.normalize("NFKC", bare).split())


def _cut(text: str) -> Chunk:
    """Of each part its pieces and itself, of each step of a path and of all of it the parts together."""
    split = [[_pieces(part) for part in _parts(step)] for step in _STEPS.split(text)]
    wholes = [["".join(part) for part in step if len(part) > 1] for step in split]
    joined = ["".join(map("".join, step)) for step in split]
    for step, own, word in zip(split, wholes, joined, strict=True):
        own += [word] if len(step) > 1 else []
    whole = ["".join(joined)] if sum(map(bool, joined)) > 1 else []
    return Chunk(
        text.strip(_SIGNS),
        _fit(piece for step in split for part in step for piece in part),
        _fit([*(word for own in wholes for word in own), *whole]),
    )


_cached = lru_cache(KEPT_CHUNKS)(_cut)


def _pieces(part: str) -> list[str]:
    return _EDGES.split(part)


def _parts(step: str) -> list[str]:
    """Runs of letters, digits and the marks on them."""
    if step.isascii():
        return _PARTS.findall(step)
    kept = "".join(letter if unicodedata.category(letter)[0] in "LNM" else " " for letter in step)
    return kept.split()


def _fit(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(word for word in map(fold, words) if 0 < len(word) <= MAX_WORD_LENGTH)


MOST_LANGUAGES = 2
FALLBACK = "english"
SPOKEN = 0.3  # of the votes that the first language has: so many make another one spoken too
LEAST_VOTES = 0.2  # of an item, on average; else the texts are names, and say nothing of a language
LEAST_STEMMED = 3  # letters
CACHED_STEMS = 1 << 17


@cache
def stop_words(language: str) -> frozenset[str]:
    """Words that every text of a language has, folded."""
    return frozenset(STOP_WORDS.get(language, "").split())


@cache
def voting_words() -> Mapping[str, float]:
    """All stop words, and what each counts for its languages: less where several have it."""
    counts = Counter(word for language in STOP_WORDS for word in stop_words(language))
    return {word: 1 / count**2 for word, count in counts.items()}


def spoken_languages(having: Mapping[str, int], items: int) -> tuple[str, ...]:
    """The languages of some items, the first one first, by how many of them have each of the voting words."""
    weights = voting_words()
    votes = {
        language: sum(weights[word] * having.get(word, 0) for word in sorted(stop_words(language)))
        for language in STOP_WORDS
    }
    best = sorted(votes, key=lambda language: (-votes[language], language != FALLBACK, language))
    if votes[best[0]] <= LEAST_VOTES * items:
        return (FALLBACK,)
    return tuple(one for one in best[:MOST_LANGUAGES] if votes[one] > SPOKEN * votes[best[0]])


class Analyzer:
    """Gives words their terms: what they have in common with their plural and other forms."""

    def __init__(self, languages: tuple[str, ...] = (FALLBACK,)) -> None:
        self.languages = languages
        self.stop_words = frozenset().union(*map(stop_words, languages))
        self._stemmers: list[Callable[[str], str]] = [
            snowballstemmer.stemmer(language).stemWord for language in languages
        ]
        self._stems: dict[str, str] = {}

    def term(self, word: str) -> str:
        """The stem of a folded word; stop words, and words with digits, are their own."""
        if len(word) < LEAST_STEMMED or not word.isalpha():
            return word
        known = self._stems.get(word)
        if known is None:
            if len(self._stems) >= CACHED_STEMS:
                self._stems = {}
            known = self._stems[word] = self._stem(word)
        return known

    def terms(self, words: Iterable[str]) -> Iterator[str]:
        return map(self.term, words)

    def _stem(self, word: str) -> str:
        if word in self.stop_words:
            return word
        stem = IRREGULAR.get(word, word)
        for stem_of in self._stemmers:
            stem = stem_of(stem) or stem
        return stem[:MAX_WORD_LENGTH]


_QUOTED = re.compile(r"[\"“”„«»]([^\"“”„«»]+)[\"“”„«»]")


def quotes(query: str) -> list[str]:
    """What stands in quotes."""
    return _QUOTED.findall(query)


def asks_phrase(query: str) -> bool:
    return bool(quotes(query))
