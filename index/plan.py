"""What kind of index a collection asks for, and which types are tried in which order."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from multifold.errors import MultifoldError

Device: TypeAlias = Literal["cpu", "gpu", "auto"]
DEVICES: tuple[Device, ...] = ("cpu", "gpu", "auto")

FLAT = "Flat"
AUTO = "auto"
EXACT = "exact"
MILVUS = "milvus"
LADDER = ("IVF{cells},SQ8", "HNSW32,SQ8", FLAT)
GPU_LADDER = ("CAGRA", "IVF{cells},Flat", FLAT)
PER_CELL = 39  # rows that a cell is learned from


class PlanError(MultifoldError):
    """An index that nobody can build."""


@dataclass(frozen=True)
class Plan:
    """Type, device and recall that are asked for; the sizes at which rows are sealed and flat is enough."""

    type: str = AUTO  # auto, exact, milvus, or a FAISS factory string in which {cells} grows with the rows
    device: Device = "auto"
    recall: float = 0.99
    seal_at: int = 8_192  # fresh rows that are worth a segment
    flat_below: int = 16_384  # rows that `auto` leaves flat

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise PlanError(f"The device must be one of {', '.join(DEVICES)}, not {self.device!r}.")
        if not 0 < self.recall <= 1:
            raise PlanError(f"The target recall must lie above 0 and up to 1, not at {self.recall}.")

    def ladder(self, rows: int, *, gpu: bool) -> tuple[str, ...]:
        """Types to try for so many rows, the last of which is always exact."""
        if self.type == FLAT or (self.type == AUTO and rows < self.flat_below):
            return (FLAT,)
        types = (self.type, FLAT) if self.type != AUTO else GPU_LADDER if gpu else LADDER
        return tuple(name.format(cells=cells(rows)) for name in types)


def cells(rows: int) -> int:
    """Cells of an inverted file: a power of two near 4·√rows, each with rows enough to learn from."""
    wanted = min(4 * rows**0.5, rows / PER_CELL)
    return int(1 << max(0, int(wanted).bit_length() - 1))
