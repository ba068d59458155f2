"""The words of names, captions and payloads, as they are looked for by their letters. Pure.

Text is cut at blanks, and each chunk is known by its pieces and by its wholes: `KX-42/7b` by kx, 42, kx42, 7,
b, 7b, kx427b; `chairs/kitchenTable_A` by chairs, kitchen, table, kitchentable, a, kitchentablea, and all of
it. Letters are folded: case, width and ligatures make no difference. A word holds letters, digits and their
marks alone, so no database can take it for anything else.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from index.truth.codec import storable
from index.truth.facts import facts_of
from multifold.types import Item

LONGEST = 64  # letters of a word; longer ones are left out, their pieces stay
MOST = 4_096  # words of one item
MOST_ASKED = 64  # words of one question
KNOWN = 1 << 15  # chunks that need not be cut again
_SIGNS = ".,;:!?\"'()[]{}<>«»“”„"  # around a chunk, not of it
# a part number or a file's name: digits with letters or signs between, many digits, a_b, a.b, aB
_CODE = re.compile(
    r"^(?=.*\d)(?=.*[^\W\d_])|\d[-_/\\#:]+\d|\d{4}|\w_+\w|[^\W\d_]\.[^\W\d_]|[a-zß-ÿ][A-ZÀ-Þ]", re.DOTALL
)
_MADE = re.compile(r"(?:[0-9a-f]-?){31,}[0-9a-f]", re.IGNORECASE)  # hashes and UUIDs
_INGESTED = {"source", "path", "content"}  # what a folder's ingest notes beside the user's own
_NOTES = {"source", "content", "size"}  # those that nobody would ask for
_EDGES = re.compile(r"(?<=[^\W\d])(?=\d)|(?<=\d)(?=[^\W\d])")
_CAMEL = re.compile(r"(?<=[a-zß-ÿ])(?=[A-ZÀ-Þ])")


@dataclass(frozen=True)
class Asked:
    """A word that is looked for, and the chunk of the question that it is of."""

    word: str
    chunk: str


@dataclass(frozen=True)
class Telling:
    """What an item must have to be named: all these words and, without a code, one text that quotes them, or
    one name that has them all."""

    words: list[Asked]
    quote: tuple[str, ...]  # pieces that stand one after another; none where codes tell

    def said_by(self, text: str) -> bool:
        """Whether a text has the quote in it."""
        said, length = pieces(text), len(self.quote)
        return any(said[at : at + length] == self.quote for at in range(len(said) - length + 1))

    def is_in_name(self, name: str) -> bool:
        """Whether a name has all of the quote, in any order."""
        return set(self.quote) <= {*pieces(name)}

    def is_all_of(self, text: str) -> bool:
        """Whether a text is the quote, and nothing else."""
        return pieces(text) == self.quote


def words(text: str) -> Iterator[str]:
    """Every word of a text, some of them several times."""
    for chunk in unicodedata.normalize("NFKC", text).split():
        yield from _known(chunk) if len(chunk) <= LONGEST else _words_of(chunk)


def asked(text: str) -> list[Asked]:
    """The words of a question, each once, with the chunks that they are of."""
    return _once((word, chunk) for chunk in _chunks(text) for word in _words_of(chunk))


def pieces(text: str) -> tuple[str, ...]:
    """A text cut as far as it can be, in order."""
    segments = (segment for chunk in _chunks(text) for segment in re.split(r"[/\\]", chunk))
    parts = (part for segment in segments for part in _parts(segment))
    return tuple(_fit(piece for part in parts for piece in _pieces(part)))


def telling(text: str) -> Telling:
    """What tells in a question: its codes; without codes, all of it as a quote."""
    chunks = _chunks(text)
    codes = [chunk for chunk in chunks if _CODE.search(chunk)]
    told = _once((word, chunk) for chunk in codes or chunks for word in _wholes(chunk))
    return Telling(told, () if codes else pieces(text))


def of_item(item: Item) -> list[str]:
    """What an item is known by."""
    return told(item.id, (one.text for one in item.observations if one.text is not None), item.payload)


def told(name: str, captions: Iterable[str], payload: Mapping[str, Any]) -> list[str]:
    """Every word of its texts."""
    found: dict[str, None] = {}
    for text in texts(name, captions, payload):
        found.update(dict.fromkeys(words(text)))
        if len(found) >= MOST:
            break
    return list(found)[:MOST]


def texts(name: str, captions: Iterable[str], payload: Mapping[str, Any]) -> Iterator[str]:
    """What an item is known by: its names and its captions."""
    yield from names(name, payload)
    yield from captions


def names(name: str, payload: Mapping[str, Any]) -> Iterator[str]:
    """What an item is called: its id, and the values of its payload, if people made them."""
    notes = _NOTES if payload.keys() >= _INGESTED else set()
    facts = (
        one for one in facts_of(payload) if one.value.kind in ("text", "number") and one.key not in notes
    )
    values = (text for text in (str(fact.value.scalar) for fact in facts) if not _MADE.fullmatch(text))
    yield from (name, *values)


def _chunks(text: str) -> list[str]:
    return [chunk.strip(_SIGNS) for chunk in unicodedata.normalize("NFKC", text).split()]


def _once(found: Iterable[tuple[str, str]]) -> list[Asked]:
    chunks: dict[str, str] = {}
    for word, chunk in found:
        chunks.setdefault(word, chunk)
    return [Asked(word, chunk) for word, chunk in chunks.items()][:MOST_ASKED]


def _wholes(chunk: str) -> Iterator[str]:
    """One word for each step of a path."""
    if chunk.isascii() and chunk.isalnum():
        return _fit((chunk,))
    return _fit("".join(_parts(segment)) for segment in re.split(r"[/\\]", chunk))


def _words_of(chunk: str) -> Iterator[str]:
    """Pieces first, then what they are together."""
    whole: list[str] = []
    for segment in re.split(r"[/\\]", chunk):
        parts = list(_parts(segment))
        for part in parts:
            own = _pieces(part)
            yield from _fit([*own, part] if len(own) > 1 else own)
        if len(parts) > 1:
            yield from _fit(["".join(parts)])
        whole += parts
    if "/" in chunk or "\\" in chunk:
        yield from _fit(["".join(whole)])


@lru_cache(KNOWN)
def _known(chunk: str) -> tuple[str, ...]:
    return tuple(_words_of(chunk))


def _pieces(part: str) -> list[str]:
    return [piece for half in _EDGES.split(part) for piece in _CAMEL.split(half)]


def _parts(segment: str) -> Iterator[str]:
    """Runs of letters, digits and the marks on them."""
    kept = "".join(letter if unicodedata.category(letter)[0] in "LNM" else " " for letter in segment)
    return iter(kept.split())


def _fit(found: Iterable[str]) -> Iterator[str]:
    for word in found:
        folded = word.casefold()
        if not folded.isascii():
            folded = "".join(filter(str.strip, unicodedata.normalize("NFKC", folded)))
        if 0 < len(folded) <= LONGEST and storable(folded):
            yield folded
