"""Answers about collections, aliases, bundles, snapshots and jobs."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from multifold.types import JobState, Kind


@dataclass(frozen=True)
class IndexSettings:
    """The index that a collection asks for."""

    type: str = field(metadata={"description": "auto, exact, or a FAISS factory string"})
    device: str
    recall: float = field(metadata={"description": "target, measured when the index is built"})


@dataclass(frozen=True, kw_only=True)
class CollectionStatus:
    """A collection; without counts where it is not served, for the reason in `trouble`."""

    name: str
    aliases: tuple[str, ...]
    vector_id: str
    bundle: str | None = field(metadata={"description": "null where no bundle here makes its vectors"})
    items: int | None
    observations: dict[Kind, int] | None
    version: int | None
    index: IndexSettings | None
    trouble: str | None = field(metadata={"description": "why it is not served"})


@dataclass(frozen=True)
class CollectionsAnswer:
    """All collections, the main one first."""

    collections: tuple[CollectionStatus, ...]


@dataclass(frozen=True)
class NameRemoval:
    """The collection or alias that was removed."""

    removed: str


@dataclass(frozen=True)
class AliasesAnswer:
    """The collection of each alias."""

    aliases: dict[str, str]


@dataclass(frozen=True)
class AliasAnswer:
    """What an alias stands for now, and stood for before."""

    alias: str
    collection: str
    former: str | None


@dataclass(frozen=True, kw_only=True)
class BundleStatus:
    """A bundle at hand."""

    folder: str
    name: str | None
    about: str | None
    vector_id: str | None
    bundle_id: str | None
    collections: tuple[str, ...] = field(metadata={"description": "those that it serves now"})
    trouble: str | None = field(metadata={"description": "why it cannot be used"})


@dataclass(frozen=True)
class BundlesAnswer:
    """The bundles at hand, the service's own first."""

    bundles: tuple[BundleStatus, ...]


@dataclass(frozen=True)
class BundleReload:
    """A bundle in use after it was read again."""

    name: str
    vector_id: str
    bundle_id: str
    former: str = field(metadata={"description": "its bundle_id before; the same where nothing changed"})


@dataclass(frozen=True)
class BundleReloadAnswer:
    """The bundles in use."""

    bundles: tuple[BundleReload, ...]


@dataclass(frozen=True)
class SnapshotFile:
    """One file that holds the whole collection as it was."""

    name: str
    bytes: int


@dataclass(frozen=True)
class SnapshotAnswer(SnapshotFile):
    """A snapshot that was just taken."""

    version: int
    items: int
    absent: tuple[str, ...]


@dataclass(frozen=True)
class SnapshotsAnswer:
    """The snapshots that are here, oldest first."""

    snapshots: tuple[SnapshotFile, ...]


@dataclass(frozen=True, kw_only=True)
class JobStatus:
    """One job as it stands."""

    id: str
    kind: str
    collection: str
    state: JobState
    done: int
    total: int
    errors: tuple[str, ...] = field(
        metadata={"description": "the first of what went wrong; `result` says how often in all"}
    )
    result: dict[str, Any]
    created: datetime
    ended: datetime | None


@dataclass(frozen=True)
class JobsAnswer:
    """All jobs that are known, the youngest first."""

    jobs: tuple[JobStatus, ...]


@dataclass(frozen=True)
class JobAnswer:
    """The job that does what was asked."""

    job: JobStatus
