"""The store of a collection: items, filters, change log, words, feedback, blobs; SQLite or PostgreSQL."""

from multifold.errors import needs_extra

with needs_extra("serve"):
    import sqlalchemy  # noqa: F401 (every module of this package needs it)
