"""What people said of hits: an item is good or bad for a query, in the words and pictures it was asked with.

There is one verdict for each query, item and author; a newer one replaces it. No index is made of verdicts,
so they are not in the log of changes. They stay when their item is deleted.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from sqlalchemy import Connection, delete, func, insert, select

from index.store.browse import MAX_PAGE, check_page
from index.store.database import UNSTORABLE, checksums, is_storable
from index.store.schema import TableRow, feedback
from multifold.errors import MultifoldError
from multifold.types import LONGEST_AUTHOR, SIDE_OF, Kind, QueryMeans, Side, Target, Verdict

ID = re.compile(r"[0-9a-f]{32}")
MAX_JUDGEMENTS = 100_000  # verdicts of one collection
BLOB, CHECKSUM = "blob", "checksum"  # within a query
FeedbackQuery: TypeAlias = tuple[str, str]  # text or image, and the text or the key of the picture
SAME_COLUMNS = ("id", "item", "verdict", "author", "given")  # as in a judgement


class FeedbackError(MultifoldError):
    """A verdict that cannot be kept."""


@dataclass(frozen=True)
class FeedbackQueryPart:
    """One part of a query: by what means, and with which words, picture, mesh or item, where that is kept."""

    means: QueryMeans
    weight: float = 1.0
    text: str | None = None
    blob: str | None = None  # the key of its picture or mesh
    id: str | None = None
    side: Side | None = None


@dataclass(frozen=True)
class Judgement:
    """A verdict: `seen` is the observation that was shown, `given` the time in seconds since 1970."""

    id: str
    item: str
    verdict: Verdict
    target: Target
    query: tuple[FeedbackQueryPart, ...]
    author: str | None
    seen: tuple[Kind, int] | None
    given: float


@dataclass(frozen=True)
class FeedbackFilter:
    """Which verdicts: all, or those of an item or of one kind."""

    item: str | None = None
    verdict: Verdict | None = None


def write_judgement(connection: Connection, judgement: Judgement) -> None:
    """Keep a verdict, in place of the former one of that id."""
    _check(judgement)
    connection.execute(delete(feedback).where(feedback.c.id == judgement.id))
    if (connection.scalar(select(func.count()).select_from(feedback)) or 0) >= MAX_JUDGEMENTS:
        raise FeedbackError(f"{MAX_JUDGEMENTS:,} verdicts are kept and no more; export and remove some first")
    connection.execute(insert(feedback), _row(judgement))


def remove_judgement(connection: Connection, name: str) -> int:
    """Forget a verdict; 1 if it was there."""
    if not ID.fullmatch(name):
        return 0
    return connection.execute(delete(feedback).where(feedback.c.id == name)).rowcount


def get_judgement(connection: Connection, name: str) -> Judgement | None:
    if not ID.fullmatch(name):  # no database gets what cannot be an id
        return None
    row = connection.execute(select(feedback).where(feedback.c.id == name)).mappings().first()
    return None if row is None or not _is_whole(row) else _judgement(row)


def page_of_judgements(
    connection: Connection,
    after: str | None = None,
    limit: int = 100,
    chosen: FeedbackFilter = FeedbackFilter(),
) -> list[Judgement]:
    """Verdicts in the order of their ids, from behind the one named."""
    check_page(after, limit)
    wanted = select(feedback).order_by(feedback.c.id)
    for name in ("item", "verdict"):
        if (value := getattr(chosen, name)) is not None:
            wanted = wanted.where(feedback.c[name] == value)
    page: list[Judgement] = []
    while len(page) < limit:
        following = wanted if after is None else wanted.where(feedback.c.id > after)
        rows = connection.execute(following.limit(limit - len(page))).mappings().all()
        if not rows:
            break
        page += [_judgement(row) for row in rows if _is_whole(row)]
        after = rows[-1]["id"]
    return page


def damaged_judgements(connection: Connection) -> Iterator[str]:
    """The items whose verdicts are not what was written; searches and lists leave these out."""
    for row in connection.execute(select(feedback)).mappings():
        if not _is_whole(row):
            yield row["item"]


def every_judgement(connection: Connection) -> Iterator[Judgement]:
    """All verdicts, in the order of their ids."""
    after: str | None = None
    while page := page_of_judgements(connection, after, MAX_PAGE, FeedbackFilter()):
        yield from page
        after = page[-1].id


def text_or_picture(parts: Sequence[FeedbackQueryPart]) -> FeedbackQuery | None:
    """What was asked with, where it is one text or picture that is kept."""
    match parts:
        case [FeedbackQueryPart(means="text", weight=weight, text=str(text))] if weight > 0:
            return "text", text
        case [FeedbackQueryPart(means="image", weight=weight, blob=str(key))] if weight > 0:
            return "image", key
    return None


def blob_keys(connection: Connection) -> Iterator[str]:
    """The keys of the pictures and meshes that were asked with."""
    named = select(feedback).where(feedback.c.query.contains(f'"{BLOB}"'))
    for row in filter(_is_whole, connection.execute(named).mappings()):
        yield from (part.blob for part in _judgement(row).query if part.blob is not None)


def _check(judgement: Judgement) -> None:
    author = judgement.author
    if author is not None and not (0 < len(author) <= LONGEST_AUTHOR and is_storable(author)):
        raise FeedbackError(
            f"the name of who judges needs 1 to {LONGEST_AUTHOR} characters that can be stored"
        )
    if not all(is_storable(part.text or "") and is_storable(part.id or "") for part in judgement.query):
        raise FeedbackError(f"the query {UNSTORABLE}")


def _row(judgement: Judgement) -> dict[str, Any]:
    every = (vars(part).items() for part in judgement.query)
    parts = [{name: value for name, value in part if value is not None} for part in every]
    kind, ordinal = judgement.seen or (None, None)
    same = {name: getattr(judgement, name) for name in SAME_COLUMNS}
    record = same | {"kind": kind, "ordinal": ordinal}
    query = {"target": judgement.target, "parts": parts}
    return record | {"query": json.dumps(query | {CHECKSUM: _checksum(record, query)})}


def _checksum(row: TableRow, query: dict[str, Any]) -> int:
    columns = (row[name] for name in (*SAME_COLUMNS, "kind", "ordinal"))
    return checksums(*columns, json.dumps([query["target"], query["parts"]]))[1]


def _is_whole(row: TableRow) -> bool:
    """Whether it is what was written; true without a checksum, which older ones do not have."""
    try:
        query = json.loads(row["query"])
        return query.get(CHECKSUM) in (None, _checksum(row, query))
    except (AttributeError, KeyError, TypeError, ValueError):
        return False


def _judgement(row: TableRow) -> Judgement:
    query = json.loads(row["query"])
    seen = None if row["kind"] not in SIDE_OF else (cast(Kind, row["kind"]), int(row["ordinal"]))
    parts = tuple(FeedbackQueryPart(**part) for part in query["parts"])
    same = {name: row[name] for name in SAME_COLUMNS}
    return Judgement(**same, target=query["target"], query=parts, seen=seen)
