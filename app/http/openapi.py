"""What OpenAPI needs beside the routes: names, tags, keys and errors."""

from typing import Any

from fastapi import FastAPI, Response
from fastapi.sse import EventSourceResponse
from pydantic import BaseModel, Field
from pydantic.json_schema import models_json_schema

from app.errors import CODES, STATUSES
from app.http.access import required_scope
from multifold.wire.messages import Answer

COLLECTION_PATH = "/v1/collections/{collection}"
SCHEMA_REFERENCE = "#/components/schemas/{model}"
ERROR_CONTENT = {"application/json": {"schema": {"$ref": SCHEMA_REFERENCE.format(model="ErrorAnswer")}}}
BINARY_FILE = {"type": "string", "format": "binary"}
TAGS = {
    "search": "Find items by texts, images, meshes, items and vectors.",
    "items": "Write, read, change, list and remove items, and look at their pictures.",
    "facets": "Count the values of payload keys.",
    "labels": "Rank candidates, choose among labels, and propose, accept and remove tags.",
    "feedback": "Keep verdicts on hits, and read them.",
    "insight": "See why an item matches, and how general a query is.",
    "embeddings": "Get index vectors of texts, images and meshes, in the shape of OpenAI's API.",
    "snapshots": "Take, download and remove copies of a collection.",
    "collections": "Create, rebuild, rename and drop collections, and see their bundles.",
    "jobs": "Follow long operations, and cancel them.",
    "info": "Read versions, the encoder, the collection and the limits.",
    "health": "Watch the service.",
}
KEY = "A key of `multifold keys`. A service without keys asks for none."
SECURITY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer", "description": KEY},
    "key": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": KEY},
}
WITH_OR_WITHOUT_KEY: list[dict[str, list[str]]] = [{"bearer": []}, {"key": []}, {}]


PARAMETERS = {  # of several routes
    "item_id": "id of the item",
    "index": "its place among those of its kind, from 0",
    "v": "the beginning of its hash, as answers give it: then it may be kept",
    "small": "for grids: WebP of at most 256 pixels a side",
    "name": "as a list of them gives it",
    "alias": "the name that stands for a collection",
    "job_id": "id of the job",
    "feedback_id": "id of the verdict",
}
CODES_DESCRIPTION = "; ".join(f"`{code}`: {why}" for code, why in CODES.items())


def operation_name(route: Any) -> str:  # noqa: ANN401 (a route, or its context in an application)
    """The name of an operation: that of its function."""
    name: str = route.name
    return name


class ErrorDetail(BaseModel):
    """What went wrong: a code for programs, a sentence for people."""

    code: str = Field(description=CODES_DESCRIPTION, json_schema_extra={"enum": [*CODES]})
    message: str = Field(description="what is wrong and what to do, in a sentence")
    request_id: str = Field(description="by which the service's log names the request")


class ErrorAnswer(BaseModel):
    """The shape of every error."""

    error: ErrorDetail = Field(description="what went wrong")


def error_schemas() -> dict[str, Any]:
    """Schemas of errors. A `model` in each response would be read anew for each route."""
    _, described = models_json_schema([(ErrorAnswer, "serialization")], ref_template=SCHEMA_REFERENCE)
    schemas: dict[str, Any] = described["$defs"]
    return schemas


def some_refused(model: type[Answer]) -> dict[int | str, dict[str, Any]]:
    """The answer of a request of several things, of which some were refused."""
    return {207: {"model": model, "description": "some were refused; the answer says which, and why"}}


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Responses of a route, all in the one shape of errors."""
    return {status: {"description": STATUSES[status][1], "content": ERROR_CONTENT} for status in statuses}


def file_route(media_type: str, what: str) -> dict[str, Any]:
    """Options of a route that answers with a file."""
    answer = {"content": {media_type: {"schema": BINARY_FILE}}, "description": what}
    return {"response_class": Response, "responses": {200: answer, **error_responses(404, 422)}}


def event_route(what: str) -> dict[str, Any]:
    """Options of a route that answers with server-sent events. Its errors are JSON like all others."""
    responses = {200: {"description": what}, **error_responses(404, 422, 429)}
    return {"response_class": EventSourceResponse, "responses": responses}


FILE = file_route("application/octet-stream", "the file")


def body_errors(*others: int) -> dict[int | str, dict[str, Any]]:
    """Responses of a route that reads a body, beside those of other errors."""
    return error_responses(*sorted((400, *others, 413, 415, 422, 429, 503)))


def complete_description(app: FastAPI, forms: dict[str, Any]) -> None:
    """Say in the application's description what forms hold, what parameters are, and which key is needed."""
    describe = app.openapi

    def describe_all() -> dict[str, Any]:
        document = describe()
        document["components"]["securitySchemes"] = SECURITY_SCHEMES
        document["components"]["schemas"] |= error_schemas() | forms
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                for parameter in operation.get("parameters", ()):
                    parameter.setdefault("description", PARAMETERS.get(parameter["name"], ""))
                for content in operation.get("requestBody", {}).get("content", {}).values():
                    content["schema"].pop("default", None)  # its fields have their own
                _describe_key(operation, required_scope(method.upper(), path))
        return document

    app.openapi = describe_all  # type: ignore[method-assign]


def _describe_key(operation: dict[str, Any], scope: str | None) -> None:
    operation["security"] = [] if scope is None else WITH_OR_WITHOUT_KEY
    if scope is not None:
        operation["x-scope"] = scope  # of the key
        for status in (401, 403):
            operation["responses"][str(status)] = {
                "description": STATUSES[status][1],
                "content": ERROR_CONTENT,
            }
        operation["responses"] = dict(sorted(operation["responses"].items()))
