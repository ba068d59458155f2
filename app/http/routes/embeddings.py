"""POST /v1/embeddings and GET /v1/models, in the shape of OpenAI's API; `modality` says what is embedded."""

import asyncio
import base64

import numpy as np

from app.errors import ApiError
from app.http.dependencies import CollectionDep
from app.http.openapi import describe_body, error_responses
from app.http.parsing import check_text, read_body, read_file
from app.http.schemas.search import EmbeddingsBody
from app.ingest.uploads import read_mesh_file
from app.runtime.runtime import CollectionRuntime
from app.search.query import ImageQueryPart, MeshQueryPart, QueryPart, TextQueryPart
from multifold.errors import needs_extra
from multifold.types import SIDES, Vector
from multifold.wire.search import EmbeddingInfo, EmbeddingsAnswer, ModelsAnswer, ServedModel, TokenUsage

with needs_extra("serve"):
    from fastapi import APIRouter, Request, Response
    from pydantic import TypeAdapter

router = APIRouter(tags=["embeddings"])
EMBEDDINGS_ANSWER = TypeAdapter(EmbeddingsAnswer)


@router.post(
    "/embeddings",
    response_model=EmbeddingsAnswer,
    responses=error_responses(404, 413, 415, 422, 429, 503),
    openapi_extra=describe_body(EmbeddingsBody),
)
async def embeddings(request: Request, runtime: CollectionDep) -> Response:
    """The index vectors of texts, or of images or meshes as data URIs."""
    body = await read_body(request, EmbeddingsBody, runtime.run)
    _check(runtime, body)
    inputs = [body.input] if isinstance(body.input, str) else body.input
    runtime.check_many(len(inputs), "inputs")
    parts = [_query_part(runtime, body, one) for one in inputs]
    encoded = await asyncio.gather(*(runtime.query_encoder.encode(part) for part in parts))
    data = tuple(
        EmbeddingInfo(index=index, embedding=_serialize_vector(one.vector, body.encoding_format))
        for index, one in enumerate(encoded)
    )
    tokens = await runtime.run(lambda: runtime.service.tokens(inputs)) if body.modality == "text" else 0
    model, usage = runtime.service.encoder.bundle.name, TokenUsage(tokens, tokens)
    answer = EmbeddingsAnswer(data=data, model=model, usage=usage)
    return Response(EMBEDDINGS_ANSWER.dump_json(answer), media_type="application/json")


@router.get("/models")
async def models(runtime: CollectionDep) -> ModelsAnswer:
    """The bundle that is loaded."""
    return ModelsAnswer(data=(_model(runtime),))


@router.get("/models/{name}", responses=error_responses(404, 422))
async def model(runtime: CollectionDep, name: str) -> ServedModel:
    """One bundle."""
    _check_model(runtime, name)
    return _model(runtime)


def _model(runtime: CollectionRuntime) -> ServedModel:
    encoder = runtime.service.encoder
    return ServedModel(id=encoder.bundle.name, modalities=SIDES, dimensions=encoder.dim)


def _check(runtime: CollectionRuntime, body: EmbeddingsBody) -> None:
    if body.model is not None:
        _check_model(runtime, body.model)
    dim = runtime.service.encoder.dim
    if body.dimensions not in (None, dim):
        raise ApiError(422, "bad_dimensions", f"vectors have {dim} numbers here, and cannot be shortened")


def _check_model(runtime: CollectionRuntime, name: str) -> None:
    loaded = runtime.service.encoder.bundle.name
    if name != loaded:
        raise ApiError(404, "no_such_model", f"there is no model {name!r}; the one here is {loaded!r}")


def _query_part(runtime: CollectionRuntime, body: EmbeddingsBody, one: str) -> QueryPart:
    if body.modality == "text":
        return TextQueryPart(check_text(one, runtime.service.settings.max_text))
    if body.modality == "image":
        return ImageQueryPart(read_file(one, "image").data)
    return MeshQueryPart(read_mesh_file(read_file(one, "mesh"), body.mesh_format))


def _serialize_vector(vector: Vector, encoding: str) -> list[float] | str:
    if encoding == "float":
        numbers: list[float] = vector.tolist()
        return numbers
    return base64.b64encode(vector.astype(np.dtype("<f4")).tobytes()).decode()
