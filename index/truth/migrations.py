"""From the schema of an older version to this one's, a step a version, inside one transaction."""

from collections.abc import Callable

from index.truth.schema import VERSION, meta
from multifold.errors import needs_extra

with needs_extra("serve"):
    from sqlalchemy import Connection, select, update

SCHEMA = "schema"

# From that version to the next. Version 5 is the first that is released: nothing older is brought up to date.
STEPS: dict[int, Callable[[Connection], None]] = {}


def migrate(connection: Connection) -> None:
    """Bring an older store up to date; a version that no steps lead from is left as it is."""
    found = connection.scalar(select(meta.c.value).where(meta.c.key == SCHEMA))
    version = int(found) if found is not None and found.isdigit() else VERSION
    if version >= VERSION or not all(step in STEPS for step in range(version, VERSION)):
        return
    for step in range(version, VERSION):
        STEPS[step](connection)
    connection.execute(update(meta).where(meta.c.key == SCHEMA).values(value=str(VERSION)))
