"""Prepares an item: encodes its captions and pictures, stores its blobs, and writes it."""

import io
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from app.encoding.observations import MeshData, ObservationEncoder
from index.collection import Collection
from index.store.blobs import Blobs
from multifold.bundle.preprocess import suffix_of
from multifold.errors import MultifoldError
from multifold.types import Item, Kind, Observation, Pixels, captions_of, pictures_of
from renderers.contracts import Views

BLOB_WRITERS = 4


@dataclass(frozen=True)
class ItemUpload:
    """The parts of an item as a request brought them; its mesh is not rendered yet."""

    id: str
    texts: tuple[str, ...]
    photos: tuple[bytes, ...]
    mesh: MeshData | None
    payload: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class ItemDraft:
    """An item as it was handed in, its mesh already drawn."""

    id: str
    texts: tuple[str, ...] = ()
    photos: tuple[bytes, ...] = ()
    views: Views | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[tuple[bytes, str], ...] = ()  # what the views are of, each with its suffix
    copy: bool = True  # photos and files are stored, though a file that we know may hold them in place
    spared: tuple[Path, ...] = ()  # but for files below these folders


@dataclass(frozen=True, eq=False)
class PreparedItem:
    """An item ready to be stored, and what its sender should know."""

    item: Item
    warnings: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class EncodedCaptions:
    """Captions ready to be stored, and what their sender should know."""

    observations: tuple[Observation, ...]
    warnings: tuple[str, ...]


def prepare_item(observer: ObservationEncoder, blobs: Blobs, draft: ItemDraft) -> PreparedItem:
    """Encode a draft and store its pictures; the collection does not have the item yet."""
    said = encode_captions(observer, draft.texts)
    put = partial(_put_blob, blobs, draft)
    photos = [observer.look(photo) for photo in draft.photos]
    files = [(photo, suffix_of(photo)) for photo in draft.photos]
    seen = _encode_pictures(observer, put, "photo", photos, files)
    if draft.views is not None:
        drawn = [(encode_webp(view), ".webp") for view in draft.views]
        seen += _encode_pictures(
            observer, blobs.put, "view", list(observer.look_at_views(draft.views)), drawn
        )
    kept = tuple(put(*file) for file in draft.files)
    return PreparedItem(Item(draft.id, (*said.observations, *seen), draft.payload, kept), said.warnings)


def encode_captions(observer: ObservationEncoder, texts: tuple[str, ...]) -> EncodedCaptions:
    """What was said of an item, encoded."""
    encoded = observer.encoder.texts(texts)
    return EncodedCaptions(captions_of(texts, encoded.features), observer.cut_warnings(encoded.cut))


def write_items(collection: Collection, items: Sequence[Item]) -> list[int | MultifoldError]:
    """Write items together or, if one is refused, each on its own, so that the others get in.

    For each the version of its change, or what speaks against it.
    """
    try:
        return [collection.upsert(items)] * len(items)
    except MultifoldError as error:
        return [error] if len(items) == 1 else [write_items(collection, [item])[0] for item in items]


def encode_webp(view: Pixels) -> bytes:
    """A view as it is stored for people."""
    out = io.BytesIO()
    Image.fromarray(view).save(out, "WEBP", quality=90, method=2)
    return out.getvalue()


def _put_blob(blobs: Blobs, draft: ItemDraft, data: bytes, suffix: str) -> str:
    place = blobs.in_place(blobs.key(data, suffix)) if draft.spared else None
    spared = place is not None and any(place.resolve().is_relative_to(folder) for folder in draft.spared)
    return blobs.put(data, suffix, copy=draft.copy and not spared)


def _encode_pictures(
    observer: ObservationEncoder,
    put: Callable[[bytes, str], str],
    kind: Kind,
    seen: list[Pixels],
    files: list[tuple[bytes, str]],
) -> tuple[Observation, ...]:
    if not seen:
        return ()
    features = observer.encoder.pixels(np.stack(seen))
    with ThreadPoolExecutor(BLOB_WRITERS) as writers:
        keys = list(writers.map(lambda file: put(*file), files))
    return pictures_of(kind, features, keys)
