"""The parts of a query, as they are read from what a body asks with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from app.encoding.observations import MeshData
from app.ingest.uploads import check_text, read_mesh_file, read_upload
from multifold.types import Side, Target
from multifold.wire.files import Picture
from multifold.wire.search import MixedQuery, QueryInput, Search, SubjectBody

PREFERRED_SIDES: tuple[Side, ...] = ("shape", "image", "text")  # of an item that is asked with


class QueryPart:
    """Something to search with."""

    side: ClassVar[Side | None] = None  # as what it is compared; None where confidence has no meaning


@dataclass(frozen=True)
class TextQueryPart(QueryPart):
    """A text to search with."""

    side = "text"
    text: str


@dataclass(frozen=True)
class ImageQueryPart(QueryPart):
    """A picture to search with, as the bytes of its file."""

    side = "image"
    data: bytes


@dataclass(frozen=True)
class MeshQueryPart(QueryPart):
    """A mesh to search with."""

    side = "shape"
    mesh: MeshData


@dataclass(frozen=True)
class ItemQueryPart(QueryPart):
    """An item of this collection: one of its sides, the first of these that it has."""

    id: str
    sides: tuple[Side, ...]


@dataclass(frozen=True)
class VectorQueryPart(QueryPart):
    """An index vector that was encoded elsewhere."""

    numbers: tuple[float, ...]
    made_of: Side = "text"


WeightedParts: TypeAlias = Sequence[tuple[QueryPart, float]]


def is_single(parts: WeightedParts) -> bool:
    return len(parts) == 1 and parts[0][1] == 1


def side_of(parts: WeightedParts) -> Side | None:
    """As what a query is compared; None for a mix, which no confidence covers."""
    return parts[0][0].side if is_single(parts) else None


def texts_of(parts: WeightedParts) -> list[str]:
    """The texts that a query asks for, but for those with a negative weight."""
    return [part.text for part, weight in parts if isinstance(part, TextQueryPart) and weight > 0]


def text_weight(parts: WeightedParts) -> float:
    """How much the texts of a query count, beside its heaviest part."""
    texts = [weight for part, weight in parts if isinstance(part, TextQueryPart) and weight > 0]
    return max(texts) / max(abs(weight) for _, weight in parts) if texts else 1.0


def weighed_side(parts: WeightedParts) -> Side:
    """As what a query is weighted: as a text if it has one, else as its first part."""
    first = min(parts, key=lambda pair: not isinstance(pair[0], TextQueryPart))[0]
    match first:
        case ItemQueryPart(sides=(side, *_)) | VectorQueryPart(made_of=side):
            return side
        case _:
            return first.side or "text"


def read_parts(body: MixedQuery, max_text: int) -> WeightedParts:
    """The parts of a search or of a reranking, with their weights."""
    target: Target = body.target if isinstance(body, Search) else "item"
    if body.mix is None:
        return ((read_part(body, target, max_text), 1.0),)
    return tuple((read_part(part, target, max_text), part.weight) for part in body.mix)


def read_part(body: SubjectBody, target: Target, max_text: int) -> QueryPart:
    """The one thing that a body asks with; its own rules say that there is one."""
    side = None
    if isinstance(body, QueryInput):
        side = body.side
        if body.vector is not None:
            return VectorQueryPart(tuple(body.vector), side or "text")
    if body.id is not None:
        return ItemQueryPart(body.id, choose_sides(side, target))
    if body.text is not None:
        return TextQueryPart(check_text(body.text, max_text))
    if body.image is not None:
        return image_part(body.image)
    assert body.mesh is not None
    return mesh_part(body.mesh, body.mesh_format)


def image_part(image: Picture) -> ImageQueryPart:
    return ImageQueryPart(read_upload(image, "image").data)


def mesh_part(mesh: Picture, mesh_format: str | None) -> MeshQueryPart:
    return MeshQueryPart(read_mesh_file(read_upload(mesh, "mesh"), mesh_format))


def choose_sides(side: Side | None, target: Target) -> tuple[Side, ...]:
    """Which side of an item is asked with: this one, else the target's, else the first that it has."""
    return tuple(sorted(PREFERRED_SIDES, key=lambda one: one != target)) if side is None else (side,)
