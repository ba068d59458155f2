"""The processes that draw: starting them takes seconds, so they start while files are still compared."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType

from app.intake.content import Contents
from renderers.sandbox import Sandbox


class Drawers:
    """At most so many processes, started together and once."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most, self._seconds = most, seconds
        self._started: Sandbox | None = None

    def for_meshes(self, count: int) -> Sandbox:
        """As many as have something to do."""
        if self._started is None:
            self._started = Sandbox(min(self._most, count), seconds=self._seconds)
        return self._started

    def watching(self, meshes: Iterable[Path], contents: Contents) -> Iterator[Path]:
        """Goes through meshes that are read, and starts once there is something new for each process."""
        for mesh in meshes:
            yield mesh
            if contents.read >= self._most:
                self.for_meshes(self._most)

    def __enter__(self) -> "Drawers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._started is not None:
            self._started.close()
