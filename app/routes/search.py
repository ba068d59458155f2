"""POST /v1/search and /v1/search/batch: find items by texts, images, meshes, items and vectors."""

import asyncio
from typing import Annotated, Any

from app import shown
from app.bodies import FILE, described, json_body
from app.errors import ApiError, code_of
from app.offload import Desk, desk
from app.parsing import checked, question_from_form, question_of
from app.questions import Question
from app.routes.refusals import refusals
from app.schemas.errors import Trouble
from app.schemas.search import BatchAnswer, BatchBody, BatchEntry, SearchAnswer, SearchBody, SearchOptions
from app.uploads import media_type
from multifold.errors import MultifoldError, needs_extra

with needs_extra("serve"):
    from fastapi import APIRouter, Depends, Request, Response

router = APIRouter(prefix="/v1", tags=["search"])
At = Annotated[Desk, Depends(desk)]


def _form() -> dict[str, Any]:
    """The form that can be searched with, for OpenAPI."""
    options = SearchOptions.model_json_schema()["properties"]
    clues = {"text": {"type": "string"}, "image": FILE, "mesh": FILE, "mesh_format": {"type": "string"}}
    texts = {"filter": {"type": "string", "description": "a JSON object"}}
    return {"type": "object", "properties": {**clues, **options, **texts}}


@router.post(
    "/search",
    response_model=SearchAnswer,
    responses=refusals(404, 413, 415, 422, 429, 503),
    openapi_extra=described(SearchBody, **{"multipart/form-data": _form()}),
)
async def search(request: Request, at: At) -> Response:
    """Find the items nearest to one text, image, mesh, item or vector, or to a weighted mix of them."""
    answer = await at.ask(await _question(request, at))
    text = shown.answer(answer, at.service.encoder.bundle.name).model_dump_json()
    return Response(text, media_type="application/json")  # checked when it was made, so not again


@router.post("/search/batch", responses=refusals(413, 415, 422, 429, 503), openapi_extra=described(BatchBody))
async def batch(request: Request, at: At) -> BatchAnswer:
    """Several searches at once; one that cannot be answered says why and leaves the others alone."""
    body = await json_body(request, at, BatchBody)
    at.check_many(len(body.searches), "searches")
    return BatchAnswer(answers=await asyncio.gather(*(_entry(at, raw) for raw in body.searches)))


async def _entry(at: Desk, raw: dict[str, Any]) -> BatchEntry:
    try:
        answer = await at.ask(question_of(checked(SearchBody, raw), at.service.settings.max_text))
    except MultifoldError as error:
        return BatchEntry(error=Trouble(code=code_of(error), message=str(error)))
    return BatchEntry(answer=shown.answer(answer, at.service.encoder.bundle.name))


async def _question(request: Request, at: Desk) -> Question:
    settings = at.service.settings
    kind = media_type(request.headers)
    if kind == "application/json":
        return question_of(await json_body(request, at, SearchBody), settings.max_text)
    if kind == "multipart/form-data":
        async with request.form(max_files=settings.max_files) as form:
            return await question_from_form(form, settings.max_text)
    raise ApiError(415, "unsupported_media_type", "send application/json or multipart/form-data")
