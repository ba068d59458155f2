"""What a service says of itself: encoder, collection, limits, health."""

from typing import Literal

from multifold.types import ConfidenceBasis, Kind, Leg, Memory, Side
from multifold.wire.administration import FolderStatus
from multifold.wire.messages import Answer, described


class BundleSummary(Answer, kw_only=True):
    """The encoder at work."""

    name: str = described("its own name")
    about: str = described("what it encodes, in a sentence")
    bundle_id: str = described("a hash of all its files")
    vector_id: str = described("a hash of what its vectors depend on")
    geometry: str = described("how two embeddings are compared, such as sphere or lorentz")
    feature_dim: int = described("numbers of a feature, as `vectors` of an item have it")
    dim: int = described("numbers of an index vector")
    metric: str = described("of index vectors: ip or l2")
    rig: str = described("the cameras that meshes are drawn by")
    views: int = described("pictures of a mesh")
    provider: str = described("what runs it: ONNX Runtime on a CPU or GPU")
    calibrated: tuple[str, ...] = described("sides of queries whose evidence was fitted")
    calibrated_by: ConfidenceBasis | None = described(
        "'collection': questions of its own items; else 'prior'"
    )
    calibrated_on: int = described("items of the collection, where that is what it was fitted on")


class LegSummary(Answer, kw_only=True):
    """What a leg of a search is worth."""

    recall_alone: float = described("of the first hit, on held-out items")
    recall_without: float = described("of the first hit, by all other legs")


class EvidenceSummary(Answer, kw_only=True):
    """How the evidence for an item is weighted, for queries of one side."""

    weights: dict[str, float] = described("of each leg")
    wordless_weights: dict[str, float] = described("for queries whose words no item has")
    queries: int = described("that it was fitted on; 0: it holds without a fit")
    judgements: int = described("of people, that are among these")
    recall: dict[str, float] = described("expected of the first 1 and 10")
    legs: dict[Leg, LegSummary] = described("what each is worth, where that was measured")


class MemorySummary(Answer, kw_only=True):
    """What the sealed rows of all indexes take, and what was read of those that are in files."""

    wanted: Memory = described("by the collection, or else by the setting index_memory")
    bytes_per_row: float = described("in memory, on average; 0 without sealed rows")
    bytes: int = described("in memory")
    file_bytes: int = described("of vectors that are read from files")
    rows_per_read: float = described("read from files for one query or block of rows, on average")
    disk_bytes: int = described("that the disk gave for them since the start")
    waiting: float = described("share of late reads that waited for the disk: 1 on a cold start")


class CollectionSummary(Answer, kw_only=True):
    """What is searched."""

    items: int = described("how many there are")
    observations: dict[Kind, int] = described("how many there are of each kind")
    version: int = described("number of its last change")
    behind: float = described("seconds for which searches have lacked what is stored; on a cluster")
    rows: int = described("vectors in all indexes")
    sealed_rows: int = described("those with an index that is built; each other one is compared")
    reading: float | None = described("share of the items whose texts are read, while all are read anew")
    photos_to_read: int | None = described("items whose photos are still to be read, if any are")
    memory: MemorySummary = described("what the indexes take")
    evidence: dict[Side, EvidenceSummary] = described("of the target 'item', by the side of the query")


class LimitsSummary(Answer, kw_only=True):
    """What is refused beyond."""

    body_bytes: int = described("of a request")
    text_characters: int = described("of a text")
    text_tokens: int = described("of a text that are read; the rest of it is cut off")
    files: int = described("of a form")
    pixels: int = described("of a picture")
    faces: int = described("of a mesh")
    page: int = described("items of a page")
    hits: int = described("of an answer")
    offset: int = described("hits that can be skipped")
    facet_hits: int = described("hits whose values are counted")
    mix: int = described("parts of a mixed query")
    batch: int = described("searches or inputs of one request")
    batch_items: int = described("that one request writes")
    batch_hits: int = described("of all searches of one request")
    waiting: int = described("requests of one client that wait for the same thing")
    seconds: float = described("until a request is given up")
    render_seconds: float = described("until a mesh is given up")


class InfoAnswer(Answer, kw_only=True):
    """What runs here."""

    version: str = described("of Multifold")
    bundle: BundleSummary = described("the encoder of the collection")
    collection: CollectionSummary = described("what is searched")
    limits: LimitsSummary = described("what is refused beyond")
    keys: bool = described("whether some requests need a key")
    feedback: bool = described("whether hits can be judged")
    fetches: bool = described("whether files of items may be named by their addresses")
    in_place: bool = described("whether it copies no upload that a file of its folders holds")
    folder: FolderStatus | None = described("the folder that is followed into this collection")


class HealthAnswer(Answer):
    """Alive, or ready; `store_away`: this process is well, and what it shares with others is not."""

    status: Literal["ok", "store_away"] = described("ok: all is well")
