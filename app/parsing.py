"""Requests become questions: JSON or a form, checked against the limits."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from app.errors import ApiError, in_words
from app.questions import Clue, Given, Known, Options, Picture, Question, Shape, Text
from app.schemas.search import AskedWith, SearchBody, SearchOptions
from app.uploads import File, from_data_uri, mesh_of
from index.truth import filters
from index.truth.filters import Filter
from multifold.errors import needs_extra
from multifold.types import Side, Target

with needs_extra("serve"):
    from pydantic import BaseModel, ValidationError
    from starlette.datastructures import FormData, UploadFile

CLUES = ("text", "image", "mesh", "id", "vector")
FORM_CLUES = CLUES[:3]
FORM_OPTIONS = ("filter", "mesh_format")
SIDES: tuple[Side, ...] = ("shape", "image", "text")  # of an item that is asked with
B = TypeVar("B", bound=BaseModel)


def checked(model: type[B], values: Any) -> B:  # noqa: ANN401 (any JSON)
    """Values as a model, or a 422."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ApiError(422, "bad_request", in_words(list(error.errors()))) from None


def checked_json(model: type[B], body: bytes) -> B:
    """JSON text as a model, or a 422."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise ApiError(422, "bad_request", in_words(list(error.errors()))) from None


def question_of(asked: SearchBody, max_text: int) -> Question:
    """A search in JSON."""
    options = options_of(asked)
    if asked.mix is None:
        return Question(((clue_of(asked, asked.target, max_text), 1.0),), options)
    alone = _given(asked)
    if alone:
        raise _several(["mix", *alone])
    clues = tuple((clue_of(part, asked.target, max_text), part.weight) for part in asked.mix)
    return Question(clues, options)


async def question_from_form(form: FormData, max_text: int) -> Question:
    """A search in multipart/form-data."""
    fields = {name: value for name, value in form.items() if name not in (*FORM_CLUES, *FORM_OPTIONS)}
    raw = word(form.get("filter"))
    options = options_of(
        checked(SearchOptions, {**fields, "filter": _object(raw, "filter") if raw else None})
    )
    clues = [(name, value) for name, value in form.multi_items() if name in FORM_CLUES]
    if len(clues) != 1:
        raise _several([name for name, _ in clues]) if clues else _none()
    ((name, value),) = clues
    clue = _sense(name, await received(value), word(form.get("mesh_format")), max_text)
    return Question(((clue, 1.0),), options)


def options_of(asked: SearchOptions) -> Options:
    """How to search."""
    return Options(
        asked.target,
        asked.limit,
        asked.offset,
        where(asked.filter),
        asked.pool,
        asked.min_score,
        asked.min_confidence,
        asked.exact,
        asked.lexical,
        asked.duplicates,
        asked.explain,
    )


def where(raw: Mapping[str, Any] | None) -> Filter | None:
    """A filter as the index takes it; an empty one lets everything through."""
    return filters.parse(raw) if raw else None


def text_of(value: str | File, most: int) -> str:
    """Words, neither none nor too many."""
    if isinstance(value, File):
        raise ApiError(422, "bad_text", "a text must be a plain field, not a file")
    if not value.strip():
        raise ApiError(422, "bad_text", "the text is empty; say what to look for")
    if len(value) > most:
        raise ApiError(422, "bad_text", f"the text has {len(value):,} characters; {most:,} are the most")
    return value


def file_of(value: str | File, what: str) -> File:
    """A file, whichever way it came."""
    return value if isinstance(value, File) else from_data_uri(value, what)


async def received(value: UploadFile | str) -> str | File:
    """A field of a form."""
    if isinstance(value, str):
        return value
    return File(await value.read(), value.filename or "", value.content_type or "")


def word(value: UploadFile | str | None) -> str | None:
    """A plain field of a form."""
    if isinstance(value, UploadFile):
        raise ApiError(422, "bad_request", f"{value.filename!r} is a file where a plain field is wanted")
    return value


def payload_of(raw: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """A payload that can be stored."""
    payload = _object(raw or "{}", "payload") if not isinstance(raw, Mapping) else dict(raw)
    try:
        json.dumps(payload, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise ApiError(422, "bad_payload", "'payload' is not JSON that can be stored") from None
    return payload


def _object(raw: str, what: str) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        raise ApiError(422, f"bad_{what}", f"'{what}' is not JSON that can be read") from None
    if not isinstance(found, dict):
        raise ApiError(422, f"bad_{what}", f"'{what}' must be a JSON object")
    return found


def _given(asked: AskedWith) -> list[str]:
    return [name for name in CLUES if getattr(asked, name) is not None]


def clue_of(asked: AskedWith, target: Target, max_text: int) -> Clue:
    """The one thing that is asked with."""
    given = _given(asked)
    if len(given) != 1:
        raise _several(given) if given else _none()
    if asked.vector is not None:
        return Given(tuple(asked.vector))
    if asked.id is not None:
        return Known(asked.id, sides_for(asked.side, target))
    return _sense(given[0], getattr(asked, given[0]), asked.mesh_format, max_text)


def sides_for(side: Side | None, target: Target) -> tuple[Side, ...]:
    """Which side of an item is asked with: this one, else the target's, else the first that it has."""
    if side is not None:
        return (side,)
    return SIDES if target == "any" else (target, *(one for one in SIDES if one != target))


def _sense(name: str, value: str | File, mesh_format: str | None, max_text: int) -> Clue:
    if name == "text":
        return Text(text_of(value, max_text))
    if name == "image":
        return Picture(file_of(value, name).data)
    return Shape(mesh_of(file_of(value, name), mesh_format))


def _none() -> ApiError:
    sentence = "ask with exactly one of 'text', 'image', 'mesh', 'id', 'vector' and 'mix'; there is none"
    return ApiError(422, "no_query", sentence)


def _several(names: list[str]) -> ApiError:
    sentence = f"ask with exactly one of text, image, mesh, id, vector and mix, not {' and '.join(names)}"
    return ApiError(422, "several_queries", sentence)
