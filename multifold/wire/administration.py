"""Collections, aliases, bundles, snapshots and jobs: what is asked, and what is answered."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from multifold.types import Device, Distance, FolderState, JobState, Kind, Memory
from multifold.wire.messages import Answer, Body, BodyError, described
from multifold.wire.search import MAX_COLLECTIONS


class IndexBody(Body, example={"type": "auto", "recall": 0.95}):
    """The index that a collection asks for."""

    type: str = described(
        "auto, exact, milvus or milvus,TYPE, or a FAISS factory string",
        default="auto",
        max_length=64,
    )
    device: Device = described("where it is built and searched", default="auto")
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


class AliasBody(Body, one_of=("collection", "collections"), example={"collection": "shoes-2"}):
    """What an alias stands for: a collection, or several for searches."""

    collection: str | None = described("its name; no other alias", default=None)
    collections: Sequence[str] | None = described(
        "names of several, or of collections elsewhere that the service knows; searches ask them together",
        default=None,
        min_length=1,
        max_length=MAX_COLLECTIONS,
    )


class IndexSettings(Answer):
    """The index that a collection asks for."""

    type: str = described("auto, exact, milvus or milvus,TYPE, or a FAISS factory string")
    device: str = described("cpu, gpu or auto: a GPU if there is one")
    recall: float = described("target, measured when the index is built")
    memory: str = described("auto, resident, or codes: vectors are read from files")


class CollectionStatus(Answer, kw_only=True):
    """A collection; without counts where it is not served, for the reason in `trouble`."""

    name: str = described("its own name, under which it is stored")
    aliases: tuple[str, ...] = described("names that stand for it now")
    vector_id: str = described("of the encoder that its vectors are made by")
    bundle: str | None = described("null where no bundle here makes its vectors")
    items: int | None = described("how many there are")
    observations: dict[Kind, int] | None = described("how many there are of each kind")
    version: int | None = described("number of its last change")
    index: IndexSettings | None = described("what it asks for; null where it chooses itself")
    trouble: str | None = described("why it is not served")


class CollectionsAnswer(Answer):
    """All collections, the main one first."""

    collections: tuple[CollectionStatus, ...] = described("each with its counts")


class NameRemoval(Answer):
    """The collection or alias that was removed."""

    removed: str = described("its name")


class AliasesAnswer(Answer):
    """The collection of each alias, and the collections of those that name several."""

    aliases: dict[str, str] = described("collections by alias")
    several: dict[str, tuple[str, ...]] = described("by alias, where it names several", default_factory=dict)


class AliasAnswer(Answer):
    """What an alias stands for now, and stood for before."""

    alias: str = described("the name that was moved")
    collection: str | None = described("what it stands for now; null where these are several")
    former: str | None = described("what it stood for before; null where it was free, or named several")
    collections: tuple[str, ...] = described("all that it stands for now", default=())


class BundleStatus(Answer, kw_only=True):
    """A bundle at hand."""

    folder: str = described("name of its folder")
    name: str | None = described("its own name, which collections are made with")
    about: str | None = described("what it encodes, in a sentence")
    vector_id: str | None = described("a hash of what its vectors depend on: collections belong to it")
    bundle_id: str | None = described("a hash of all its files")
    collections: tuple[str, ...] = described("those that it serves now")
    trouble: str | None = described("why it cannot be used")


class BundlesAnswer(Answer):
    """The bundles at hand, the service's own first."""

    bundles: tuple[BundleStatus, ...] = described("each with what uses it")


class BundleReload(Answer):
    """A bundle in use after it was read again."""

    name: str = described("its own name")
    vector_id: str = described("a hash of what its vectors depend on; as before")
    bundle_id: str = described("a hash of all its files as they are now")
    former: str = described("its bundle_id before; the same where nothing changed")


class BundleReloadAnswer(Answer):
    """The bundles in use."""

    bundles: tuple[BundleReload, ...] = described("each with what it was before")


class RestoreBody(Body, example={"to": "shoes-of-may"}):
    """Where a snapshot is restored."""

    to: str = described("the new collection: lower-case letters, digits, - and _; at most 40")


class SnapshotFile(Answer):
    """One file that holds the whole collection as it was."""

    name: str = described("of the file, by which it is downloaded, restored and removed")
    bytes: int = described("its size")


class SnapshotAnswer(SnapshotFile):
    """A snapshot that was just taken."""

    version: int = described("number of the last change that is in it")
    items: int = described("how many are in it")
    absent: tuple[str, ...] = described("keys of pictures that could not be read, and are not in it")


class SnapshotsAnswer(Answer):
    """The snapshots that are here, oldest first."""

    snapshots: tuple[SnapshotFile, ...] = described("each with its size")


class JobStatus(Answer, kw_only=True):
    """One job as it stands."""

    id: str = described("by which it is asked for and cancelled")
    kind: str = described("what it does: ingest, rebuild, reindex or restore")
    collection: str = described("what it works on")
    state: JobState = described(
        "queued and running change by themselves; done, failed and cancelled are final"
    )
    done: int = described("steps that are behind it")
    total: int = described("steps in all; 0 where that is not known yet")
    errors: tuple[str, ...] = described("the first of what went wrong; `result` says how often in all")
    result: dict[str, Any] = described("what it has done, by its kind: counts and names")
    created: datetime = described("when it was asked for, in UTC")
    ended: datetime | None = described("when it ended, in UTC; null before")


class JobsAnswer(Answer):
    """All jobs that are known, the youngest first."""

    jobs: tuple[JobStatus, ...] = described("each as it stands")


class JobAnswer(Answer):
    """The job that does what was asked."""

    job: JobStatus = described("as it stands")


class FolderStatus(Answer, kw_only=True):
    """The folder that the service follows, and how far it is."""

    name: str = described("of the folder, without what is above it")
    state: FolderState = described(
        "naming: new items get names and captions; comparing: files are read; encoding: pictures, views and "
        "vectors follow; watching: all is done; waiting: it is tried again, for the reason in `trouble`"
    )
    done: int = described("items of this step that are done")
    total: int = described("items of this step; 0 where that is not known")
    refused: int = described("files that could not be taken in")
    captioned: int = described("items with captions of their own, from which an encoder can learn", default=0)
    trouble: str | None = described("why it waits; null while it works", default=None)


class RefusedFile(Answer):
    """A file or an item of the folder, and what is wrong with it."""

    name: str = described("its path in the folder, or the id of the item")
    reason: str = described("what is wrong, in a sentence")


class FolderAnswer(Answer, kw_only=True):
    """The folder, with what was left out of it."""

    folder: FolderStatus | None = described("null where no folder is followed into this collection")
    refused: tuple[RefusedFile, ...] = described("at most 1,000")
    notes: tuple[RefusedFile, ...] = described("what was lost of items that are in; at most 1,000")
