"""Items by their words: an index of the database's own, written with the items and lost with nothing.

SQLite keeps it as FTS5, PostgreSQL as text search vectors under GIN. Beside a vector, words name an item only
where it has all that tell (see `words.telling`) and few others do: every code of the question or, without a
code, one text that quotes all of it, or one name that has its words in any order. For words alone either
database is asked one word at a time, so that both rank alike: an item counts the rarity
ln(1 + items / items with it) of each. It is derived: where it is missing, or was made by other rules
(words.py), it is built anew from the items.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from index.base import Ids
from index.truth import codec, stamp
from index.truth.schema import items, meta, observations
from index.wording import words
from index.wording.words import Telling
from multifold.errors import needs_extra

with needs_extra("serve"):
    from sqlalchemy import ColumnElement, Connection, TextClause, inspect, select, text

TABLE = "words"
RULES, NOTE = "2", "words"  # of words.py: another number builds every store's index anew
PAGE = 1_000  # items of one statement
FEW = 8  # items that words may name beside a vector; what more have tells too little
QUOTED, ALL_OF = 1.0, 2.0  # how sure it is that an item was meant
MOST_READ = 64  # items that are read to see whether they quote a question
MOST_FOUND = 100_000  # items with one word


@dataclass(frozen=True)
class Dialect:
    """How one database keeps words."""

    create: Sequence[TextClause]
    insert: TextClause
    delete: TextClause
    find: TextClause
    both: str  # what asks for two words at once
    quote: str


DIALECTS: Mapping[str, Dialect] = {
    # the rules of `ascii` take every letter beyond ASCII for a part of its word, as words.py does
    "sqlite": Dialect(
        [text("CREATE VIRTUAL TABLE words USING fts5(told, detail=none, columnsize=0, tokenize=ascii)")],
        text("INSERT INTO words (rowid, told) VALUES (:edition, :told)"),
        text("DELETE FROM words WHERE rowid = :edition"),
        text("SELECT rowid FROM words WHERE words MATCH :asked LIMIT :most"),
        both=" AND ",
        quote='"',
    ),
    "postgresql": Dialect(
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
class Told:
    """An item that some words name: how much they say, and which chunks of the question they are of."""

    score: float
    chunks: tuple[str, ...]


def is_there(connection: Connection) -> bool:
    """Whether a store has this index."""
    return inspect(connection).has_table(TABLE)


def ensure(connection: Connection) -> None:
    """Build the index of a store if it is missing or was made by other rules."""
    there = is_there(connection)
    if not inspect(connection).has_table(meta.name) or (there and stamp.note(connection, NOTE) == RULES):
        return
    if there:
        connection.execute(text("DROP TABLE words"))
    for statement in _dialect(connection).create:
        connection.execute(statement)
    for page in _items(connection):
        write(connection, page)
    stamp.write_note(connection, NOTE, RULES)


def write(connection: Connection, new: Iterable[tuple[int, Sequence[str]]]) -> None:
    """Note the words of editions."""
    rows = [{"edition": edition, "told": " ".join(told)} for edition, told in new]
    if rows:
        connection.execute(_dialect(connection).insert, rows)


def forget(connection: Connection, editions: Sequence[int]) -> None:
    """Editions that have ended."""
    if editions:
        connection.execute(_dialect(connection).delete, [{"edition": edition} for edition in editions])


def count(connection: Connection) -> int:
    """How many editions have words here."""
    return connection.scalar(text("SELECT count(*) FROM words")) or 0


def named(connection: Connection, question: str) -> dict[int, Told]:
    """The editions that have all that tells in a question; none if they are many."""
    telling = words.telling(question)
    most = MOST_READ if telling.quote else FEW
    found = _editions(connection, [one.word for one in telling.words], most + 1)
    if len(found) > most:
        return {}
    scores = _quoting(connection, telling, found) if telling.quote else dict.fromkeys(found, QUOTED)
    if len(scores) > FEW:
        scores = {edition: score for edition, score in scores.items() if score == ALL_OF}
    chunks = tuple(dict.fromkeys(one.chunk for one in telling.words))
    return {edition: Told(score, chunks) for edition, score in scores.items()} if len(scores) <= FEW else {}


def ranked(connection: Connection, question: str, size: int) -> dict[int, Told]:
    """The editions that have any word of a question, best first, of a collection of this many items."""
    scores: dict[int, float] = {}
    chunks: dict[int, dict[str, None]] = {}
    for one in words.asked(question):
        found = _editions(connection, [one.word], MOST_FOUND)
        for edition in found:
            scores[edition] = scores.get(edition, 0.0) + math.log1p(size / len(found))
            chunks.setdefault(edition, {})[one.chunk] = None
    best = sorted(scores, key=lambda edition: (-scores[edition], edition))
    return {edition: Told(scores[edition], tuple(chunks[edition])) for edition in best}


def among(found: Mapping[int, Told], allowed: Ids) -> dict[int, Told]:
    """Those of the allowed editions."""
    kept = np.intersect1d(np.fromiter(found, np.int64), allowed)
    few = set(kept.tolist())
    return {edition: told for edition, told in found.items() if edition in few}


def _editions(connection: Connection, every: Sequence[str], most: int) -> list[int]:
    """Those that have every one of these words."""
    if not every:
        return []
    dialect = _dialect(connection)
    asked = dialect.both.join(f"{dialect.quote}{word}{dialect.quote}" for word in every)
    return [row[0] for row in connection.execute(dialect.find, {"asked": asked, "most": most})]


def _quoting(connection: Connection, telling: Telling, found: Sequence[int]) -> dict[int, float]:
    """Those of which one text is the quote or holds it; if none does, those whose name has all its words."""
    scores, called = {}, {}
    for edition, name, captions, payload in _texts(connection, items.c.edition.in_(found)) if found else ():
        quoting = [text for text in words.texts(name, captions, payload) if telling.said_by(text)]
        if quoting:
            scores[edition] = ALL_OF if any(map(telling.is_all_of, quoting)) else QUOTED
        elif any(map(telling.is_in_name, words.names(name, payload))):
            called[edition] = QUOTED
    return scores or called


def _dialect(connection: Connection) -> Dialect:
    return DIALECTS[connection.dialect.name]


def _items(connection: Connection) -> Iterator[list[tuple[int, list[str]]]]:
    """The words of every item, some items at a time."""
    last = -1
    while some := list(_texts(connection, items.c.edition > last)):
        yield [(edition, words.told(name, captions, payload)) for edition, name, captions, payload in some]
        last = some[-1][0]


def _texts(
    connection: Connection, which: ColumnElement[bool]
) -> Iterator[tuple[int, str, list[str], Mapping[str, Any]]]:
    """Edition, name, captions and payload of the first page of some items."""
    page = select(items.c.edition, items.c.id, items.c.payload).where(which)
    some = connection.execute(page.order_by(items.c.edition).limit(PAGE)).all()
    said: dict[int, list[str]] = {row.edition: [] for row in some}
    captions = select(observations.c.edition, observations.c.text).where(
        observations.c.edition.in_(list(said)), observations.c.text.is_not(None)
    )
    for edition, caption in connection.execute(captions) if some else ():
        said[edition].append(caption)
    for row in some:
        yield row.edition, row.id, said[row.edition], codec.payload(row.payload)
