"""Published point encoders that we know, whose weights `multifold export` adds to a bundle."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.pull.catalogue import align_columns

WEIGHTS_FILE = "model.pt"


@dataclass(frozen=True)
class PublishedPoints:
    """One point encoder of the list. No hash of it is known in advance: the hub's own list is checked."""

    name: str
    repository: str
    clip: str  # of OpenAI, in whose space it is
    licence: str = "MIT"
    revision: str | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)


PUBLISHED_POINTS = (
    PublishedPoints("openshape-b32", "OpenShape/openshape-pointbert-vitb32-rgb", "ViT-B/32"),
    PublishedPoints("openshape-l14", "OpenShape/openshape-pointbert-vitl14-rgb", "ViT-L/14"),
)


def find_published_points(name: str) -> PublishedPoints | None:
    """The point encoder of this name, if the list has it."""
    return next((one for one in PUBLISHED_POINTS if one.name == name.lower()), None)


def format_points() -> str:
    """The list, for people."""
    rows = [("points", "space of", "licence", "repository")]
    rows += [(one.name, one.clip, one.licence, one.repository) for one in PUBLISHED_POINTS]
    return "\n".join([*align_columns(rows), "", "They learned in part from ShapeNet: docs/towers.md#points."])
