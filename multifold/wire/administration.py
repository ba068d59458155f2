"""Collections, aliases, bundles, snapshots and jobs: what is asked, and what is answered."""

from datetime import datetime
from typing import Any

from multifold.types import Device, Distance, FolderState, JobState, Kind, Memory
from multifold.wire.messages import Answer, Body, BodyError, described


class IndexBody(Body, example={"type": "auto", "recall": 0.95}):
    """The index that a collection asks for."""

    type: str = described(
        "auto, exact, milvus or milvus,TYPE, or a FAISS factory string",
        default="auto",
        max_length=64,
    )
    device: Device = "auto"
    recall: float = described("target, measured when the index is built", default=0.99, gt=0, le=1)
    memory: Memory = described("all of it (resident), or codes with vectors in files", default="auto")


class VectorsBody(Body, example={"dim": 512, "distance": "cosine"}):
    """How the vectors of a collection are compared that has no encoder."""

    dim: int = described("numbers of each vector", ge=1, lt=1_000_000)
    distance: Distance = described("cosine, ip (inner product) or l2", default="cosine")


class CollectionBody(Body, example={"name": "shoes"}):
    """A collection to be made."""

    name: str = described("lower-case letters, digits, - and _; at most 40")
    bundle: str | None = described("a bundle at hand, by its name; else the service's own", default=None)
    index: IndexBody | None = described("the index that it asks for; else it chooses itself", default=None)
    vectors: VectorsBody | None = described(
        "no encoder: items and queries bring vectors like this", default=None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bundle is not None and self.vectors is not None:
            raise BodyError("bad_request", "a collection has a 'bundle', or 'vectors' without an encoder")


class RebuildBody(Body, example={"to": "shoes-2", "bundle": "siglip2-b16-small", "alias": "default"}):
    """A collection to be rebuilt in another."""

    to: str = described("the other collection; it is made if it is not there")
    bundle: str | None = described("the bundle of a new one, by name; else the service's own", default=None)
    index: IndexBody | None = described("the index that a new one asks for", default=None)
    alias: str | None = described("an alias that moves there in the end, such as default", default=None)
    partial: bool = described("whether items that cannot be rebuilt may be missing", default=False)
    since: int | None = described(
        "only what was written after this version: to take a move back, its job's `moved_at`",
        default=None,
        ge=0,
    )


class AliasBody(Body, example={"collection": "shoes-2"}):
    """What an alias stands for."""

    collection: str


class IndexSettings(Answer):
    """The index that a collection asks for."""

    type: str = described("auto, exact, milvus or milvus,TYPE, or a FAISS factory string")
    device: str
    recall: float = described("target, measured when the index is built")
    memory: str = described("auto, resident, or codes: vectors are read from files")


class CollectionStatus(Answer, kw_only=True):
    """A collection; without counts where it is not served, for the reason in `trouble`."""

    name: str
    aliases: tuple[str, ...]
    vector_id: str
    bundle: str | None = described("null where no bundle here makes its vectors")
    items: int | None
    observations: dict[Kind, int] | None
    version: int | None
    index: IndexSettings | None
    trouble: str | None = described("why it is not served")


class CollectionsAnswer(Answer):
    """All collections, the main one first."""

    collections: tuple[CollectionStatus, ...]


class NameRemoval(Answer):
    """The collection or alias that was removed."""

    removed: str


class AliasesAnswer(Answer):
    """The collection of each alias."""

    aliases: dict[str, str]


class AliasAnswer(Answer):
    """What an alias stands for now, and stood for before."""

    alias: str
    collection: str
    former: str | None


class BundleStatus(Answer, kw_only=True):
    """A bundle at hand."""

    folder: str
    name: str | None
    about: str | None
    vector_id: str | None
    bundle_id: str | None
    collections: tuple[str, ...] = described("those that it serves now")
    trouble: str | None = described("why it cannot be used")


class BundlesAnswer(Answer):
    """The bundles at hand, the service's own first."""

    bundles: tuple[BundleStatus, ...]


class BundleReload(Answer):
    """A bundle in use after it was read again."""

    name: str
    vector_id: str
    bundle_id: str
    former: str = described("its bundle_id before; the same where nothing changed")


class BundleReloadAnswer(Answer):
    """The bundles in use."""

    bundles: tuple[BundleReload, ...]


class RestoreBody(Body, example={"to": "shoes-of-may"}):
    """Where a snapshot is restored."""

    to: str = described("the new collection: lower-case letters, digits, - and _; at most 40")


class SnapshotFile(Answer):
    """One file that holds the whole collection as it was."""

    name: str
    bytes: int


class SnapshotAnswer(SnapshotFile):
    """A snapshot that was just taken."""

    version: int
    items: int
    absent: tuple[str, ...]


class SnapshotsAnswer(Answer):
    """The snapshots that are here, oldest first."""

    snapshots: tuple[SnapshotFile, ...]


class JobStatus(Answer, kw_only=True):
    """One job as it stands."""

    id: str
    kind: str
    collection: str
    state: JobState
    done: int
    total: int
    errors: tuple[str, ...] = described("the first of what went wrong; `result` says how often in all")
    result: dict[str, Any]
    created: datetime
    ended: datetime | None


class JobsAnswer(Answer):
    """All jobs that are known, the youngest first."""

    jobs: tuple[JobStatus, ...]


class JobAnswer(Answer):
    """The job that does what was asked."""

    job: JobStatus


class FolderStatus(Answer, kw_only=True):
    """The folder that the service follows, and how far it is."""

    name: str
    state: FolderState = described(
        "naming: new items get names and captions; comparing: files are read; encoding: pictures, views and "
        "vectors follow; watching: all is done; waiting: it is tried again, for the reason in `trouble`"
    )
    done: int = described("items of this step that are done")
    total: int = described("items of this step; 0 where that is not known")
    refused: int = described("files that could not be taken in")
    trouble: str | None = None


class RefusedFile(Answer):
    """A file or an item of the folder, and what is wrong with it."""

    name: str
    reason: str


class FolderAnswer(Answer, kw_only=True):
    """The folder, with what was left out of it."""

    folder: FolderStatus | None = described("null where no folder is followed into this collection")
    refused: tuple[RefusedFile, ...] = described("at most 1,000")
    notes: tuple[RefusedFile, ...] = described("what was lost of items that are in; at most 1,000")
