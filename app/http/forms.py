"""Forms as bodies: a search with a file, and an item with its files."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from pydantic import TypeAdapter
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.requests import Request
from starlette.routing import Match
from starlette.types import Scope

from app.errors import ApiError
from app.http.json_bodies import parse_json
from app.http.openapi import BINARY_FILE, SCHEMA_REFERENCE
from app.http.routers import CollectionRoute
from multifold.wire.files import UploadedFile
from multifold.wire.items import ItemBody, NewItem
from multifold.wire.messages import Body, UnknownFieldError
from multifold.wire.search import Search, SearchOptions
from multifold.wire.validation import validate

SEARCH_FIELDS = ("text", "image", "mesh")  # that a form can be asked with
SEARCH_OBJECTS = ("filter", "examples")  # in JSON
ITEM_OBJECTS = ("payload", "vectors")
OBJECTS = (*SEARCH_OBJECTS, *ITEM_OBJECTS)
FILE_FIELDS = ("image", "mesh")
FILE_LISTS = ("images",)
LISTS = ("fields", "as_text", "collections")  # of a search
FORM_FIELDS = (*SEARCH_FIELDS, "mesh_format", "collections", *(one.name for one in fields(SearchOptions)))
NUMBER_FIELDS = tuple(one.name for one in fields(SearchOptions) if one.metadata.get("strict"))
ITEM_FIELDS = tuple(one.name for one in fields(NewItem))


class FormRoute(CollectionRoute):
    """A route for what is not JSON; the same path has another one for JSON."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        json_body = media_type(Headers(scope=scope)) == "application/json"
        return (Match.NONE, {}) if json_body else super().matches(scope)


def media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def check_form(request: Request) -> None:
    """Refuse what is no form; a path of forms alone ends so."""
    if media_type(request.headers) != "multipart/form-data":
        kinds = "" if request.url.path.endswith("/form") else "application/json or "
        raise ApiError(415, "unsupported_media_type", f"send {kinds}multipart/form-data")


async def read_search_form(form: FormData) -> Search:
    check_fields(form, FORM_FIELDS)
    others = (*SEARCH_FIELDS, *SEARCH_OBJECTS, *LISTS, "mesh_format")
    options: dict[str, Any] = {name: value for name, value in form.items() if name not in others}
    lists = {name: [text_field(one) for one in form.getlist(name)] or None for name in LISTS}
    collections = lists.pop("collections")
    options |= {name: values for name, values in lists.items() if values}
    for name in SEARCH_OBJECTS:
        if text := plain_field(form.get(name)):
            options[name] = json_object(text, name)
    options |= {name: number_of(value) for name, value in options.items() if name in NUMBER_FIELDS}
    known = validate(SearchOptions, options)
    asked = [(name, value) for name, value in form.multi_items() if name in SEARCH_FIELDS]
    if len(asked) != 1:
        raise Search.one_of_error([name for name, _ in asked])
    ((name, value),) = asked
    asked_with = {name: text_field(value) if name == "text" else await file_field(value)}
    mesh_format = plain_field(form.get("mesh_format"))
    return Search.of(known, mesh_format=mesh_format, collections=collections, **asked_with)


async def read_item_form(form: FormData, item_id: str | None) -> NewItem:
    """An item, whose id is in the path or a field."""
    check_fields(form, ITEM_FIELDS if item_id is None else [name for name in ITEM_FIELDS if name != "id"])
    named = plain_field(form.get("id")) if item_id is None else item_id
    if named is None:
        raise ApiError(422, "bad_request", "'id' is missing")
    meshes = form.getlist("mesh")
    if len(meshes) > 1:
        raise ApiError(422, "bad_mesh", f"an item has one mesh at most, not {len(meshes)}")
    objects = {name: json_object(plain_field(form.get(name)) or "{}", name) for name in ITEM_OBJECTS}
    return NewItem.of(
        validate(ItemBody, objects),
        id=named,
        texts=[text_field(text) for text in form.getlist("texts")],
        images=[await file_field(image) for image in form.getlist("images")],
        mesh=await file_field(meshes[0]) if meshes else None,
        mesh_format=plain_field(form.get("mesh_format")),
    )


def check_fields(form: FormData, known: Sequence[str]) -> None:
    for name in form:
        if name not in known:
            raise UnknownFieldError(name, known)


async def file_field(value: UploadFile | str) -> UploadedFile | str:
    """A file; a plain field may have a data URI or an address."""
    if isinstance(value, str):
        return value
    return UploadedFile(await value.read(), value.filename or "", value.content_type or "")


def number_of(value: object) -> object:
    """A number that a plain field states; anything else as it is."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


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
        found = parse_json(raw)
    except (ValueError, RecursionError):
        raise ApiError(422, f"bad_{what}", f"'{what}' is not JSON that can be read") from None
    if not isinstance(found, dict):
        raise ApiError(422, f"bad_{what}", f"'{what}' must be a JSON object")
    return found


def form_schema(kind: type[Body], without: Sequence[str] = (), **schema: Any) -> dict[str, Any]:  # noqa: ANN401
    """A body as a form, for OpenAPI: files as they are, objects as JSON, and nothing that may be null."""
    described = TypeAdapter(kind).json_schema()["properties"]
    form = {name: _form_field(name, one) for name, one in described.items() if name not in without}
    return {"type": "object", "properties": form, "additionalProperties": False, **schema}


def form_body(name: str) -> dict[str, Any]:
    """A form of `FORMS` as the body of a route."""
    content = {"schema": {"$ref": SCHEMA_REFERENCE.format(model=name)}}
    return {"requestBody": {"required": True, "content": {"multipart/form-data": content}}}


def _form_field(name: str, field: dict[str, Any]) -> dict[str, Any]:
    about = {"description": field.get("description", "its id")}
    if name in FILE_FIELDS:
        return BINARY_FILE | about
    if name in FILE_LISTS:
        return {"type": "array", "items": BINARY_FILE} | about
    if name in OBJECTS:
        return {"type": "string", "description": f"a JSON object: {field['description']}"}
    kinds = [one for one in field.pop("anyOf", []) if one["type"] != "null"]
    return {**field, **(kinds[0] if kinds else {})}


FORMS = {
    "SearchForm": form_schema(
        Search,
        ("id", "side", "vector", "mix"),
        description="A search with one text, image or mesh; files are sent as they are.",
        allOf=[{"oneOf": [{"required": [name]} for name in SEARCH_FIELDS]}],
        examples=[{"text": "a red chair", "limit": 5}],
    ),
    "ItemForm": form_schema(
        NewItem,
        description="An item to be written; files are sent as they are.",
        required=["id"],
        examples=[{"id": "chair-1", "texts": ["a red chair with legs"], "payload": '{"colour": "red"}'}],
    ),
}
