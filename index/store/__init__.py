"""The store of a collection: items, filters, change log, words, feedback, blobs; SQLite or PostgreSQL."""
