"""Requests become drafts of items: a form, or JSON with data URIs, checked against the limits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.errors import ApiError
from app.observer import Mesh
from app.parsing import checked, file_of, payload_of, received, text_of, word
from app.schemas.items import ItemBody
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


async def parts_from_form(item_id: str, form: FormData, max_text: int) -> Parts:
    """An item in multipart/form-data."""
    unknown = sorted(set(form) - set(PARTS))
    if unknown:
        raise ApiError(422, "bad_request", f"unknown field {unknown[0]!r}; fields are {', '.join(PARTS)}")
    texts = [await received(value) for value in form.getlist("texts")]
    images = [await received(value) for value in form.getlist("images")]
    meshes = [file_of(await received(value), "mesh") for value in form.getlist("mesh")]
    if len(meshes) > 1:
        raise ApiError(422, "bad_mesh", f"an item has one mesh at most, not {len(meshes)}")
    mesh = mesh_of(meshes[0], word(form.get("mesh_format"))) if meshes else None
    return _parts(item_id, texts, images, mesh, payload_of(word(form.get("payload"))), max_text)


def parts_from_json(raw: Mapping[str, Any], max_text: int, max_files: int) -> Parts:
    """An item in JSON."""
    body = checked(ItemBody, raw)
    if len(body.images) + (body.mesh is not None) > max_files:
        raise ApiError(422, "too_many_files", f"an item has {max_files} files at most in one request")
    mesh = mesh_of(file_of(body.mesh, "mesh"), body.mesh_format) if body.mesh is not None else None
    return _parts(body.id, body.texts, body.images, mesh, payload_of(body.payload), max_text)


def check_id(item_id: str) -> None:
    """Refuse an id that could be written, but never asked for."""
    if item_id in (".", ".."):
        raise ApiError(422, "bad_id", f"an address cannot hold the id {item_id!r}; choose another")


def _parts(
    item_id: str,
    texts: list[str | File] | list[str],
    images: list[str | File] | list[str],
    mesh: Mesh | None,
    payload: Mapping[str, Any],
    max_text: int,
) -> Parts:
    check_id(item_id)
    said = tuple(text_of(text, max_text) for text in texts)
    photos = tuple(file_of(image, "image").data for image in images)
    return Parts(item_id, said, photos, mesh, payload)
