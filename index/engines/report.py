"""What building a segment found out: its type, and what that finds, takes and costs."""

from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

from index.engines.ann import Setting


@dataclass(frozen=True)
class Trial:
    """A type that was tried and missed the target."""

    type: str
    recall: float


@dataclass(frozen=True, eq=False)
class Report:
    """A sealed segment in figures."""

    type: str
    rows: int
    target: float
    probes: int
    probed_with: str  # queries | rows
    settings: tuple[Setting, ...]  # none: every row is looked at
    bytes_per_row: float  # of the index and the stored vector
    build_seconds: float
    missed: tuple[Trial, ...] = ()

    @property
    def recall(self) -> float:
        """Recall of the first ten."""
        return self.settings[0].recall if self.settings else 1.0

    def __str__(self) -> str:
        """One sentence for people."""
        told = f"{self.rows} rows as {self.type}, {self.bytes_per_row:.0f} bytes a row"
        for setting in self.settings:
            told += f"; recall@{setting.limit} {setting.recall:.3f} in {setting.seconds * 1e3:.2f} ms"
        if not self.settings:
            told += "; exact"
        for trial in self.missed:
            told += f"; {trial.type} reached only {trial.recall:.3f} of {self.target}"
        return told

    def as_json(self) -> dict[str, Any]:
        """For files and the service."""
        return asdict(self)


@runtime_checkable
class Sealing(Protocol):
    """An engine that seals its rows into parts in the background."""

    seals: int  # how often it did, since it was made

    def settle(self) -> None:
        """Wait until nothing is left to seal."""

    def reports(self) -> list[Report]:
        """What the sealed parts are, find and cost."""


def from_json(told: dict[str, Any]) -> Report:
    """The report that `as_json` wrote."""
    settings = tuple(Setting(**setting) for setting in told["settings"])
    missed = tuple(Trial(**trial) for trial in told["missed"])
    return Report(**{**told, "settings": settings, "missed": missed})
