"""POST /v1/embeddings and GET /v1/models, in the shape of OpenAI's API; `modality` says what is embedded."""

import asyncio
import base64
from typing import Annotated

import numpy as np

from app.errors import ApiError
from app.http.openapi import describe_body, error_responses
from app.http.parsing import check_text, read_body, read_file
from app.http.schemas.search import EmbeddingsBody
from app.ingest.uploads import read_mesh_file
from app.runtime.runtime import CollectionRuntime, collection_runtime
from app.search.query import ImageQueryPart, MeshQueryPart, QueryPart, TextQueryPart
from multifold.errors import needs_extra
from multifold.types import SIDES, Vector
from multifold.wire.search import EmbeddingInfo, EmbeddingsAnswer, ModelsAnswer, ServedModel, TokenUsage

with needs_extra("serve"):
    from fastapi import APIRouter, Depends, Request, Response
    from pydantic import TypeAdapter

router = APIRouter(tags=["embeddings"])
At = Annotated[CollectionRuntime, Depends(collection_runtime)]
EMBEDDINGS_ANSWER = TypeAdapter(EmbeddingsAnswer)


@router.post(
    "/embeddings",
    response_model=EmbeddingsAnswer,
    responses=error_responses(404, 413, 415, 422, 429, 503),
    openapi_extra=describe_body(EmbeddingsBody),
)
async def embeddings(request: Request, at: At) -> Response:
    """The index vectors of texts, or of images or meshes as data URIs."""
    body = await read_body(request, EmbeddingsBody, at.run)
    _check(at, body)
    inputs = [body.input] if isinstance(body.input, str) else body.input
    at.check_many(len(inputs), "inputs")
    parts = [_query_part(at, body, one) for one in inputs]
    encoded = await asyncio.gather(*(at.query_encoder.encode(part) for part in parts))
    data = tuple(
        EmbeddingInfo(index=index, embedding=_serialize_vector(one.vector, body.encoding_format))
        for index, one in enumerate(encoded)
    )
    tokens = await at.run(lambda: at.service.tokens(inputs)) if body.modality == "text" else 0
    model, usage = at.service.encoder.bundle.name, TokenUsage(tokens, tokens)
    answer = EmbeddingsAnswer(data=data, model=model, usage=usage)
    return Response(EMBEDDINGS_ANSWER.dump_json(answer), media_type="application/json")


@router.get("/models")
async def models(at: At) -> ModelsAnswer:
    """The bundle that is loaded."""
    return ModelsAnswer(data=(_model(at),))


@router.get("/models/{name}", responses=error_responses(404, 422))
async def model(at: At, name: str) -> ServedModel:
    """One bundle."""
    _check_model(at, name)
    return _model(at)


def _model(at: CollectionRuntime) -> ServedModel:
    encoder = at.service.encoder
    return ServedModel(id=encoder.bundle.name, modalities=SIDES, dimensions=encoder.dim)


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


def _query_part(at: CollectionRuntime, body: EmbeddingsBody, one: str) -> QueryPart:
    if body.modality == "text":
        return TextQueryPart(check_text(one, at.service.settings.max_text))
    if body.modality == "image":
        return ImageQueryPart(read_file(one, "image").data)
    return MeshQueryPart(read_mesh_file(read_file(one, "mesh"), body.mesh_format))


def _serialize_vector(vector: Vector, encoding: str) -> list[float] | str:
    if encoding == "float":
        numbers: list[float] = vector.tolist()
        return numbers
    return base64.b64encode(vector.astype(np.dtype("<f4")).tobytes()).decode()
