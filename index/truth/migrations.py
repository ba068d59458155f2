"""From the schema of an older version to this one's, a step a version, inside one transaction."""

from collections.abc import Callable, Mapping

from index.truth import candidates
from index.truth.schema import VERSION, facts, feedback, items, meta
from multifold.errors import needs_extra

with needs_extra("serve"):
    from sqlalchemy import Connection, inspect, select, update

SCHEMA = "schema"


def _facts(connection: Connection) -> None:
    """2: payloads can be filtered by."""
    facts.create(connection)
    candidates.write_all(connection)


def _words(_: Connection) -> None:
    """3: items are found by words; their index is built where it is missing, see lexical.py."""


def _files(connection: Connection) -> None:
    """4: originals are kept, so that another encoder can see them."""
    if "files" not in [column["name"] for column in inspect(connection).get_columns(items.name)]:
        connection.exec_driver_sql("ALTER TABLE items ADD COLUMN files TEXT")


def _feedback(connection: Connection) -> None:
    """5: what people said of hits."""
    feedback.create(connection, checkfirst=True)


STEPS: Mapping[int, Callable[[Connection], None]] = {
    1: _facts,
    2: _words,
    3: _files,
    4: _feedback,
}  # from that version to the next


def migrate(connection: Connection) -> None:
    """Bring an older store up to date; an unknown version is left as it is."""
    found = connection.scalar(select(meta.c.value).where(meta.c.key == SCHEMA))
    version = int(found) if found is not None and found.isdigit() else VERSION
    if not min(STEPS) <= version < VERSION:
        return
    for step in range(version, VERSION):
        STEPS[step](connection)
    connection.execute(update(meta).where(meta.c.key == SCHEMA).values(value=str(VERSION)))
