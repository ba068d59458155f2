"""The tables of the store, the same on every database. Only features are stored; vectors are derived."""

from multifold.errors import needs_extra

with needs_extra("serve"):
    from sqlalchemy import (
        BigInteger,
        Column,
        Double,
        ForeignKey,
        Index,
        Integer,
        LargeBinary,
        MetaData,
        String,
        Table,
        Text,
    )
    from sqlalchemy.types import TypeEngine

VERSION = 5
LONGEST_ID = 512
LONGEST_KEY = 255
LONGEST_TEXT = 256  # characters of a stored text
LONGEST_WHO = 128

tables = MetaData()
Number = BigInteger().with_variant(
    Integer(), "sqlite"
)  # SQLite keeps rows in the order of an INTEGER key alone


def ordered(length: int) -> TypeEngine[str]:
    """Text that every database orders by code points."""
    return String(length).with_variant(String(length, collation="C"), "postgresql")


meta = Table(
    "meta",
    tables,
    Column("key", String(64), primary_key=True),  # schema, vector_id, feature_length, session, words
    Column("value", Text, nullable=False),
)

clock = Table(
    "clock",
    tables,
    Column("last", Number, primary_key=True, autoincrement=False),  # one row: the last sequence number given
)

items = Table(
    "items",
    tables,
    Column("edition", Number, primary_key=True, autoincrement=False),  # the change that wrote it
    Column("id", ordered(LONGEST_ID), nullable=False, unique=True),
    Column("generation", Integer, nullable=False),
    Column("size", Integer, nullable=False),  # observations
    Column("payload", Text, nullable=False),  # JSON
    Column("files", Text),  # JSON: keys of originals
)

observations = Table(
    "observations",
    tables,
    Column("row", Number, primary_key=True, autoincrement=False),  # see item_rows.py
    Column("edition", Number, ForeignKey("items.edition", ondelete="CASCADE"), nullable=False, index=True),
    Column("side", String(8), nullable=False),
    Column("kind", String(8), nullable=False),
    Column("ordinal", Integer, nullable=False),  # its place among the item's observations of this kind
    Column("feature", LargeBinary, nullable=False),  # little-endian float32
    Column("text", Text),
    Column("blob", String(96)),
)

facts = Table(  # what items are filtered by (see item_rows.py)
    "facts",
    tables,
    Column("edition", Number, ForeignKey("items.edition", ondelete="CASCADE"), nullable=False, index=True),
    Column("key", ordered(LONGEST_KEY), nullable=False),
    Column("kind", String(8), nullable=False),
    Column("text", ordered(LONGEST_TEXT)),
    Column("number", Double),
)
Index("facts_by_text", facts.c.key, facts.c.text, facts.c.edition)
numbered = facts.c.number.is_not(None)
Index(
    "facts_by_number",
    facts.c.key,
    facts.c.kind,
    facts.c.number,
    facts.c.edition,
    sqlite_where=numbered,
    postgresql_where=numbered,
)

changes = Table(
    "changes",
    tables,
    Column("sequence", Number, primary_key=True, autoincrement=False),
    Column("action", String(8), nullable=False),  # upsert, delete
    Column("item", String(LONGEST_ID), nullable=False),
    Column("replaced", Number),  # the edition that this change ended
    Column("replaced_size", Integer),
)

feedback = Table(  # what people said of hits (see feedback.py)
    "feedback",
    tables,
    Column("id", String(32), primary_key=True),  # of its query, item and author
    Column("given", Double, nullable=False),  # seconds since 1970
    Column("item", ordered(LONGEST_ID), nullable=False, index=True),
    Column("verdict", String(8), nullable=False),  # good, bad
    Column("author", String(LONGEST_WHO)),
    Column("kind", String(8)),  # of the observation that was shown, with its place
    Column("ordinal", Integer),
    Column("query", Text, nullable=False),  # JSON: what was asked with, as far as it is kept
)
