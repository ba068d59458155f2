"""Lexical search: the words of names, captions and payloads, and the index of them in the database.

Text is cut at blanks, and each chunk is known by its pieces and by its wholes: `KX-42/7b` by kx, 42, kx42, 7,
b, 7b, kx427b; `chairs/kitchenTable_A` by chairs, kitchen, table, kitchentable, a, kitchentablea, and all of
it. Letters are folded: case, width and ligatures make no difference. A word holds letters, digits and their
marks alone, so no database can take it for syntax.

SQLite keeps it as FTS5, PostgreSQL as text search vectors under GIN. Beside a vector, words name an item only
where it has all that identify it (see `required_words`) and few others do: every code of the question or,
without a code, one text that quotes all of it, or one name that has its words in any order. For words alone
either database is queried one word at a time, so that both rank alike: an item counts the rarity
ln(1 + items / items with it) of each. The index is derived: where it is missing, or was made by other rules,
it is built again from the items.
"""

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from index.contracts import Ids
from index.store import item_rows, metadata
from index.store.item_rows import facts_of, is_storable
from index.store.schema import items, meta, observations
from multifold.errors import needs_extra
from multifold.types import Item

with needs_extra("serve"):
    from sqlalchemy import ColumnElement, Connection, TextClause, inspect, select, text


MAX_WORD_LENGTH = 64  # letters of a word; longer ones are left out, their pieces stay
MAX_ITEM_WORDS = 4_096  # words of one item
MAX_QUERY_WORDS = 64  # words of one question
CACHED_CHUNKS = 1 << 15  # chunks that need not be cut again
_SIGNS = ".,;:!?\"'()[]{}<>«»“”„"  # around a chunk, not of it
# a part number or a file's name: digits with letters or signs between, many digits, a_b, a.b, aB
_CODE = re.compile(
    r"^(?=.*\d)(?=.*[^\W\d_])|\d[-_/\\#:]+\d|\d{4}|\w_+\w|[^\W\d_]\.[^\W\d_]|[a-zß-ÿ][A-ZÀ-Þ]", re.DOTALL
)
_MADE = re.compile(r"(?:[0-9a-f]-?){31,}[0-9a-f]", re.IGNORECASE)  # hashes and UUIDs
_INGESTED = {"source", "path", "content"}  # what a folder's ingest notes beside the user's own
_NOTES = {"source", "content", "size"}  # those that no query would ask for
_EDGES = re.compile(r"(?<=[^\W\d])(?=\d)|(?<=\d)(?=[^\W\d])")
_CAMEL = re.compile(r"(?<=[a-zß-ÿ])(?=[A-ZÀ-Þ])")


@dataclass(frozen=True)
class QueryWord:
    """A word that is looked for, and the chunk of the question that it is of."""

    word: str
    chunk: str


@dataclass(frozen=True)
class RequiredWords:
    """What an item must have to be named: all these words and, without a code, one text that quotes them, or
    one name that has them all."""

    words: list[QueryWord]
    quote: tuple[str, ...]  # pieces that follow one another; none where there are codes

    def is_in_text(self, text: str) -> bool:
        """Whether a text has the quote in it."""
        pieces, length = split_pieces(text), len(self.quote)
        return any(pieces[at : at + length] == self.quote for at in range(len(pieces) - length + 1))

    def is_in_name(self, name: str) -> bool:
        """Whether a name has all of the quote, in any order."""
        return set(self.quote) <= {*split_pieces(name)}

    def is_all_of(self, text: str) -> bool:
        """Whether a text is the quote, and nothing else."""
        return split_pieces(text) == self.quote


def words(text: str) -> Iterator[str]:
    """Every word of a text, some of them several times."""
    for chunk in unicodedata.normalize("NFKC", text).split():
        yield from _known(chunk) if len(chunk) <= MAX_WORD_LENGTH else _words_of(chunk)


def query_words(text: str) -> list[QueryWord]:
    """The words of a question, each once, with the chunks that they are of."""
    return _once((word, chunk) for chunk in _chunks(text) for word in _words_of(chunk))


def split_pieces(text: str) -> tuple[str, ...]:
    """A text cut as far as it can be, in order."""
    segments = (segment for chunk in _chunks(text) for segment in re.split(r"[/\\]", chunk))
    parts = (part for segment in segments for part in _parts(segment))
    return tuple(_fit(piece for part in parts for piece in _pieces(part)))


def required_words(text: str) -> RequiredWords:
    """What identifies an item in a question: its codes; without codes, all of it as a quote."""
    chunks = _chunks(text)
    codes = [chunk for chunk in chunks if _CODE.search(chunk)]
    words_of_codes = _once((word, chunk) for chunk in codes or chunks for word in _wholes(chunk))
    return RequiredWords(words_of_codes, () if codes else split_pieces(text))


def words_of_item(item: Item) -> list[str]:
    """What an item is known by."""
    return words_of_texts(
        item.id, (one.text for one in item.observations if one.text is not None), item.payload
    )


def words_of_texts(name: str, captions: Iterable[str], payload: Mapping[str, Any]) -> list[str]:
    """Every word of its texts."""
    every: dict[str, None] = {}
    for text in texts_of_item(name, captions, payload):
        every.update(dict.fromkeys(words(text)))
        if len(every) >= MAX_ITEM_WORDS:
            break
    return list(every)[:MAX_ITEM_WORDS]


def texts_of_item(name: str, captions: Iterable[str], payload: Mapping[str, Any]) -> Iterator[str]:
    """What an item is known by: its names and its captions."""
    yield from names_of_item(name, payload)
    yield from captions


def names_of_item(name: str, payload: Mapping[str, Any]) -> Iterator[str]:
    """The names of an item: its id, and the values of its payload, if people made them."""
    notes = _NOTES if payload.keys() >= _INGESTED else set()
    facts = (
        one for one in facts_of(payload) if one.value.kind in ("text", "number") and one.key not in notes
    )
    values = (text for text in (str(fact.value.scalar) for fact in facts) if not _MADE.fullmatch(text))
    yield from (name, *values)


def _chunks(text: str) -> list[str]:
    return [chunk.strip(_SIGNS) for chunk in unicodedata.normalize("NFKC", text).split()]


def _once(pairs: Iterable[tuple[str, str]]) -> list[QueryWord]:
    chunks: dict[str, str] = {}
    for word, chunk in pairs:
        chunks.setdefault(word, chunk)
    return [QueryWord(word, chunk) for word, chunk in chunks.items()][:MAX_QUERY_WORDS]


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


@lru_cache(CACHED_CHUNKS)
def _known(chunk: str) -> tuple[str, ...]:
    return tuple(_words_of(chunk))


def _pieces(part: str) -> list[str]:
    return [piece for half in _EDGES.split(part) for piece in _CAMEL.split(half)]


def _parts(segment: str) -> Iterator[str]:
    """Runs of letters, digits and the marks on them."""
    kept = "".join(letter if unicodedata.category(letter)[0] in "LNM" else " " for letter in segment)
    return iter(kept.split())


def _fit(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        folded = word.casefold()
        if not folded.isascii():
            folded = "".join(filter(str.strip, unicodedata.normalize("NFKC", folded)))
        if 0 < len(folded) <= MAX_WORD_LENGTH and is_storable(folded):
            yield folded


TABLE = "words"
RULES, NOTE = "2", "words"  # another number builds every store's index again
PAGE_ITEMS = 1_000  # items of one statement
MAX_NAMED = 8  # items that words may name beside a vector; words that more items have identify none
QUOTED, ALL_OF = 1.0, 2.0  # how sure it is that an item was meant
MOST_READ = 64  # items that are read to see whether they quote a question
MOST_FOUND = 100_000  # items with one word


@dataclass(frozen=True)
class LexicalDialect:
    """How one database keeps words."""

    create: Sequence[TextClause]
    insert: TextClause
    delete: TextClause
    find: TextClause
    both: str  # between two words that are both required
    quote: str


DIALECTS: Mapping[str, LexicalDialect] = {
    # the rules of `ascii` take every letter beyond ASCII for a part of its word, as words.py does
    "sqlite": LexicalDialect(
        [text("CREATE VIRTUAL TABLE words USING fts5(told, detail=none, columnsize=0, tokenize=ascii)")],
        text("INSERT INTO words (rowid, told) VALUES (:edition, :told)"),
        text("DELETE FROM words WHERE rowid = :edition"),
        text("SELECT rowid FROM words WHERE words MATCH :asked LIMIT :most"),
        both=" AND ",
        quote='"',
    ),
    "postgresql": LexicalDialect(
        [
            text("CREATE TABLE words (edition BIGINT PRIMARY KEY, told TSVECTOR NOT NULL)"),
            text("CREATE INDEX words_told ON words USING GIN (told)"),
        ],
        text("INSERT INTO words VALUES (:edition, array_to_tsvector(string_to_array(:told, ' ')))"),
        text("DELETE FROM words WHERE edition = :edition"),
        text("SELECT edition FROM words WHERE told @@ CAST(:asked AS tsquery) LIMIT :most"),
        both=" & ",
        quote="'",
    ),
}


@dataclass(frozen=True)
class LexicalMatch:
    """An item that some words name: how much they say, and which chunks of the question they are of."""

    score: float
    chunks: tuple[str, ...]


def has_index(connection: Connection) -> bool:
    """Whether a store has this index."""
    return inspect(connection).has_table(TABLE)


def ensure_index(connection: Connection) -> None:
    """Build the index of a store if it is missing or was made by other rules."""
    there = has_index(connection)
    if not inspect(connection).has_table(meta.name) or (
        there and metadata.read_note(connection, NOTE) == RULES
    ):
        return
    if there:
        connection.execute(text("DROP TABLE words"))
    for statement in _dialect(connection).create:
        connection.execute(statement)
    for page in _items(connection):
        write_words(connection, page)
    metadata.write_note(connection, NOTE, RULES)


def write_words(connection: Connection, new: Iterable[tuple[int, Sequence[str]]]) -> None:
    """Note the words of editions."""
    rows = [{"edition": edition, "told": " ".join(words)} for edition, words in new]
    if rows:
        connection.execute(_dialect(connection).insert, rows)


def forget_words(connection: Connection, editions: Sequence[int]) -> None:
    """Editions that have ended."""
    if editions:
        connection.execute(_dialect(connection).delete, [{"edition": edition} for edition in editions])


def count_indexed(connection: Connection) -> int:
    """How many editions have words here."""
    return connection.scalar(text("SELECT count(*) FROM words")) or 0


def find_named(connection: Connection, question: str) -> dict[int, LexicalMatch]:
    """The editions that have all that tells in a question; none if they are many."""
    required = required_words(question)
    most = MOST_READ if required.quote else MAX_NAMED
    editions = _editions(connection, [one.word for one in required.words], most + 1)
    if len(editions) > most:
        return {}
    scores = _quoting(connection, required, editions) if required.quote else dict.fromkeys(editions, QUOTED)
    if len(scores) > MAX_NAMED:
        scores = {edition: score for edition, score in scores.items() if score == ALL_OF}
    if len(scores) > MAX_NAMED:
        return {}
    chunks = tuple(dict.fromkeys(one.chunk for one in required.words))
    return {edition: LexicalMatch(score, chunks) for edition, score in scores.items()}


def rank_by_words(connection: Connection, question: str, size: int) -> dict[int, LexicalMatch]:
    """The editions that have any word of a question, best first, of a collection of this many items."""
    scores: dict[int, float] = {}
    chunks: dict[int, dict[str, None]] = {}
    for one in query_words(question):
        editions = _editions(connection, [one.word], MOST_FOUND)
        for edition in editions:
            scores[edition] = scores.get(edition, 0.0) + math.log1p(size / len(editions))
            chunks.setdefault(edition, {})[one.chunk] = None
    best = sorted(scores, key=lambda edition: (-scores[edition], edition))
    return {edition: LexicalMatch(scores[edition], tuple(chunks[edition])) for edition in best}


def keep_allowed(matches: Mapping[int, LexicalMatch], allowed: Ids) -> dict[int, LexicalMatch]:
    """Those of the allowed editions."""
    both = set(np.intersect1d(np.fromiter(matches, np.int64), allowed).tolist())
    return {edition: match for edition, match in matches.items() if edition in both}


def _editions(connection: Connection, every: Sequence[str], most: int) -> list[int]:
    """Those that have every one of these words."""
    if not every:
        return []
    dialect = _dialect(connection)
    query = dialect.both.join(f"{dialect.quote}{word}{dialect.quote}" for word in every)
    return [row[0] for row in connection.execute(dialect.find, {"asked": query, "most": most})]


def _quoting(connection: Connection, required: RequiredWords, editions: Sequence[int]) -> dict[int, float]:
    """Those of which one text is the quote or holds it; if none does, those whose name has all its words."""
    scores, called = {}, {}
    texts = _texts(connection, items.c.edition.in_(editions)) if editions else ()
    for edition, name, captions, payload in texts:
        quoting = [text for text in texts_of_item(name, captions, payload) if required.is_in_text(text)]
        if quoting:
            scores[edition] = ALL_OF if any(map(required.is_all_of, quoting)) else QUOTED
        elif any(map(required.is_in_name, names_of_item(name, payload))):
            called[edition] = QUOTED
    return scores or called


def _dialect(connection: Connection) -> LexicalDialect:
    return DIALECTS[connection.dialect.name]


def _items(connection: Connection) -> Iterator[list[tuple[int, list[str]]]]:
    """The words of every item, some items at a time."""
    last = -1
    while some := list(_texts(connection, items.c.edition > last)):
        yield [
            (edition, words_of_texts(name, captions, payload)) for edition, name, captions, payload in some
        ]
        last = some[-1][0]


def _texts(
    connection: Connection, which: ColumnElement[bool]
) -> Iterator[tuple[int, str, list[str], Mapping[str, Any]]]:
    """Edition, name, captions and payload of the first page of some items."""
    page = select(items.c.edition, items.c.id, items.c.payload).where(which)
    some = connection.execute(page.order_by(items.c.edition).limit(PAGE_ITEMS)).all()
    captions_of: dict[int, list[str]] = {row.edition: [] for row in some}
    captions = select(observations.c.edition, observations.c.text).where(
        observations.c.edition.in_(list(captions_of)), observations.c.text.is_not(None)
    )
    for edition, caption in connection.execute(captions) if some else ():
        captions_of[edition].append(caption)
    for row in some:
        yield row.edition, row.id, captions_of[row.edition], item_rows.payload(row.payload)
