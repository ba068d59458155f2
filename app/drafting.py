"""Requests become drafts of items: a form, or JSON with data URIs or addresses, within the limits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.errors import ApiError
from app.fetching import Parcel
from app.observer import Mesh
from app.parsing import checked, payload_of, received, text_of, word
from app.schemas.items import ItemBody
from app.settings import Settings
from app.uploads import File, mesh_of
from multifold.errors import needs_extra

with needs_extra("serve"):
    from starlette.datastructures import FormData

PARTS = ("texts", "images", "mesh", "mesh_format", "payload")


@dataclass(frozen=True)
class Parts:
    """What an item is to be made of; its mesh is not drawn yet."""

    id: str
    texts: tuple[str, ...]
    photos: tuple[bytes, ...]
    mesh: Mesh | None
    payload: Mapping[str, Any]


@dataclass(frozen=True)
class Unread:
    """A mesh as it was handed in, and the format that was said."""

    file: str | File
    form: str | None


async def parts_from_form(item_id: str, form: FormData, parcel: Parcel, settings: Settings) -> Parts:
    """An item in multipart/form-data."""
    unknown = sorted(set(form) - set(PARTS))
    if unknown:
        raise ApiError(422, "bad_request", f"unknown field {unknown[0]!r}; fields are {', '.join(PARTS)}")
    texts = [await received(value) for value in form.getlist("texts")]
    images = [await received(value) for value in form.getlist("images")]
    meshes = [await received(value) for value in form.getlist("mesh")]
    if len(meshes) > 1:
        raise ApiError(422, "bad_mesh", f"an item has one mesh at most, not {len(meshes)}")
    mesh = Unread(meshes[0], word(form.get("mesh_format"))) if meshes else None
    payload = payload_of(word(form.get("payload")))
    return await _parts(item_id, texts, images, mesh, payload, parcel, settings)


async def parts_from_json(raw: Mapping[str, Any], parcel: Parcel, settings: Settings) -> Parts:
    """An item in JSON."""
    body = checked(ItemBody, raw)
    mesh = Unread(body.mesh, body.mesh_format) if body.mesh is not None else None
    return await _parts(body.id, body.texts, body.images, mesh, payload_of(body.payload), parcel, settings)


def check_id(item_id: str) -> None:
    """Refuse an id that could be written, but never asked for."""
    if item_id in (".", ".."):
        raise ApiError(422, "bad_id", f"an address cannot hold the id {item_id!r}; choose another")


async def _parts(
    item_id: str,
    texts: Sequence[str | File],
    images: Sequence[str | File],
    mesh: Unread | None,
    payload: Mapping[str, Any],
    parcel: Parcel,
    settings: Settings,
) -> Parts:
    check_id(item_id)
    if len(images) + (mesh is not None) > settings.max_files:
        sentence = f"an item has {settings.max_files} files at most in one request"
        raise ApiError(422, "too_many_files", sentence)
    said = tuple(text_of(text, settings.max_text) for text in texts)
    shape = mesh_of(await parcel.file(mesh.file, "mesh"), mesh.form) if mesh else None
    photos = tuple([(await parcel.file(image, "image")).data for image in images])
    return Parts(item_id, said, photos, shape, payload)
