"""What the service says about itself: bundle, collection, limits, health."""

from typing import Literal

from pydantic import BaseModel, Field

from index.contracts import Memory
from multifold.types import ConfidenceBasis, Kind, Leg, Side
from multifold.wire.administration import FolderStatus


class BundleSummary(BaseModel):
    """The encoder at work."""

    name: str
    about: str
    bundle_id: str
    vector_id: str
    geometry: str
    dim: int
    metric: str
    rig: str
    views: int
    provider: str
    calibrated: list[str]  # pairs that confidence is known for, as asked/target/pool
    # its own held-out pairs, the collection's captions, or chance: no probability
    calibrated_by: ConfidenceBasis | None
    calibrated_on: int  # items of the collection, where that is what it was fitted on


class LegSummary(BaseModel):
    """What a leg of a search is worth."""

    recall_alone: float  # of the first hit, on held-out items
    recall_without: float
    off: str | None  # why it has no weight


class EvidenceSummary(BaseModel):
    """How the evidence for an item is weighted, for queries of one side."""

    weights: dict[str, float]
    wordless_weights: dict[str, float] = Field(description="for queries whose words no item has")
    queries: int  # that it was fitted on; 0: it holds without a fit
    judgements: int  # of people, that are among these
    recall: dict[str, float]  # expected of the first 1 and 10
    legs: dict[Leg, LegSummary]


class MemorySummary(BaseModel):
    """What the sealed rows of all indexes take, and what was read of those that are in files."""

    wanted: Memory = Field(description="by the collection, or else by the setting index_memory")
    bytes_per_row: float = Field(description="in memory, on average; 0 without sealed rows")
    bytes: int = Field(description="in memory")
    file_bytes: int = Field(description="of vectors that are read from files")
    rows_per_read: float = Field(description="read from files for one query or block of rows, on average")
    disk_bytes: int = Field(description="that the disk gave for them since the start")
    waiting: float = Field(description="share of late reads that waited for the disk: 1 on a cold start")


class CollectionSummary(BaseModel):
    """What is searched."""

    items: int
    observations: dict[Kind, int]
    version: int
    rows: int = Field(description="vectors in all indexes")
    sealed_rows: int = Field(description="those with an index that is built; each other one is compared")
    memory: MemorySummary
    evidence: dict[Side, EvidenceSummary]  # of the target "item", by the side of the query


class LimitsSummary(BaseModel):
    """What is refused beyond."""

    body_bytes: int
    text_characters: int
    text_tokens: int
    files: int
    pixels: int
    faces: int
    page: int
    hits: int
    offset: int
    facet_hits: int
    mix: int
    batch: int
    waiting: int
    seconds: float
    render_seconds: float


class InfoAnswer(BaseModel):
    """What runs here."""

    version: str
    bundle: BundleSummary
    collection: CollectionSummary
    limits: LimitsSummary
    keys: bool  # whether some requests need a key
    feedback: bool  # whether hits can be judged
    fetches: bool  # whether files of items may be named by their addresses
    in_place: bool  # whether it copies no upload that a file of its folders holds
    folder: FolderStatus | None = Field(description="the folder that is followed into this collection")


class HealthAnswer(BaseModel):
    """Alive, or ready; `store_away`: this process is well, and what it shares with others is not."""

    status: Literal["ok", "store_away"]
