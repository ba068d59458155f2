"""Records a verdict on a hit, with as much of the query as the operator allows."""

import hashlib
import json
import time
from collections.abc import Sequence
from typing import Any

from app.collections.service import CollectionService
from app.errors import ApiError
from app.search.query import (
    ImageQueryPart,
    ItemQueryPart,
    MeshQueryPart,
    QueryPart,
    SearchQuery,
    TextQueryPart,
    VectorQueryPart,
)
from app.settings import FeedbackPolicy
from index.store.blobs import Blobs
from index.store.feedback import FeedbackQueryPart, Judgement
from multifold.bundle.preprocess import suffix_of
from multifold.types import Kind, Verdict
from renderers.mesh.formats.mesh_file import EXTENSIONS

POLICIES_WITH_FILES: tuple[FeedbackPolicy, ...] = ("all",)
POLICIES_WITH_TEXT: tuple[FeedbackPolicy, ...] = ("all", "text")


def record_verdict(
    service: CollectionService,
    question: SearchQuery,
    item: str,
    seen: tuple[Kind, int] | None,
    verdict: Verdict,
    by: str | None,
) -> Judgement:
    """Keep a verdict; the item must be there."""
    keeps = service.settings.feedback
    if keeps == "off":
        raise ApiError(403, "no_feedback", "this service keeps no feedback; its operator can allow it")
    _check_item(service, item, seen)
    for clue, _ in question.clues:
        _check_part(service, clue)
    asked = tuple(
        _stored_part(clue, weight, keeps, service.collection.blobs) for clue, weight in question.clues
    )
    name = feedback_id([(_part_identity(clue), weight) for clue, weight in question.clues], item, by)
    judgement = Judgement(name, item, verdict, question.options.target, asked, by, seen, time.time())
    service.collection.judge(judgement)
    return judgement


def feedback_id(query: Sequence[tuple[Any, float]], item: str, by: str | None) -> str:
    """One name for a query, an item and an author: a second verdict takes the place of the first."""
    text = json.dumps([query, item, by])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _check_item(service: CollectionService, name: str, seen: tuple[Kind, int] | None) -> None:
    item = service.collection.get(name)
    if item is None:
        raise ApiError(404, "not_found", f"there is no item {name!r}")
    if seen is not None and seen not in [(one.kind, one.index) for one in item.observations]:
        raise ApiError(404, "not_found", f"the item {name!r} has no {seen[0]} {seen[1]}")


def _check_part(service: CollectionService, clue: QueryPart) -> None:
    """Refuse files that nobody could have searched with."""
    if isinstance(clue, ImageQueryPart):
        service.observer.look(clue.data)
    if isinstance(clue, MeshQueryPart) and clue.mesh.suffix not in EXTENSIONS:
        raise ApiError(422, "bad_mesh", f"a mesh of the format {clue.mesh.suffix!r} cannot be read here")


def _stored_part(clue: QueryPart, weight: float, keeps: FeedbackPolicy, blobs: Blobs) -> FeedbackQueryPart:
    """What is kept of a clue."""
    match clue:
        case TextQueryPart(text):
            return FeedbackQueryPart("text", weight, text=text if keeps in POLICIES_WITH_TEXT else None)
        case ImageQueryPart(data):
            return FeedbackQueryPart(
                "image",
                weight,
                blob=blobs.put(data, suffix_of(data)) if keeps in POLICIES_WITH_FILES else None,
            )
        case MeshQueryPart(mesh):
            return FeedbackQueryPart(
                "mesh",
                weight,
                blob=blobs.put(mesh.data, mesh.suffix) if keeps in POLICIES_WITH_FILES else None,
            )
        case ItemQueryPart(name, sides):
            return FeedbackQueryPart("id", weight, id=name, side=sides[0])
        case _:
            return FeedbackQueryPart("vector", weight)


def _part_identity(clue: QueryPart) -> list[Any]:
    """What makes two clues the same; files and vectors by their hash."""
    match clue:
        case TextQueryPart(text):
            return ["text", text]
        case ImageQueryPart(data):
            return ["image", hashlib.sha256(data).hexdigest()]
        case MeshQueryPart(mesh):
            return ["mesh", hashlib.sha256(mesh.data).hexdigest()]
        case ItemQueryPart(name, _):
            return ["id", name]
        case VectorQueryPart(numbers):
            return ["vector", list(numbers)]
        case _:
            raise TypeError(clue)
