"""POST /v1/embeddings and GET /v1/models, in the shape of OpenAI's API; `modality` says what is embedded."""

import asyncio
import base64

import numpy as np
from fastapi import APIRouter

from app.errors import ApiError
from app.http.dependencies import CollectionDep
from app.http.openapi import body_errors, error_responses
from app.ingest.uploads import check_text
from app.runtime.runtime import CollectionRuntime
from app.search.parts import image_part, mesh_part
from app.search.query import QueryPart, TextQueryPart
from multifold.types import SIDES, Vector
from multifold.wire.search import (
    EmbeddingInfo,
    EmbeddingsAnswer,
    EmbeddingsBody,
    ModelsAnswer,
    ServedModel,
    TokenUsage,
)

router = APIRouter(tags=["embeddings"])


@router.post("/embeddings", responses=body_errors(404))
async def embed(runtime: CollectionDep, body: EmbeddingsBody) -> EmbeddingsAnswer:
    """The index vectors of texts, or of images or meshes as data URIs."""
    bundle, served = runtime.service.encoder.bundle, _model(runtime, body.model)
    length = served.dimensions if body.dimensions is None else body.dimensions
    if length != served.dimensions and length not in served.prefixes:
        lengths = " or ".join(map(str, (*served.prefixes, served.dimensions)))
        raise ApiError(400, "bad_dimensions", f"vectors of this bundle have {lengths} numbers, not {length}")
    inputs = [body.input] if isinstance(body.input, str) else body.input
    runtime.check_many(len(inputs), "inputs")
    parts = [_part(body, one, runtime.service.settings.max_text) for one in inputs]
    encoded = await asyncio.gather(*(runtime.query_encoder.encode(part) for part in parts))
    vectors = [one.vector for one in encoded]
    if vectors and length != served.dimensions:
        vectors = [*bundle.shorten(np.stack(vectors), length)]
    data = tuple(
        EmbeddingInfo(index=index, embedding=_serialize_vector(vector, body.encoding_format))
        for index, vector in enumerate(vectors)
    )
    tokens = await runtime.run(lambda: runtime.service.tokens(inputs)) if body.modality == "text" else 0
    return EmbeddingsAnswer(data=data, model=bundle.name, usage=TokenUsage(tokens, tokens))


@router.get("/models")
async def list_models(runtime: CollectionDep) -> ModelsAnswer:
    """The bundle that is loaded."""
    return ModelsAnswer(data=(_model(runtime, None),))


@router.get("/models/{name}", responses=error_responses(404, 422))
async def get_model(runtime: CollectionDep, name: str) -> ServedModel:
    """One bundle."""
    return _model(runtime, name)


def _part(body: EmbeddingsBody, content: str, max_text: int) -> QueryPart:
    """One of the inputs."""
    if body.modality == "text":
        return TextQueryPart(check_text(content, max_text))
    return image_part(content) if body.modality == "image" else mesh_part(content, body.mesh_format)


def _model(runtime: CollectionRuntime, name: str | None) -> ServedModel:
    """The bundle that is loaded, if it is meant."""
    encoder = runtime.service.encoder
    loaded, prefixes = encoder.bundle.name, encoder.bundle.prefixes
    if name not in (None, loaded):
        raise ApiError(404, "no_such_model", f"there is no model {name!r}; the one here is {loaded!r}")
    return ServedModel(id=loaded, modalities=SIDES, dimensions=encoder.dim, prefixes=prefixes)


def _serialize_vector(vector: Vector, encoding: str) -> list[float] | str:
    if encoding == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    numbers: list[float] = vector.tolist()
    return numbers
