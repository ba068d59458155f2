"""Forms as bodies: a search with a file, and an item with its files."""

import json
from collections.abc import Mapping
from typing import Any

from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.requests import Request
from starlette.routing import Match
from starlette.types import Scope

from app.errors import ApiError
from app.http.openapi import BINARY_FILE
from multifold.wire.files import UploadedFile
from multifold.wire.items import NewItem
from multifold.wire.search import QUERY_FIELDS, Search, SearchOptions, one_of_error
from multifold.wire.validation import validate

SEARCH_FIELDS = ("text", "image", "mesh")  # that a form can be asked with
OBJECTS = ("filter", "examples")  # in JSON
ITEM_FIELDS = ("texts", "images", "mesh", "mesh_format", "payload")


class FormRoute(APIRoute):
    """A route for what is not JSON; the same path has another one for JSON."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        json_body = media_type(Headers(scope=scope)) == "application/json"
        return (Match.NONE, {}) if json_body else super().matches(scope)


def media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def check_form(request: Request, otherwise: str) -> None:
    """Refuse what is no form; `otherwise` says what to send."""
    if media_type(request.headers) != "multipart/form-data":
        raise ApiError(415, "unsupported_media_type", otherwise)


async def read_search_form(form: FormData) -> Search:
    """A search with one text, image or mesh."""
    others = (*SEARCH_FIELDS, *OBJECTS, "mesh_format")
    options: dict[str, Any] = {name: value for name, value in form.items() if name not in others}
    for name in OBJECTS:
        if text := plain_field(form.get(name)):
            options[name] = json_object(text, name)
    known = validate(SearchOptions, options)
    asked = [(name, value) for name, value in form.multi_items() if name in SEARCH_FIELDS]
    if len(asked) != 1:
        raise one_of_error((*QUERY_FIELDS, "mix"), [name for name, _ in asked])
    ((name, value),) = asked
    asked_with = {name: text_field(value) if name == "text" else await file_field(value)}
    return Search.of(known, mesh_format=plain_field(form.get("mesh_format")), **asked_with)


async def read_item_form(item_id: str, form: FormData) -> NewItem:
    """An item, whose id is in the path."""
    unknown = sorted(set(form) - set(ITEM_FIELDS))
    if unknown:
        sentence = f"unknown field {unknown[0]!r}; fields are {', '.join(ITEM_FIELDS)}"
        raise ApiError(422, "bad_request", sentence)
    meshes = form.getlist("mesh")
    if len(meshes) > 1:
        raise ApiError(422, "bad_mesh", f"an item has one mesh at most, not {len(meshes)}")
    return NewItem(
        item_id,
        texts=[text_field(text) for text in form.getlist("texts")],
        images=[await file_field(image) for image in form.getlist("images")],
        mesh=await file_field(meshes[0]) if meshes else None,
        mesh_format=plain_field(form.get("mesh_format")),
        payload=json_object(plain_field(form.get("payload")) or "{}", "payload"),
    )


async def file_field(value: UploadFile | str) -> UploadedFile | str:
    """A file; a plain field may have a data URI or an address."""
    if isinstance(value, str):
        return value
    return UploadedFile(await value.read(), value.filename or "", value.content_type or "")


def text_field(value: UploadFile | str) -> str:
    if isinstance(value, UploadFile):
        raise ApiError(422, "bad_text", "a text must be a plain field, not a file")
    return value


def plain_field(value: UploadFile | str | None) -> str | None:
    if isinstance(value, UploadFile):
        raise ApiError(422, "bad_request", f"{value.filename!r} is a file where a plain field is wanted")
    return value


def json_object(raw: str, what: str) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        raise ApiError(422, f"bad_{what}", f"'{what}' is not JSON that can be read") from None
    if not isinstance(found, dict):
        raise ApiError(422, f"bad_{what}", f"'{what}' must be a JSON object")
    return found


def search_form_schema() -> dict[str, Any]:
    """The form of a search, for OpenAPI."""
    options = TypeAdapter(SearchOptions).json_schema()["properties"]
    for name in OBJECTS:
        options[name] = {"type": "string", "description": f"a JSON object: {options[name]['description']}"}
    for name, field in options.items():  # a form leaves out what JSON may say to be null
        kinds = [one for one in field.pop("anyOf", []) if one["type"] != "null"]
        options[name] = {**field, **(kinds[0] if kinds else {})}
    text = {"type": "string"}
    query = {"text": text, "image": BINARY_FILE, "mesh": BINARY_FILE, "mesh_format": text}
    return {
        "type": "object",
        "properties": {**query, **options},
        "oneOf": [{"required": [name]} for name in SEARCH_FIELDS],
        "additionalProperties": False,
        "examples": [{"text": "a red chair", "limit": 5}],
    }


ITEM_FORM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "texts": {"type": "array", "items": {"type": "string"}, "description": "captions"},
        "images": {
            "type": "array",
            "items": BINARY_FILE,
            "description": "photos, or addresses if it may fetch",
        },
        "mesh": {**BINARY_FILE, "description": "a 3D shape; its views are rendered here"},
        "mesh_format": {"type": "string", "description": "where the file name does not tell, such as glb"},
        "payload": {"type": "string", "description": "your own JSON object, kept with the item"},
    },
    "examples": [{"texts": ["a red chair with four legs"], "payload": '{"colour": "red"}'}],
}


def form_body(schema: dict[str, Any]) -> dict[str, Any]:
    """A route's body as a form, for OpenAPI."""
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}
