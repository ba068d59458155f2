"""Turns hits, items and observations into the types of the wire."""

from itertools import repeat
from urllib.parse import quote

from app.collections.service import SearchOutcome, WrittenItem
from app.http.schemas.items import FileResource, ItemResource, ItemWriteAnswer, ObservationResource
from app.http.schemas.search import DuplicateItem, HitResource, SearchAnswer, SearchTiming
from multifold.types import KIND_OF, Hit, Item, Observation, Side

PICTURE_FOLDERS = {"view": "views", "photo": "photos"}
TAG_LENGTH = 12
HASH_LENGTH = 64


def serialize_answer(found: SearchOutcome, bundle: str) -> SearchAnswer:
    """The answer to a search."""
    encode, search = 1000 * found.encode, 1000 * found.search
    return SearchAnswer(
        hits=[
            serialize_hit(*all_of, found.address)
            for all_of in zip(
                found.hits, found.chance or repeat(None), found.sides or repeat(None), strict=False
            )
        ],
        took_ms=SearchTiming(
            encode=round(encode, 2), search=round(search, 2), total=round(encode + search, 2)
        ),
        version=found.version,
        bundle=bundle,
        calibrated_by=found.by,
        warnings=list(found.warnings),
    )


def serialize_hit(
    found: Hit, chance: float | None, sides: dict[Side, float] | None, address: str
) -> HitResource:
    """One item found."""
    matched = serialize_observation(found.id, found.matched, address)
    return HitResource(
        id=found.id,
        score=found.score,
        confidence=found.confidence,
        chance=chance,
        modality=found.side,
        matched=matched,
        payload=dict(found.payload),
        sides=sides,
        words=list(found.words),
        duplicates=[DuplicateItem(id=one.id, payload=dict(one.payload)) for one in found.same],
    )


def serialize_item(stored: Item, address: str) -> ItemResource:
    """An item with all its observations."""
    shown = [serialize_observation(stored.id, observation, address) for observation in stored.observations]
    files = [_serialize_file(stored.id, index, key, address) for index, key in enumerate(stored.files)]
    return ItemResource(id=stored.id, payload=dict(stored.payload), observations=shown, files=files)


def _serialize_file(owner: str, index: int, key: str, address: str) -> FileResource:
    url = f"{address}/items/{quote(owner, safe='')}/files/{index}?v={key[:TAG_LENGTH]}"
    return FileResource(index=index, url=url, format=key[HASH_LENGTH:].lstrip("."))


def serialize_written(stored: WrittenItem) -> ItemWriteAnswer:
    """An item that was just stored."""
    made = stored.made.item
    kinds = [observation.kind for observation in made.observations]
    counts = {kind: kinds.count(kind) for kind in KIND_OF.values()}
    warnings = list(stored.made.warnings)
    return ItemWriteAnswer(id=made.id, version=stored.version, observations=counts, warnings=warnings)


def serialize_observation(owner: str, observation: Observation, address: str) -> ObservationResource:
    """An observation with the address of its picture, which changes when the picture does.

    `address` is that of the collection.
    """
    url = None
    if observation.blob is not None:
        place = f"{PICTURE_FOLDERS[observation.kind]}/{observation.index}"
        url = f"{address}/items/{quote(owner, safe='')}/{place}?v={observation.blob[:TAG_LENGTH]}"
    return ObservationResource(kind=observation.kind, index=observation.index, url=url, text=observation.text)
