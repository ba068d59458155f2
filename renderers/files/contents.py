"""What a reader finds in a mesh file."""

from dataclasses import dataclass

from renderers.model import Axis, Part


@dataclass(frozen=True, eq=False)
class Contents:
    """Parts in the file's own axes and units."""

    parts: list[Part]
    notes: list[str]
    up: Axis | None = None  # where the file itself says which axis points up
