"""Items of requests, checked against the limits, with their files loaded."""

import json
import re
from collections.abc import Mapping
from typing import Any

from app.errors import ApiError
from app.ingest.sources import ItemSource
from app.ingest.uploads import ItemFiles, check_text, read_mesh_file
from app.settings import Settings
from multifold.wire.items import NewItem

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


async def load_item(item: NewItem, files: ItemFiles, settings: Settings) -> ItemSource:
    payload = check_payload(item.payload)
    check_item_id(item.id)
    if len(item.images) + (item.mesh is not None) > settings.max_files:
        sentence = f"an item has {settings.max_files} files at most in one request"
        raise ApiError(422, "too_many_files", sentence)
    captions = tuple(check_text(text, settings.max_text) for text in item.texts)
    shape = None
    if item.mesh is not None:
        shape = read_mesh_file(await files.load(item.mesh, "mesh"), item.mesh_format)
    photos = tuple([(await files.load(image, "image")).data for image in item.images])
    return ItemSource(item.id, captions, photos, shape, payload, vectors=item.vectors)


def check_payload(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Refuse what JSON or a database cannot hold, such as NaN."""
    try:
        json.dumps(payload, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise ApiError(422, "bad_payload", "'payload' is not JSON that can be stored") from None
    return dict(payload)


def check_item_id(item_id: str) -> None:
    """Refuse an id that could be written, but never asked for, or that nobody sees."""
    if item_id in (".", ".."):
        raise ApiError(422, "bad_id", f"an address cannot hold the id {item_id!r}; choose another")
    if not item_id.strip() or CONTROL.search(item_id):
        sentence = "an id has a character that can be seen, and no control characters such as a line break"
        raise ApiError(422, "bad_id", f"{sentence}; not {item_id[:40]!r}")
