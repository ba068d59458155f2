"""POST /v1/search: find items by a text, an image or a mesh."""

from typing import Annotated, Any

from app import shown
from app.errors import ApiError
from app.offload import Desk, desk
from app.parsing import question_from_form, question_from_json
from app.questions import Question
from app.routes.refusals import refusals
from app.schemas import SearchAnswer, SearchBody, SearchOptions
from app.uploads import media_type
from multifold.errors import needs_extra

with needs_extra("serve"):
    from fastapi import APIRouter, Depends, Request

router = APIRouter(tags=["search"])
SMALL = 64 * 1024  # a body that is read faster than a thread is woken


def _body() -> dict[str, Any]:
    """The two ways to ask, for OpenAPI."""
    options = SearchOptions.model_json_schema()["properties"]
    files = {name: {"type": "string", "format": "binary"} for name in ("image", "mesh")}
    form = {"type": "object", "properties": {"text": {"type": "string"}, **files, **options}}
    content = {"application/json": SearchBody.model_json_schema(), "multipart/form-data": form}
    return {"required": True, "content": {kind: {"schema": schema} for kind, schema in content.items()}}


@router.post("/search", responses=refusals(413, 415, 422), openapi_extra={"requestBody": _body()})
async def search(request: Request, at: Annotated[Desk, Depends(desk)]) -> SearchAnswer:
    """Find the items nearest to exactly one text, image or mesh."""
    question = await _question(request, at)
    answer = await at.ask(question)
    return shown.answer(answer, at.service.encoder.bundle.name)


async def _question(request: Request, at: Desk) -> Question:
    settings = at.service.settings
    kind = media_type(request.headers)
    if kind == "application/json":
        body = await request.body()
        if len(body) <= SMALL:
            return question_from_json(body, settings.max_text)
        return await at.run(lambda: question_from_json(body, settings.max_text))
    if kind == "multipart/form-data":
        async with request.form(max_files=settings.max_files) as form:
            return await question_from_form(form, settings.max_text)
    raise ApiError(415, "unsupported_media_type", "send application/json or multipart/form-data")
