"""The clock, the log of every change, and what has happened since a version.

The clock gives each change a rising number inside its own transaction, and stays locked until that commits:
changes become visible in the order of their numbers, with no gap that could be filled later.
"""

from collections.abc import Collection, Iterator
from typing import Literal, TypeAlias

from index.store import item_rows, metadata
from index.store.item_rows import FeatureBatch, TableRow, first_row
from index.store.schema import changes, clock, items, observations
from multifold.errors import needs_extra

with needs_extra("serve"):
    from sqlalchemy import Connection, delete, insert, select, update


Action: TypeAlias = Literal["upsert", "delete"]
PRUNED = "pruned"  # the last change that the log no longer tells of


def last_change(connection: Connection) -> int:
    """The number of the last change."""
    return connection.scalar(select(clock.c.last)) or 0


def log_changes(
    connection: Connection, action: Action, entries: Collection[tuple[str, TableRow | None]]
) -> int:
    """Give each change of an item a number, and note the edition it ended; returns the first number."""
    ticked = update(clock).values(last=clock.c.last + len(entries)).returning(clock.c.last)
    first = int(connection.execute(ticked).scalar_one()) - len(entries) + 1
    lines = [
        {
            "sequence": sequence,
            "action": action,
            "item": item,
            "replaced": former["edition"] if former else None,
            "replaced_size": former["size"] if former else None,
        }
        for sequence, (item, former) in enumerate(entries, first)
    ]
    connection.execute(insert(changes), lines)
    return first


def changed_items(connection: Connection, since: int) -> list[str] | None:
    """The items that were written or deleted after a version; None if the log does not reach back so far."""
    if since < pruned_until(connection):
        return None
    ids = select(changes.c.item).where(changes.c.sequence > since).distinct()
    return sorted(connection.scalars(ids))


def prune_log(connection: Connection, kept: int) -> int:
    """Forget all changes but the last `kept`; returns how many were forgotten."""
    end = last_change(connection) - kept
    if end <= pruned_until(connection):
        return 0
    forgotten = connection.execute(delete(changes).where(changes.c.sequence <= end)).rowcount
    metadata.write_note(connection, PRUNED, str(end))
    return forgotten


def pruned_until(connection: Connection) -> int:
    """The last change that the log no longer tells of: who stands before it cannot catch up, and rebuilds."""
    return int(metadata.read_note(connection, PRUNED) or 0)


class ChangesSince:
    """What has happened after a version: editions that ended, and features of editions that are new."""

    def __init__(self, connection: Connection, since: int, batch: int) -> None:
        self._connection = connection
        self._since = since
        self._batch = batch
        self.version: int = last_change(connection)

    def ended(self, until: int | None = None) -> list[tuple[int, int]]:
        """Editions that were replaced or deleted until then, and how many observations they had."""
        query = select(changes.c.replaced, changes.c.replaced_size)
        query = query.where(changes.c.sequence > self._since, changes.c.replaced.is_not(None))
        query = query if until is None else query.where(changes.c.sequence <= until)
        return [(edition, size) for edition, size in self._connection.execute(query)]

    def batches(self) -> Iterator[FeatureBatch]:
        """Features of the new editions in order, whole editions at a time."""
        columns = observations.c.row, observations.c.side, observations.c.feature
        for first, last in self._spans():
            query = select(*columns).where(
                observations.c.row.between(first_row(first), first_row(last + 1) - 1)
            )
            yield item_rows.batch_from_rows(
                self._connection.execute(query.order_by(observations.c.row)).all()
            )

    def _spans(self) -> Iterator[tuple[int, int]]:
        """First and last edition of each batch."""
        query = (
            select(items.c.edition, items.c.size)
            .where(items.c.edition > self._since)
            .order_by(items.c.edition)
        )
        first, total = None, 0
        for edition, size in self._connection.execute(query).all():
            first, total = edition if first is None else first, total + size
            if total >= self._batch:
                yield first, edition
                first, total = None, 0
        if first is not None:
            yield first, edition
