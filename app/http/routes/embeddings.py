"""POST /v1/embeddings and GET /v1/models, in the shape of OpenAI's API; `modality` says what is embedded."""

import asyncio
import base64
from collections.abc import Sequence

import numpy as np

from app.collections.service import CollectionService
from app.encoding.no_encoder import NoEncoderError
from app.errors import ApiError
from app.http.dependencies import CollectionDep
from app.http.openapi import body_errors, error_responses
from app.http.routers import collection_router
from app.ingest.uploads import check_many, check_text
from app.queries.parts import QueryPart, TextQueryPart, image_part, mesh_part
from multifold.types import SIDES, Vector
from multifold.wire.search import (
    EmbeddingInfo,
    EmbeddingsAnswer,
    EmbeddingsBody,
    ModelsAnswer,
    ServedModel,
    TokenUsage,
)

router = collection_router(tags=["embeddings"])


@router.post("/embeddings", responses=body_errors(404))
async def embed(service: CollectionDep, body: EmbeddingsBody) -> EmbeddingsAnswer:
    """The index vectors of texts, or of images or meshes as data URIs."""
    if not service.encoder.encodes:
        raise NoEncoderError
    bundle = service.encoder.bundle
    served = _model(service, body.model)
    length = served.dimensions if body.dimensions is None else body.dimensions
    if length != served.dimensions and length not in served.prefixes:
        lengths = " or ".join(map(str, (*served.prefixes, served.dimensions)))
        raise ApiError(400, "bad_dimensions", f"vectors of this bundle have {lengths} numbers, not {length}")
    inputs = [body.input] if isinstance(body.input, str) else body.input
    check_many(len(inputs), "inputs", service.settings.max_batch)
    parts = [_part(body, one, service.settings.max_text) for one in inputs]
    encoded = await asyncio.gather(*(service.encode(part) for part in parts))
    vectors = [one.vector for one in encoded]
    if vectors and length != served.dimensions:
        vectors = [*bundle.shorten(np.stack(vectors), length)]
    data = tuple(
        EmbeddingInfo(index=index, embedding=_serialize_vector(vector, body.encoding_format))
        for index, vector in enumerate(vectors)
    )
    tokens = 0
    if body.modality == "text":
        tokens = await service.run(lambda: _count_tokens(service, inputs), admitted=True)
    return EmbeddingsAnswer(data=data, model=bundle.name, usage=TokenUsage(tokens, tokens))


@router.get("/models")
async def list_models(service: CollectionDep) -> ModelsAnswer:
    """The bundle that is loaded."""
    return ModelsAnswer(data=(_model(service, None),))


@router.get("/models/{name}", responses=error_responses(404, 422))
async def get_model(service: CollectionDep, name: str) -> ServedModel:
    """One bundle."""
    return _model(service, name)


def _part(body: EmbeddingsBody, content: str, max_text: int) -> QueryPart:
    """One of the inputs."""
    if body.modality == "text":
        return TextQueryPart(check_text(content, max_text))
    return image_part(content) if body.modality == "image" else mesh_part(content, body.mesh_format)


def _model(service: CollectionService, name: str | None) -> ServedModel:
    """The bundle that is loaded, if it is meant."""
    encoder = service.encoder
    loaded = encoder.bundle.name
    if name not in (None, loaded):
        raise ApiError(404, "no_such_model", f"there is no model {name!r}; the one here is {loaded!r}")
    modalities = SIDES if encoder.encodes else ()
    return ServedModel(
        id=loaded, modalities=modalities, dimensions=encoder.dim, prefixes=encoder.bundle.prefixes
    )


def _count_tokens(service: CollectionService, texts: Sequence[str]) -> int:
    tokenizer = service.encoder.tokenizer
    return int((tokenizer(texts).ids != tokenizer.spec.pad).sum())


def _serialize_vector(vector: Vector, encoding: str) -> list[float] | str:
    if encoding == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    numbers: list[float] = vector.tolist()
    return numbers
