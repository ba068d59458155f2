"""What the service found, as the wire shows it."""

from itertools import repeat
from urllib.parse import quote

from app.schemas.items import FileShown, ItemShown, ItemWritten, Seen
from app.schemas.search import Duplicate, Found, SearchAnswer, Took
from app.service import Answer, Stored
from multifold.types import KIND_OF, Hit, Item, Observation, Side

PLACES = {"view": "views", "photo": "photos"}
TAG_LENGTH = 12
HASH_LENGTH = 64


def answer(found: Answer, bundle: str) -> SearchAnswer:
    """The answer to a search."""
    encode, search = 1000 * found.encode, 1000 * found.search
    return SearchAnswer(
        hits=[
            hit(*all_of, found.address)
            for all_of in zip(
                found.hits, found.chance or repeat(None), found.sides or repeat(None), strict=False
            )
        ],
        took_ms=Took(encode=round(encode, 2), search=round(search, 2), total=round(encode + search, 2)),
        version=found.version,
        bundle=bundle,
        calibrated_by=found.by,
        warnings=list(found.warnings),
    )


def hit(found: Hit, chance: float | None, sides: dict[Side, float] | None, address: str) -> Found:
    """One item found."""
    matched = seen(found.id, found.matched, address)
    return Found(
        id=found.id,
        score=found.score,
        confidence=found.confidence,
        chance=chance,
        modality=found.side,
        matched=matched,
        payload=dict(found.payload),
        sides=sides,
        words=list(found.words),
        duplicates=[Duplicate(id=one.id, payload=dict(one.payload)) for one in found.same],
    )


def item(stored: Item, address: str) -> ItemShown:
    """An item with all its observations."""
    shown = [seen(stored.id, observation, address) for observation in stored.observations]
    files = [_file(stored.id, index, key, address) for index, key in enumerate(stored.files)]
    return ItemShown(id=stored.id, payload=dict(stored.payload), observations=shown, files=files)


def _file(owner: str, index: int, key: str, address: str) -> FileShown:
    url = f"{address}/items/{quote(owner, safe='')}/files/{index}?v={key[:TAG_LENGTH]}"
    return FileShown(index=index, url=url, format=key[HASH_LENGTH:].lstrip("."))


def written(stored: Stored) -> ItemWritten:
    """An item that was just stored."""
    made = stored.made.item
    kinds = [observation.kind for observation in made.observations]
    counts = {kind: kinds.count(kind) for kind in KIND_OF.values()}
    warnings = list(stored.made.warnings)
    return ItemWritten(id=made.id, version=stored.version, observations=counts, warnings=warnings)


def seen(owner: str, observation: Observation, address: str) -> Seen:
    """An observation with the address of its picture, which changes when the picture does.

    `address` is that of the collection.
    """
    url = None
    if observation.blob is not None:
        place = f"{PLACES[observation.kind]}/{observation.index}"
        url = f"{address}/items/{quote(owner, safe='')}/{place}?v={observation.blob[:TAG_LENGTH]}"
    return Seen(kind=observation.kind, index=observation.index, url=url, text=observation.text)
