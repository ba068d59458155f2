"""The interfaces of spaces and engines, the place of a collection, and the plan of an index."""

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Float32, Int64

from multifold.errors import MultifoldError
from multifold.types import Aspect, Features, Metric, Side, Vector, Vectors
from multifold.types import Device as Device
from multifold.types import Memory as Memory

log = logging.getLogger(__name__)

Ids: TypeAlias = Int64[np.ndarray, " _"]
PairedIds: TypeAlias = Int64[np.ndarray, " b"]  # one id for each of b vectors
RowRankings: TypeAlias = tuple[Float32[np.ndarray, "q k"], Int64[np.ndarray, "q k"]]
RowRanking: TypeAlias = tuple[Float32[np.ndarray, " k"], Int64[np.ndarray, " k"]]
RowScores: TypeAlias = Float32[np.ndarray, " _"]  # one for each of some ids
RowBlock: TypeAlias = tuple[PairedIds, Vectors]
RowKind: TypeAlias = Literal["observation", "pooled"]
EngineKey: TypeAlias = tuple[Aspect, RowKind]

NO_ROW = -1  # the id that pads an answer of too few rows
NEVER = -1  # the version of an index that has caught up with nothing yet


class QueryError(MultifoldError):
    """A query that cannot be searched."""


class PromiseError(QueryError):
    """Nothing is known from which an error could be promised."""


class IndexEngineError(MultifoldError):
    """An engine was given rows or a file that it cannot use."""


class RowsLostError(IndexEngineError):
    """Rows of an engine are gone or damaged: they have to be derived again."""


@runtime_checkable
class Space(Protocol):
    """The index vectors of an encoder: the map from features, and how vectors are compared there."""

    @property
    def vector_id(self) -> str:
        """Names all that decides the vectors; stamps a collection."""

    @property
    def dim(self) -> int:
        """Length of an index vector."""

    @property
    def metric(self) -> Metric:
        """How two index vectors are compared."""

    @property
    def query_signs(self) -> Vector | None:
        """What a query vector is multiplied by before it is compared; None leaves it as it is."""

    @property
    def sees(self) -> Mapping[Side, float]:
        """Nats that a deviation of a picture's likeness to a text is worth, by the picture's side."""

    @property
    def alike(self) -> Mapping[Side, float]:
        """The similarity from which a picture likely shows what a text says, where that is known, by side."""

    def vectors(self, features: Features) -> Vectors:
        """Index vectors, one for each feature, each independent of the others."""


@dataclass(frozen=True)
class RowsOwner:
    """Whose rows an engine has. The headers of its files say so, and a file of another owner is not read."""

    vector_id: str = ""
    collection: str = ""  # as the store names it
    side: str = ""
    kind: str = ""


NOBODY = RowsOwner()  # of an engine on its own


@runtime_checkable
class IndexEngine(Protocol):
    """Vectors by row id, searched with a candidate filter; items are unknown here.

    Searches may run beside each other and beside a change, and each sees one version; changes run one by one.
    Which rows are found may be approximate, their scores never are; ties go to the smaller id.
    """

    def add(self, ids: PairedIds, vectors: Vectors) -> None:
        """Add rows; an id that is already there is an IndexEngineError, and nothing is added."""

    def remove(self, ids: Ids) -> None:
        """Remove rows; ids that are not there are ignored."""

    def search(
        self, queries: Vectors, limit: int, allowed: Ids | None = None, *, exact: bool = False
    ) -> RowRankings:
        """The best rows of each query, best first, padded with -inf and NO_ROW; `exact` scores all rows."""

    def score(self, query: Vector, ids: Ids) -> RowScores:
        """The score of each of these ids, which rise; NaN where there is no such row."""

    def blocks(self, allowed: Ids | None = None) -> Iterator[RowBlock]:
        """Every row, some at a time."""

    def count(self) -> int:
        """How many rows there are."""

    def sample(self, count: int) -> Vectors:
        """Up to so many of the vectors, drawn evenly."""

    def save(self, path: Path) -> None:
        """Write the rows to a file, durably and all at once."""

    def load(self, path: Path) -> None:
        """Replace the rows by those of a file; a damaged or foreign file is an IndexEngineError."""

    def close(self) -> None:
        """Release memory and devices."""


@dataclass(frozen=True)
class CollectionLocation:
    """Where a collection is: its folder, and the addresses of items and pictures that are not there."""

    folder: Path
    database: str | None = None
    bucket: str | None = None

    @property
    def items(self) -> Path | str:
        """What a store is opened with: a file, or the address of a database."""
        return self.database or self.folder / "store.sqlite"

    @property
    def shown(self) -> str:
        """For people, without what a database's address may tell."""
        return "the database" if self.database else str(self.folder)


DEVICES: tuple[Device, ...] = ("cpu", "gpu", "auto")

MEMORIES: tuple[Memory, ...] = ("auto", "resident", "codes")

FLAT = "Flat"
AUTO = "auto"
KEPT_CHANGES = 10_000  # changes that stay in the log when it is compacted, for readers that follow it
CODES = "codes"
EXACT = "exact"
MILVUS = "milvus"
MILVUS_TYPES = ("HNSW", "IVF_SQ8", "DISKANN", "FLAT")  # of an index there, as in `milvus,IVF_SQ8`
CPU_LADDER = ("IVF{cells},SQ8", "HNSW32,SQ8", FLAT)
CODES_LADDER = ("IVF{cells},SQ4", "IVF{cells},SQ8", FLAT)
GPU_LADDER = ("CAGRA", "IVF{cells},Flat", FLAT)
ROWS_PER_CELL = 39  # rows that a cell is learned from


class IndexPlanError(MultifoldError):
    """An index that cannot be built."""


@dataclass(frozen=True)
class IndexPlan:
    """Type, device, recall and memory that are asked for; when rows are sealed, and when flat is enough."""

    # auto, exact, milvus or milvus,TYPE, or a FAISS factory string, where {cells} grows with rows
    type: str = AUTO
    device: Device = "auto"
    recall: float = 0.99
    seal_at: int = 8_192  # fresh rows that are worth a segment
    flat_below: int = 16_384  # rows that `auto` leaves flat
    memory: Memory = "auto"  # of sealed rows: everything, or `codes` alone, with the vectors in a file

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise IndexPlanError(f"The device must be one of {', '.join(DEVICES)}, not {self.device!r}.")
        if not 0 < self.recall <= 1:
            raise IndexPlanError(f"The target recall must lie above 0 and up to 1, not at {self.recall}.")
        if self.memory not in MEMORIES:
            raise IndexPlanError(f"The memory must be one of {', '.join(MEMORIES)}, not {self.memory!r}.")
        if self.milvus_type not in (None, *MILVUS_TYPES):
            types = ", ".join(MILVUS_TYPES)
            raise IndexPlanError(f"An index in Milvus is one of {types}, not {self.milvus_type!r}.")

    def __str__(self) -> str:
        return f"{self.type}, recall {self.recall}, memory {self.memory}"

    @property
    def in_milvus(self) -> bool:
        """Whether rows are to be in Milvus, wherever that is."""
        return self.type.partition(",")[0] == MILVUS

    @property
    def milvus_type(self) -> str | None:
        """The index that they are to have there; None leaves it to how the vectors are."""
        return (self.type.partition(",")[2] or None) if self.in_milvus else None

    def ladder(self, rows: int, *, gpu: bool, codes: bool = False) -> tuple[str, ...]:
        """Types to try for so many rows, the last of which is always exact."""
        if self.type == FLAT or (self.type == AUTO and rows < self.flat_below):
            return (FLAT,)
        chosen = GPU_LADDER if gpu else CODES_LADDER if codes else CPU_LADDER
        types = chosen if self.type == AUTO else (self.type, FLAT)
        return tuple(name.replace("{cells}", str(cell_count(rows))) for name in types)


def stored_plan(raw: Mapping[str, Any]) -> IndexPlan:
    """The plan that a collection or a job has stored.

    An index that is not built any more (float16 rows, the first numbers of vectors) is built as the nearest
    one that is: an index is derived from the store.
    """
    wanted = {**raw, "type": re.sub(r"^first\d+,", "", raw.get("type", AUTO))}
    wanted.pop("stored", None)
    if wanted["type"] != raw.get("type", AUTO) or raw.get("stored", "float32") != "float32":
        log.warning("an index as it was asked for is not built any more: it becomes %s", wanted["type"])
    return IndexPlan(**wanted)


def cell_count(rows: int) -> int:
    """Cells of an inverted file: a power of two near 4·√rows, each with rows enough to learn from."""
    wanted = min(4 * rows**0.5, rows / ROWS_PER_CELL)
    return int(1 << max(0, int(wanted).bit_length() - 1))


@runtime_checkable
class DerivedIndex(Protocol):
    """An index that can be built from the store at any time. Changes reach it one by one."""

    version: int  # of the store, up to which it has everything

    def open(self) -> None:
        """Begin with what was saved, if it fits, and follow the store."""

    def follow(self) -> None:
        """Catch up after a change, as far as that can be done now."""

    def catch_up(self) -> None:
        """Apply what the store has and it has not; build it anew where that cannot be told."""

    def settle(self) -> object:
        """Wait until nothing is left to be built."""

    def save(self) -> None:
        """Save it if much has changed since it was saved last."""

    def keep(self) -> None:
        """Save it as it is."""

    def problems(self) -> Iterator[str]:
        """One sentence on each difference from what the store makes of it."""

    def close(self) -> None:
        """End what is under way, and release what it holds."""
