"""POST /v1/search and /v1/search/batch: find items by texts, images, meshes, items and vectors."""

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import TypeAdapter

from app.errors import ApiError
from app.http import serialization
from app.http.dependencies import CollectionDep
from app.http.openapi import BINARY_FILE, body_route
from app.http.parsing import (
    FORM_OBJECTS,
    media_type,
    parse_parts,
    parse_search_form,
    read_body,
    validate,
)
from app.http.schemas.search import BatchSearchBody, SearchBody, SearchOptions
from app.runtime.runtime import CollectionRuntime
from app.search.query import WeightedParts
from multifold.errors import MultifoldError
from multifold.wire.search import BatchSearchAnswer, BatchSearchOutcome, SearchAnswer

router = APIRouter(tags=["search"])
SEARCH_ANSWER = TypeAdapter(SearchAnswer)


def _form() -> dict[str, Any]:
    """The form that can be searched with, for OpenAPI."""
    options = SearchOptions.model_json_schema()["properties"]
    for name in FORM_OBJECTS:
        options[name] = {"type": "string", "description": f"a JSON object: {options[name]['description']}"}
    for name, field in options.items():  # a form leaves out what JSON may say to be null
        kinds = [one for one in field.pop("anyOf", []) if one["type"] != "null"]
        options[name] = {**field, **(kinds[0] if kinds else {})}
    text = {"type": "string"}
    query = {"text": text, "image": BINARY_FILE, "mesh": BINARY_FILE, "mesh_format": text}
    ways = [{"required": [name]} for name in ("text", "image", "mesh")]
    return {
        "type": "object",
        "properties": {**query, **options},
        "oneOf": ways,
        "additionalProperties": False,
        "examples": [{"text": "a red chair", "limit": 5}],
    }


SEARCH_ROUTE = body_route(SearchBody, 400, 404, **{"multipart/form-data": _form()})


@router.post("/search", response_model=SearchAnswer, **SEARCH_ROUTE)
async def search(request: Request, runtime: CollectionDep) -> Response:
    """Find the items nearest to one text, image, mesh, item or vector, or to a weighted mix of them."""
    found = await runtime.search(*await _parse_search(request, runtime))
    answer = serialization.serialize_answer(found, runtime)
    return Response(SEARCH_ANSWER.dump_json(answer), media_type="application/json")  # not checked again


@router.post("/search/batch", **body_route(BatchSearchBody))
async def search_many(request: Request, runtime: CollectionDep) -> BatchSearchAnswer:
    """Several searches at once; one that cannot be answered says why and leaves the others alone."""
    body = await read_body(request, BatchSearchBody, runtime.run)
    runtime.check_many(len(body.searches), "searches")
    return BatchSearchAnswer(tuple(await asyncio.gather(*(_outcome(runtime, raw) for raw in body.searches))))


async def _outcome(runtime: CollectionRuntime, raw: dict[str, Any]) -> BatchSearchOutcome:
    try:
        body = validate(SearchBody, raw)
        found = await runtime.search(parse_parts(body, runtime.service.settings.max_text), body)
    except MultifoldError as error:
        return BatchSearchOutcome(error=serialization.serialize_refusal(error))
    return BatchSearchOutcome(serialization.serialize_answer(found, runtime))


async def _parse_search(request: Request, runtime: CollectionRuntime) -> tuple[WeightedParts, SearchOptions]:
    settings = runtime.service.settings
    kind = media_type(request.headers)
    if kind == "application/json":
        body = await read_body(request, SearchBody, runtime.run)
        return parse_parts(body, settings.max_text), body
    if kind == "multipart/form-data":
        async with request.form(max_files=settings.max_files) as form:
            return await parse_search_form(form, settings.max_text)
    raise ApiError(415, "unsupported_media_type", "send application/json or multipart/form-data")
