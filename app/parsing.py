"""Requests become questions and drafts: JSON or multipart, checked against the limits."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from app.errors import ApiError, in_words
from app.questions import Clue, Picture, Question, Shape, Words
from app.schemas import SearchBody, SearchOptions
from app.uploads import File, Mesh, from_data_uri, mesh_of
from multifold.errors import needs_extra

with needs_extra("serve"):
    from pydantic import BaseModel, ValidationError
    from starlette.datastructures import FormData, UploadFile

CLUES = ("text", "image", "mesh")
PARTS = ("texts", "images", "mesh", "mesh_format", "payload")
B = TypeVar("B", bound=BaseModel)


@dataclass(frozen=True)
class Parts:
    """What an item is to be made of."""

    texts: tuple[str, ...]
    photos: tuple[bytes, ...]
    mesh: Mesh | None
    payload: Mapping[str, Any]


def question_from_json(body: bytes, max_text: int) -> Question:
    """A search in JSON."""
    try:
        asked = SearchBody.model_validate_json(body)
    except ValidationError as error:
        raise ApiError(422, "bad_request", in_words(list(error.errors()))) from None
    given = {name: value for name in CLUES if (value := getattr(asked, name)) is not None}
    return _question(given, asked, max_text)


async def question_from_form(form: FormData, max_text: int) -> Question:
    """A search in multipart/form-data."""
    options = _checked(SearchOptions, {name: value for name, value in form.items() if name not in CLUES})
    clues = [(name, value) for name, value in form.multi_items() if name in CLUES]
    if len(clues) > 1:
        raise _several([name for name, _ in clues])
    return _question({name: await _received(value) for name, value in clues}, options, max_text)


async def parts_from_form(form: FormData, max_text: int) -> Parts:
    """An item in multipart/form-data."""
    unknown = sorted(set(form) - set(PARTS))
    if unknown:
        raise ApiError(422, "bad_request", f"unknown field {unknown[0]!r}; fields are {', '.join(PARTS)}")
    texts = tuple([_text(await _received(value), max_text) for value in form.getlist("texts")])
    photos = tuple([_file(await _received(value), "image").data for value in form.getlist("images")])
    meshes = [_file(await _received(value), "mesh") for value in form.getlist("mesh")]
    if len(meshes) > 1:
        raise ApiError(422, "bad_mesh", f"an item has one mesh at most, not {len(meshes)}")
    form_of_mesh = _word(form.get("mesh_format"))
    mesh = mesh_of(meshes[0], form_of_mesh) if meshes else None
    return Parts(texts, photos, mesh, _payload(_word(form.get("payload"))))


def _question(given: Mapping[str, str | File], options: SearchOptions, max_text: int) -> Question:
    if not given:
        raise ApiError(422, "no_query", "ask with exactly one of 'text', 'image' and 'mesh'; there is none")
    if len(given) > 1:
        raise _several(list(given))
    ((name, value),) = given.items()
    clue = _clue(name, value, options.mesh_format, max_text)
    return Question(clue, options.target, options.limit, options.pool)


def _clue(name: str, value: str | File, mesh_format: str | None, max_text: int) -> Clue:
    if name == "text":
        return Words(_text(value, max_text))
    if name == "image":
        return Picture(_file(value, name).data)
    return Shape(mesh_of(_file(value, name), mesh_format))


def _text(value: str | File, most: int) -> str:
    if isinstance(value, File):
        raise ApiError(422, "bad_text", "a text must be a plain field, not a file")
    if not value.strip():
        raise ApiError(422, "bad_text", "the text is empty; say what to look for")
    if len(value) > most:
        raise ApiError(422, "bad_text", f"the text has {len(value):,} characters; {most:,} are the most")
    return value


def _file(value: str | File, what: str) -> File:
    return value if isinstance(value, File) else from_data_uri(value, what)


async def _received(value: UploadFile | str) -> str | File:
    if isinstance(value, str):
        return value
    return File(await value.read(), value.filename or "", value.content_type or "")


def _word(value: UploadFile | str | None) -> str | None:
    if isinstance(value, UploadFile):
        raise ApiError(422, "bad_request", f"{value.filename!r} is a file where a plain field is wanted")
    return value


def _payload(raw: str | None) -> dict[str, Any]:
    try:
        payload = json.loads(raw or "{}")
        json.dumps(payload, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise ApiError(422, "bad_payload", "'payload' is not JSON that can be stored") from None
    if not isinstance(payload, dict):
        raise ApiError(422, "bad_payload", "'payload' must be a JSON object")
    return payload


def _checked(model: type[B], values: Mapping[str, Any]) -> B:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ApiError(422, "bad_request", in_words(list(error.errors()))) from None


def _several(names: list[str]) -> ApiError:
    sentence = f"ask with exactly one of text, image and mesh, not {' and '.join(names)}"
    return ApiError(422, "several_queries", sentence)
