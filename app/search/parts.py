"""Reads what a body asks with as the parts of a query."""

from app.ingest.uploads import check_text, read_mesh_file, read_upload
from app.search.query import (
    ImageQueryPart,
    ItemQueryPart,
    MeshQueryPart,
    QueryPart,
    TextQueryPart,
    VectorQueryPart,
    WeightedParts,
)
from multifold.types import Side, Target
from multifold.wire.files import Picture
from multifold.wire.search import MixedQuery, QueryInput, Search, SubjectBody

PREFERRED_SIDES: tuple[Side, ...] = ("shape", "image", "text")  # of an item that is asked with


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
            return VectorQueryPart(tuple(body.vector))
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
