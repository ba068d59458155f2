"""POST /v1/embeddings and GET /v1/models, in the shape of OpenAI's API; `modality` says what is embedded."""

import asyncio
import base64
from typing import Annotated

import numpy as np

from app.errors import ApiError
from app.http.bodies import describe_body, json_body
from app.http.openapi import error_responses
from app.http.parsing import check_text, read_file
from app.http.schemas.embeddings import (
    EmbeddingResource,
    EmbeddingsAnswer,
    EmbeddingsBody,
    ModelResource,
    ModelsAnswer,
    TokenUsage,
)
from app.ingest.uploads import read_mesh_file
from app.runtime.runtime import CollectionRuntime, collection_runtime
from app.search.query import ImageQueryPart, MeshQueryPart, QueryPart, TextQueryPart
from multifold.errors import needs_extra
from multifold.types import SIDES, Vector

with needs_extra("serve"):
    from fastapi import APIRouter, Depends, Request, Response

router = APIRouter(tags=["embeddings"])
At = Annotated[CollectionRuntime, Depends(collection_runtime)]


@router.post(
    "/embeddings",
    response_model=EmbeddingsAnswer,
    responses=error_responses(404, 413, 415, 422, 429, 503),
    openapi_extra=describe_body(EmbeddingsBody),
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
        EmbeddingResource(index=place, embedding=_written(one.vector, body.encoding_format))
        for place, one in enumerate(sensed)
    ]
    tokens = await at.run(lambda: at.service.tokens(inputs)) if body.modality == "text" else 0
    usage = TokenUsage(prompt_tokens=tokens, total_tokens=tokens)
    answer = EmbeddingsAnswer(data=data, model=at.service.encoder.bundle.name, usage=usage)
    return Response(answer.model_dump_json(), media_type="application/json")


@router.get("/models")
async def models(at: At) -> ModelsAnswer:
    """The bundle that is loaded."""
    return ModelsAnswer(data=[_model(at)])


@router.get("/models/{name}", responses=error_responses(404, 422))
async def model(at: At, name: str) -> ModelResource:
    """One bundle."""
    _check_model(at, name)
    return _model(at)


def _model(at: CollectionRuntime) -> ModelResource:
    encoder = at.service.encoder
    return ModelResource(id=encoder.bundle.name, modalities=list(SIDES), dimensions=encoder.dim)


def _check(at: CollectionRuntime, body: EmbeddingsBody) -> None:
    if body.model is not None:
        _check_model(at, body.model)
    dim = at.service.encoder.dim
    if body.dimensions not in (None, dim):
        raise ApiError(422, "bad_dimensions", f"vectors have {dim} numbers here, and cannot be shortened")


def _check_model(at: CollectionRuntime, name: str) -> None:
    loaded = at.service.encoder.bundle.name
    if name != loaded:
        raise ApiError(404, "no_such_model", f"there is no model {name!r}; the one here is {loaded!r}")


def _clue(at: CollectionRuntime, body: EmbeddingsBody, one: str) -> QueryPart:
    if body.modality == "text":
        return TextQueryPart(check_text(one, at.service.settings.max_text))
    if body.modality == "image":
        return ImageQueryPart(read_file(one, "image").data)
    return MeshQueryPart(read_mesh_file(read_file(one, "mesh"), body.mesh_format))


def _written(vector: Vector, how: str) -> list[float] | str:
    if how == "float":
        numbers: list[float] = vector.tolist()
        return numbers
    return base64.b64encode(vector.astype(np.dtype("<f4")).tobytes()).decode()
