"""POST /v1/search and /v1/search/batch: find items by texts, images, meshes, items and vectors."""

import asyncio
from typing import Annotated, Any

from app.errors import ApiError, error_code
from app.http import serialization
from app.http.bodies import BINARY_FILE, describe_body, json_body
from app.http.openapi import error_responses
from app.http.parsing import parse_search, parse_search_form, validate
from app.http.schemas.errors import ErrorSummary
from app.http.schemas.search import (
    BatchSearchAnswer,
    BatchSearchBody,
    BatchSearchOutcome,
    SearchAnswer,
    SearchBody,
    SearchOptions,
)
from app.ingest.uploads import media_type
from app.runtime.runtime import CollectionRuntime, collection_runtime
from app.search.query import SearchQuery
from multifold.errors import MultifoldError, needs_extra

with needs_extra("serve"):
    from fastapi import APIRouter, Depends, Request, Response

router = APIRouter(tags=["search"])
At = Annotated[CollectionRuntime, Depends(collection_runtime)]


def _form() -> dict[str, Any]:
    """The form that can be searched with, for OpenAPI."""
    options = SearchOptions.model_json_schema()["properties"]
    clues = {
        "text": {"type": "string"},
        "image": BINARY_FILE,
        "mesh": BINARY_FILE,
        "mesh_format": {"type": "string"},
    }
    texts = {"filter": {"type": "string", "description": "a JSON object"}}
    return {"type": "object", "properties": {**clues, **options, **texts}}


@router.post(
    "/search",
    response_model=SearchAnswer,
    responses=error_responses(404, 413, 415, 422, 429, 503),
    openapi_extra=describe_body(SearchBody, **{"multipart/form-data": _form()}),
)
async def search(request: Request, at: At) -> Response:
    """Find the items nearest to one text, image, mesh, item or vector, or to a weighted mix of them."""
    answer = await at.ask(await _question(request, at))
    text = serialization.serialize_answer(answer, at.service.encoder.bundle.name).model_dump_json()
    return Response(text, media_type="application/json")  # checked when it was made, so not again


@router.post(
    "/search/batch",
    responses=error_responses(413, 415, 422, 429, 503),
    openapi_extra=describe_body(BatchSearchBody),
)
async def batch(request: Request, at: At) -> BatchSearchAnswer:
    """Several searches at once; one that cannot be answered says why and leaves the others alone."""
    body = await json_body(request, at, BatchSearchBody)
    at.check_many(len(body.searches), "searches")
    return BatchSearchAnswer(answers=await asyncio.gather(*(_entry(at, raw) for raw in body.searches)))


async def _entry(at: CollectionRuntime, raw: dict[str, Any]) -> BatchSearchOutcome:
    try:
        answer = await at.ask(parse_search(validate(SearchBody, raw), at.service.settings.max_text))
    except MultifoldError as error:
        return BatchSearchOutcome(error=ErrorSummary(code=error_code(error), message=str(error)))
    return BatchSearchOutcome(answer=serialization.serialize_answer(answer, at.service.encoder.bundle.name))


async def _question(request: Request, at: CollectionRuntime) -> SearchQuery:
    settings = at.service.settings
    kind = media_type(request.headers)
    if kind == "application/json":
        return parse_search(await json_body(request, at, SearchBody), settings.max_text)
    if kind == "multipart/form-data":
        async with request.form(max_files=settings.max_files) as form:
            return await parse_search_form(form, settings.max_text)
    raise ApiError(415, "unsupported_media_type", "send application/json or multipart/form-data")
