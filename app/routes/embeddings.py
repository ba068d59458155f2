"""POST /v1/embeddings and GET /v1/models, in the shape of OpenAI's API; `modality` says what is embedded."""

import asyncio
import base64
from typing import Annotated

import numpy as np

from app.bodies import described, json_body
from app.errors import ApiError
from app.offload import Desk, desk
from app.parsing import file_of, text_of
from app.questions import Clue, Picture, Shape, Text
from app.routes.refusals import refusals
from app.schemas.embeddings import Embedded, EmbeddingsAnswer, EmbeddingsBody, Model, Models, Usage
from app.uploads import mesh_of
from multifold.errors import needs_extra
from multifold.types import SIDES, Vector

with needs_extra("serve"):
    from fastapi import APIRouter, Depends, Request, Response

router = APIRouter(prefix="/v1", tags=["embeddings"])
At = Annotated[Desk, Depends(desk)]


@router.post(
    "/embeddings",
    response_model=EmbeddingsAnswer,
    responses=refusals(404, 413, 415, 422, 429, 503),
    openapi_extra=described(EmbeddingsBody),
)
async def embeddings(request: Request, at: At) -> Response:
    """The index vectors of texts, or of images or meshes as data URIs."""
    body = await json_body(request, at, EmbeddingsBody)
    _check(at, body)
    inputs = [body.input] if isinstance(body.input, str) else body.input
    at.check_many(len(inputs), "inputs")
    clues = [_clue(at, body, one) for one in inputs]
    sensed = await asyncio.gather(*(clue.sense(at.senses) for clue in clues))
    data = [
        Embedded(index=place, embedding=_written(one.vector, body.encoding_format))
        for place, one in enumerate(sensed)
    ]
    tokens = await at.run(lambda: at.service.tokens(inputs)) if body.modality == "text" else 0
    usage = Usage(prompt_tokens=tokens, total_tokens=tokens)
    answer = EmbeddingsAnswer(data=data, model=at.service.encoder.bundle.name, usage=usage)
    return Response(answer.model_dump_json(), media_type="application/json")


@router.get("/models")
async def models(at: At) -> Models:
    """The bundle that is loaded."""
    return Models(data=[_model(at)])


@router.get("/models/{name}", responses=refusals(404, 422))
async def model(at: At, name: str) -> Model:
    """One bundle."""
    _check_model(at, name)
    return _model(at)


def _model(at: Desk) -> Model:
    encoder = at.service.encoder
    return Model(id=encoder.bundle.name, modalities=list(SIDES), dimensions=encoder.dim)


def _check(at: Desk, body: EmbeddingsBody) -> None:
    if body.model is not None:
        _check_model(at, body.model)
    dim = at.service.encoder.dim
    if body.dimensions not in (None, dim):
        raise ApiError(422, "bad_dimensions", f"vectors have {dim} numbers here, and cannot be shortened")


def _check_model(at: Desk, name: str) -> None:
    loaded = at.service.encoder.bundle.name
    if name != loaded:
        raise ApiError(404, "no_such_model", f"there is no model {name!r}; the one here is {loaded!r}")


def _clue(at: Desk, body: EmbeddingsBody, one: str) -> Clue:
    if body.modality == "text":
        return Text(text_of(one, at.service.settings.max_text))
    if body.modality == "image":
        return Picture(file_of(one, "image").data)
    return Shape(mesh_of(file_of(one, "mesh"), body.mesh_format))


def _written(vector: Vector, how: str) -> list[float] | str:
    if how == "float":
        numbers: list[float] = vector.tolist()
        return numbers
    return base64.b64encode(vector.astype(np.dtype("<f4")).tobytes()).decode()
