"""Records a verdict on a hit, with as much of the query as the operator allows."""

import hashlib
import json
import time
from collections.abc import Sequence
from typing import Any

from app.collections.collections import CollectionService
from app.errors import ApiError
from app.search.query import (
    ImageQueryPart,
    ItemQueryPart,
    MeshQueryPart,
    QueryPart,
    TextQueryPart,
    VectorQueryPart,
    WeightedParts,
)
from app.settings import FeedbackPolicy
from index.store.blobs import Blobs
from index.store.feedback import FeedbackQueryPart, Judgement
from multifold.bundle.preprocess import suffix_of
from multifold.types import Kind, Target, Verdict
from renderers.mesh.formats.mesh_file import EXTENSIONS


def record_verdict(
    service: CollectionService,
    parts: WeightedParts,
    target: Target,
    item: str,
    observation: tuple[Kind, int] | None,
    verdict: Verdict,
    author: str | None,
) -> Judgement:
    """Store a verdict; the item must exist."""
    policy = service.settings.feedback
    if policy == "off":
        raise ApiError(403, "no_feedback", "this service keeps no feedback; its operator can allow it")
    _check_item(service, item, observation)
    for part, _ in parts:
        _check_part(service, part)
    query = tuple(_stored_part(part, weight, policy, service.collection.blobs) for part, weight in parts)
    name = feedback_id([(_part_identity(part), weight) for part, weight in parts], item, author)
    judgement = Judgement(name, item, verdict, target, query, author, observation, time.time())
    service.collection.judge(judgement)
    return judgement


def feedback_id(query: Sequence[tuple[Any, float]], item: str, author: str | None) -> str:
    """The id for a query, an item and an author: a second verdict takes the place of the first."""
    text = json.dumps([query, item, author])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _check_item(service: CollectionService, name: str, observation: tuple[Kind, int] | None) -> None:
    item = service.collection.get(name)
    if item is None:
        raise ApiError(404, "not_found", f"there is no item {name!r}")
    if observation is not None and observation not in [(one.kind, one.index) for one in item.observations]:
        raise ApiError(404, "not_found", f"the item {name!r} has no {observation[0]} {observation[1]}")


def _check_part(service: CollectionService, part: QueryPart) -> None:
    """Refuse files that no search takes."""
    if isinstance(part, ImageQueryPart):
        service.observer.look(part.data)
    if isinstance(part, MeshQueryPart) and part.mesh.suffix not in EXTENSIONS:
        raise ApiError(422, "bad_mesh", f"a mesh of the format {part.mesh.suffix!r} cannot be read here")


def _stored_part(part: QueryPart, weight: float, policy: FeedbackPolicy, blobs: Blobs) -> FeedbackQueryPart:
    """What the policy allows to store of a query part."""
    match part:
        case TextQueryPart(text):
            return FeedbackQueryPart("text", weight, text=text if policy in ("text", "all") else None)
        case ImageQueryPart(data):
            blob = blobs.put(data, suffix_of(data)) if policy == "all" else None
            return FeedbackQueryPart("image", weight, blob=blob)
        case MeshQueryPart(mesh):
            blob = blobs.put(mesh.data, mesh.suffix) if policy == "all" else None
            return FeedbackQueryPart("mesh", weight, blob=blob)
        case ItemQueryPart(name, sides):
            return FeedbackQueryPart("id", weight, id=name, side=sides[0])
        case _:
            return FeedbackQueryPart("vector", weight)


def _part_identity(part: QueryPart) -> list[Any]:
    """What makes two query parts the same; files by their hash."""
    match part:
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
            raise TypeError(part)
