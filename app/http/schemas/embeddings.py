"""Embeddings and models, in the shape of OpenAI's API."""

from typing import Literal

from multifold.errors import needs_extra
from multifold.types import Side

with needs_extra("serve"):
    from pydantic import BaseModel, Field


class EmbeddingResource(BaseModel):
    """The index vector of one input."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str = Field(description="numbers, or base64 of little-endian float32")


class TokenUsage(BaseModel):
    """Tokens that were read."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsBody(BaseModel):
    """What to embed, as OpenAI's API has it, and of which modality."""

    input: str | list[str] = Field(description="texts; or images or meshes as data URIs")
    model: str | None = Field(None, description="the name of the bundle, or nothing")
    modality: Side = "text"
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(None, description="nothing but the length that the vectors have")
    mesh_format: str | None = Field(None, description="format of the meshes, if nothing else tells")
    user: str | None = Field(None, description="passed over")


class EmbeddingsAnswer(BaseModel):
    """Vectors in the order of the inputs."""

    object: Literal["list"] = "list"
    data: list[EmbeddingResource]
    model: str
    usage: TokenUsage


class ModelResource(BaseModel):
    """A bundle, as OpenAI's API shows models."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: Literal["multifold"] = "multifold"
    modalities: list[Side]
    dimensions: int


class ModelsAnswer(BaseModel):
    """The bundle that is loaded."""

    object: Literal["list"] = "list"
    data: list[ModelResource]
