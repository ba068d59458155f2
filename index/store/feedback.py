"""What people said of hits: an item is good or bad for a query, in the words and pictures it was asked with.

There is one verdict for each query, item and author; a newer one replaces it. No index is made of verdicts,
so they are not in the log of changes. They stay when their item is deleted.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from index.store.browse import MAX_PAGE, check_page
from index.store.filters import UNSTORABLE, is_storable
from index.store.schema import LONGEST_WHO, TableRow, feedback
from multifold.errors import MultifoldError, needs_extra
from multifold.types import Kind, QueryMeans, Side, Target, Verdict

with needs_extra("serve"):
    from sqlalchemy import Connection, delete, func, insert, select

ID = re.compile(r"[0-9a-f]{32}")
MAX_JUDGEMENTS = 100_000  # verdicts of one collection
BLOB = "blob"
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

    @property
    def kept(self) -> bool:
        """Whether its content is here."""
        return (self.text or self.blob or self.id) is not None


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
    """One verdict."""
    if not ID.fullmatch(name):  # no database gets what cannot be an id
        return None
    row = connection.execute(select(feedback).where(feedback.c.id == name)).mappings().first()
    return None if row is None else _judgement(row)


def page_of_judgements(
    connection: Connection, after: str | None, limit: int, chosen: FeedbackFilter
) -> list[Judgement]:
    """Verdicts in the order of their ids, from behind the one named."""
    check_page(after, limit)
    wanted = select(feedback).order_by(feedback.c.id).limit(limit)
    if after is not None:
        wanted = wanted.where(feedback.c.id > after)
    for name in ("item", "verdict"):
        if (value := getattr(chosen, name)) is not None:
            wanted = wanted.where(feedback.c[name] == value)
    return [_judgement(row) for row in connection.execute(wanted).mappings()]


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
    named = connection.scalars(select(feedback.c.query).where(feedback.c.query.contains(f'"{BLOB}"')))
    for query in named:
        yield from (part[BLOB] for part in json.loads(query)["parts"] if BLOB in part)


def _check(judgement: Judgement) -> None:
    author = judgement.author
    if author is not None and not (0 < len(author) <= LONGEST_WHO and is_storable(author)):
        raise FeedbackError(f"the name of who judges needs 1 to {LONGEST_WHO} characters that can be stored")
    if not all(is_storable(part.text or "") and is_storable(part.id or "") for part in judgement.query):
        raise FeedbackError(f"the query {UNSTORABLE}")


def _row(judgement: Judgement) -> dict[str, Any]:
    every = (vars(part).items() for part in judgement.query)
    parts = [{name: value for name, value in part if value is not None} for part in every]
    kind, ordinal = judgement.seen or (None, None)
    same = {name: getattr(judgement, name) for name in SAME_COLUMNS}
    query = json.dumps({"target": judgement.target, "parts": parts})
    return same | {"kind": kind, "ordinal": ordinal, "query": query}


def _judgement(row: TableRow) -> Judgement:
    query = json.loads(row["query"])
    seen = None if row["kind"] is None else (cast(Kind, row["kind"]), int(row["ordinal"]))
    parts = tuple(FeedbackQueryPart(**part) for part in query["parts"])
    same = {name: row[name] for name in SAME_COLUMNS}
    return Judgement(**same, target=query["target"], query=parts, seen=seen)
