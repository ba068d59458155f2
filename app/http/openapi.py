"""What OpenAPI needs beside the routes: the shape of errors, and bodies that routes read themselves."""

from collections.abc import Callable
from typing import Any

from multifold.errors import needs_extra

with needs_extra("serve"):
    from fastapi import FastAPI
    from pydantic import BaseModel
    from pydantic.json_schema import models_json_schema

SCHEMA_REFERENCE = "#/components/schemas/{model}"
BINARY_FILE = {"type": "string", "format": "binary"}
FILE_RESPONSE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {"schema": BINARY_FILE}}, "description": "the file"}
}

STATUS_DESCRIPTIONS = {
    400: "the body cannot be read",
    401: "a key is needed; the message says of which scope",
    403: "the key may not do this",
    404: "there is no such thing",
    409: "the name, or the thing, is in use",
    413: "the body is too large",
    415: "the body is of a kind that is not understood",
    422: "the request cannot be answered; the message says why",
    429: "too much is asked at once; the header Retry-After says when to try again",
    503: "not ready; the message says why",
}


class ErrorDetail(BaseModel):
    """What went wrong: a code for programs, a sentence for people."""

    code: str
    message: str
    request_id: str


class ErrorAnswer(BaseModel):
    """The shape of every error."""

    error: ErrorDetail


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Responses of a route, all in the one shape of errors."""
    return {status: {"model": ErrorAnswer, "description": STATUS_DESCRIPTIONS[status]} for status in statuses}


def describe_body(model: type[BaseModel], **others: dict[str, Any]) -> dict[str, Any]:
    """A body for OpenAPI: JSON of a model, or other kinds by their schemas."""
    schemas = {"application/json": {"$ref": SCHEMA_REFERENCE.format(model=model.__name__)}, **others}
    content = {kind: {"schema": schema} for kind, schema in schemas.items()}
    return {"requestBody": {"required": True, "content": content}}


def describe_models(app: FastAPI, *models: type[BaseModel]) -> Callable[[], dict[str, Any]]:
    """The application's description, with the models of the bodies that it does not read itself."""
    describe = app.openapi

    def describe_all() -> dict[str, Any]:
        document = describe()
        _, schemas = models_json_schema(
            [(model, "validation") for model in models], ref_template=SCHEMA_REFERENCE
        )
        document["components"]["schemas"].update(schemas["$defs"])
        return document

    return describe_all
