"""The tables of the store, the same on every database. Only features are stored; vectors are derived."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.types import TypeEngine

from multifold.types import LONGEST_AUTHOR, LONGEST_KEY

TableRow: TypeAlias = Mapping[Any, Any]  # a row of a table, by column
VERSION = 6
EDITION = "items.edition"
LONGEST_ID = 512
LONGEST_TEXT = 256  # characters of a stored text

tables = sa.MetaData()
Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # SQLite orders rows by an INTEGER key alone


def ordered(length: int) -> TypeEngine[str]:
    """Text that every database orders by code points."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


meta = sa.Table(
    "meta",
    tables,
    sa.Column("key", sa.String(64), primary_key=True),  # schema, vector_id, collection, session, …
    sa.Column("value", sa.Text, nullable=False),
)

clock = sa.Table(
    "clock",
    tables,
    sa.Column("last", Number, primary_key=True, autoincrement=False),  # one row: the last number given
)

items = sa.Table(
    "items",
    tables,
    sa.Column("edition", Number, primary_key=True, autoincrement=False),  # the change that wrote it
    sa.Column("id", ordered(LONGEST_ID), nullable=False, unique=True),
    sa.Column("generation", sa.Integer, nullable=False),  # how many editions the item has had
    sa.Column("size", sa.Integer, nullable=False),  # observations
    sa.Column("payload", sa.Text, nullable=False),  # JSON
    sa.Column("files", sa.Text),  # JSON: keys of originals, or those and notes about them
    sa.Column("row_checksum", Number, nullable=False),  # see checksums.py
)

observations = sa.Table(
    "observations",
    tables,
    sa.Column("row", Number, primary_key=True, autoincrement=False),  # see item_rows.py
    sa.Column("edition", Number, sa.ForeignKey(EDITION, ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("side", sa.String(8), nullable=False),
    sa.Column("kind", sa.String(8), nullable=False),
    sa.Column("ordinal", sa.Integer, nullable=False),  # its place among the item's observations of this kind
    sa.Column("feature", sa.LargeBinary, nullable=False),  # little-endian float32
    sa.Column("text", sa.Text),
    sa.Column("blob", sa.String(96)),
    sa.Column("feature_checksum", Number, nullable=False),  # see checksums.py
    sa.Column("row_checksum", Number, nullable=False),  # of all but the feature
)

facts = sa.Table(  # what items are filtered by (see item_rows.py)
    "facts",
    tables,
    sa.Column("edition", Number, sa.ForeignKey(EDITION, ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("key", ordered(LONGEST_KEY), nullable=False),
    sa.Column("kind", sa.String(8), nullable=False),
    sa.Column("text", ordered(LONGEST_TEXT)),
    sa.Column("number", sa.Double),
)
sa.Index("facts_by_text", facts.c.key, facts.c.text, facts.c.edition)
numbered = facts.c.number.is_not(None)
by_number = facts.c.key, facts.c.kind, facts.c.number, facts.c.edition
sa.Index("facts_by_number", *by_number, sqlite_where=numbered, postgresql_where=numbered)

changes = sa.Table(
    "changes",
    tables,
    sa.Column("sequence", Number, primary_key=True, autoincrement=False),
    sa.Column("action", sa.String(8), nullable=False),  # upsert, delete
    sa.Column("item", sa.String(LONGEST_ID), nullable=False),
    sa.Column("replaced", Number),  # the edition that this change ended
    sa.Column("replaced_size", sa.Integer),
)

feedback = sa.Table(  # what people said of hits (see feedback.py)
    "feedback",
    tables,
    sa.Column("id", sa.String(32), primary_key=True),  # of its query, item and author
    sa.Column("given", sa.Double, nullable=False),  # seconds since 1970
    sa.Column("item", ordered(LONGEST_ID), nullable=False, index=True),
    sa.Column("verdict", sa.String(8), nullable=False),  # good, bad
    sa.Column("author", sa.String(LONGEST_AUTHOR)),
    sa.Column("kind", sa.String(8)),  # of the observation that was shown, with its place
    sa.Column("ordinal", sa.Integer),
    sa.Column("query", sa.Text, nullable=False),  # JSON: what was asked with, as far as it is kept
)
