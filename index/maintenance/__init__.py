"""Statistics, checks, compaction, snapshots and restores of a collection."""
