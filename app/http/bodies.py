"""Reads JSON bodies, large ones off the event loop, and describes them for OpenAPI."""

from collections.abc import Callable
from typing import Any, TypeVar

from app.errors import ApiError
from app.http.parsing import validate_json
from app.ingest.uploads import media_type
from app.runtime.runtime import CollectionRuntime
from multifold.errors import needs_extra

with needs_extra("serve"):
    from fastapi import FastAPI, Request
    from pydantic import BaseModel
    from pydantic.json_schema import models_json_schema

SMALL_BODY = 64 * 1024  # a body that is read faster than a thread is woken
SCHEMA_REFERENCE = "#/components/schemas/{model}"
BINARY_FILE = {"type": "string", "format": "binary"}
B = TypeVar("B", bound=BaseModel)


async def json_body(request: Request, at: CollectionRuntime, model: type[B]) -> B:
    """The body as a model, or a refusal."""
    if media_type(request.headers) != "application/json":
        raise ApiError(415, "unsupported_media_type", "send application/json")
    body = await request.body()
    if len(body) <= SMALL_BODY:
        return validate_json(model, body)
    return await at.run(lambda: validate_json(model, body))


def describe_body(model: type[BaseModel], **others: dict[str, Any]) -> dict[str, Any]:
    """A body for OpenAPI: JSON of a model, or other kinds by their schemas."""
    schemas = {"application/json": {"$ref": SCHEMA_REFERENCE.format(model=model.__name__)}, **others}
    content = {kind: {"schema": schema} for kind, schema in schemas.items()}
    return {"requestBody": {"required": True, "content": content}}


def describe_models(app: FastAPI, *models: type[BaseModel]) -> Callable[[], dict[str, Any]]:
    """The application's description, with the models of the bodies that it does not read itself."""
    plain = app.openapi

    def whole() -> dict[str, Any]:
        found = plain()
        _, schemas = models_json_schema(
            [(model, "validation") for model in models], ref_template=SCHEMA_REFERENCE
        )
        found["components"]["schemas"].update(schemas["$defs"])
        return found

    return whole
