"""Records a verdict on a hit, with as much of the query as the operator allows."""

import hashlib
import json
import time
from typing import Any

from app.collections.service import CollectionService
from app.errors import ApiError
from app.queries import parts as query_parts
from app.queries.parts import QueryPart, WeightedParts
from app.settings import FeedbackPolicy
from index.store.blobs import Blobs
from index.store.feedback import FeedbackQueryPart, Judgement
from multifold.bundle.preprocess import suffix_of
from multifold.wire.search import FeedbackBody
from renderers.mesh.formats.table import EXTENSIONS


def record_verdict(service: CollectionService, parts: WeightedParts, body: FeedbackBody) -> Judgement:
    """Store a verdict on a search of these parts; the item must exist."""
    policy = service.settings.feedback
    if policy == "off":
        raise ApiError(403, "no_feedback", "this service keeps no feedback; its operator can allow it")
    shown = None if body.observation is None else (body.observation.kind, body.observation.index)
    known = [(one.kind, one.index) for one in service.item(body.item).observations]
    if shown is not None and shown not in known:
        raise ApiError(404, "not_found", f"the item {body.item!r} has no {shown[0]} {shown[1]}")
    for part, _ in parts:
        if isinstance(part, query_parts.ImageQueryPart):
            service.observer.look(part.data)  # refuses what no search takes
        if isinstance(part, query_parts.MeshQueryPart) and part.mesh.suffix not in EXTENSIONS:
            raise ApiError(422, "bad_mesh", f"a mesh of the format {part.mesh.suffix!r} cannot be read here")
    pairs = [_store_part(part, weight, policy, service.collection.blobs) for part, weight in parts]
    stored = tuple(part for part, _ in pairs)
    # a second verdict on the same takes the place of the first
    text = json.dumps([[(identity, part.weight) for part, identity in pairs], body.item, body.by])
    name = _hash(text.encode("utf-8", "surrogatepass"))[:32]
    judgement = Judgement(
        id=name,
        item=body.item,
        verdict=body.verdict,
        target=body.query.target,
        query=stored,
        author=body.by,
        seen=shown,
        given=time.time(),
    )
    service.collection.judge(judgement)
    service.evidence.note_verdict()
    return judgement


def _store_part(
    part: QueryPart, weight: float, policy: FeedbackPolicy, blobs: Blobs
) -> tuple[FeedbackQueryPart, list[Any]]:
    """What the policy allows to store of a query part, and what two parts that are the same share."""
    match part:
        case query_parts.TextQueryPart(text):
            kept = text if policy in ("text", "all") else None
            return FeedbackQueryPart("text", weight, text=kept), ["text", text]
        case query_parts.ImageQueryPart(data):
            blob = blobs.put(data, suffix_of(data)) if policy == "all" else None
            return FeedbackQueryPart("image", weight, blob=blob), ["image", _hash(data)]
        case query_parts.MeshQueryPart(mesh):
            blob = blobs.put(mesh.data, mesh.suffix) if policy == "all" else None
            return FeedbackQueryPart("mesh", weight, blob=blob), ["mesh", _hash(mesh.data)]
        case query_parts.ItemQueryPart(name, sides):
            return FeedbackQueryPart("id", weight, id=name, side=sides[0]), ["id", name]
        case query_parts.VectorQueryPart(numbers):
            return FeedbackQueryPart("vector", weight), ["vector", list(numbers)]
        case _:
            raise TypeError(part)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
