"""Snapshots of the collection."""

from multifold.errors import needs_extra

with needs_extra("serve"):
    from pydantic import BaseModel


class Snapshot(BaseModel):
    """One file that holds the whole collection as it was."""

    name: str
    bytes: int


class SnapshotTaken(Snapshot):
    """A snapshot that was just taken."""

    version: int
    items: int
    absent: list[str]


class Snapshots(BaseModel):
    """The snapshots that are here, oldest first."""

    snapshots: list[Snapshot]
