"""JSON bodies that routes read themselves: large ones are parsed off the event loop, all are described."""

from collections.abc import Callable
from typing import Any, TypeVar

from app.errors import ApiError
from app.offload import Desk
from app.parsing import checked_json
from app.uploads import media_type
from multifold.errors import needs_extra

with needs_extra("serve"):
    from fastapi import FastAPI, Request
    from pydantic import BaseModel
    from pydantic.json_schema import models_json_schema

SMALL = 64 * 1024  # a body that is read faster than a thread is woken
REFERENCE = "#/components/schemas/{model}"
FILE = {"type": "string", "format": "binary"}
B = TypeVar("B", bound=BaseModel)


async def json_body(request: Request, at: Desk, model: type[B]) -> B:
    """The body as a model, or a refusal."""
    if media_type(request.headers) != "application/json":
        raise ApiError(415, "unsupported_media_type", "send application/json")
    body = await request.body()
    if len(body) <= SMALL:
        return checked_json(model, body)
    return await at.run(lambda: checked_json(model, body))


def described(model: type[BaseModel], **others: dict[str, Any]) -> dict[str, Any]:
    """A body for OpenAPI: JSON of a model, or other kinds by their schemas."""
    schemas = {"application/json": {"$ref": REFERENCE.format(model=model.__name__)}, **others}
    content = {kind: {"schema": schema} for kind, schema in schemas.items()}
    return {"requestBody": {"required": True, "content": content}}


def describing(app: FastAPI, *models: type[BaseModel]) -> Callable[[], dict[str, Any]]:
    """The application's description, with the models of the bodies that it does not read itself."""
    plain = app.openapi

    def whole() -> dict[str, Any]:
        found = plain()
        _, schemas = models_json_schema([(model, "validation") for model in models], ref_template=REFERENCE)
        found["components"]["schemas"].update(schemas["$defs"])
        return found

    return whole
