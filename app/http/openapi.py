"""What OpenAPI needs beside the routes: the shape of errors, and bodies that routes read themselves."""

from typing import Any

from fastapi import FastAPI, Response
from pydantic import BaseModel, Field
from pydantic.json_schema import models_json_schema

from app.errors import CODES, STATUSES

BODIES_READ_BY_ROUTES: list[type[BaseModel]] = []
SCHEMA_REFERENCE = "#/components/schemas/{model}"
BINARY_FILE = {"type": "string", "format": "binary"}


CODES_DESCRIPTION = "; ".join(f"`{code}`: {why}" for code, why in CODES.items())


class ErrorDetail(BaseModel):
    """What went wrong: a code for programs, a sentence for people."""

    code: str = Field(description=CODES_DESCRIPTION, json_schema_extra={"enum": [*CODES]})
    message: str
    request_id: str


class ErrorAnswer(BaseModel):
    """The shape of every error."""

    error: ErrorDetail


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Responses of a route, all in the one shape of errors."""
    return {status: {"model": ErrorAnswer, "description": STATUSES[status][1]} for status in statuses}


def file_route(media_type: str, what: str) -> dict[str, Any]:
    """Options of a route that answers with a file."""
    answer = {"content": {media_type: {"schema": BINARY_FILE}}, "description": what}
    return {"response_class": Response, "responses": {200: answer, **error_responses(404, 422)}}


FILE = file_route("application/octet-stream", "the file")


def body_route(model: type[BaseModel], *statuses: int, **others: dict[str, Any]) -> dict[str, Any]:
    """Options of a route that reads its body itself: JSON of a model, or other kinds by their schemas."""
    BODIES_READ_BY_ROUTES.append(model)
    schemas = {"application/json": {"$ref": SCHEMA_REFERENCE.format(model=model.__name__)}, **others}
    content = {kind: {"schema": schema} for kind, schema in schemas.items()}
    return {
        "responses": error_responses(*sorted((*statuses, 413, 415, 422, 429, 503))),
        "openapi_extra": {"requestBody": {"required": True, "content": content}},
    }


def describe_models(app: FastAPI) -> None:
    """Give the application's description the models of the bodies that its routes read themselves."""
    describe = app.openapi

    def describe_all() -> dict[str, Any]:
        document = describe()
        _, schemas = models_json_schema(
            [(model, "validation") for model in BODIES_READ_BY_ROUTES], ref_template=SCHEMA_REFERENCE
        )
        document["components"]["schemas"].update(schemas["$defs"])
        return document

    app.openapi = describe_all  # type: ignore[method-assign]
