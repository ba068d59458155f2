"""What goes over the wire, as `/v1` promises it."""

from typing import Any, Literal

from multifold.errors import needs_extra
from multifold.types import Kind, Pool, Side

with needs_extra("serve"):
    from pydantic import BaseModel, ConfigDict, Field

MAX_LIMIT = 100


class SearchOptions(BaseModel):
    """How to search, whatever is asked with."""

    model_config = ConfigDict(extra="forbid")

    target: Side = Field("shape", description="which side of the items to compare with")
    limit: int = Field(10, ge=1, le=MAX_LIMIT, description="most items in the answer")
    pool: Pool = Field("mean", description="an item is the mean of its observations, or its best one")
    mesh_format: str | None = Field(
        None, description="format of the mesh, such as glb, if nothing else tells"
    )


class SearchBody(SearchOptions):
    """A search in JSON: exactly one of text, image and mesh."""

    text: str | None = Field(None, description="words")
    image: str | None = Field(None, description="a picture as data URI: data:image/png;base64,…")
    mesh: str | None = Field(None, description="a mesh as data URI: data:model/gltf-binary;base64,…")


class Seen(BaseModel):
    """One observation of an item: a caption with its text, or a photo or view with its address."""

    kind: Kind
    index: int
    url: str | None = None
    text: str | None = None


class Found(BaseModel):
    """An item found, and the observation of it that matched best."""

    id: str
    score: float = Field(description="index score: higher is closer; comparable within one answer")
    modality: Side
    matched: Seen
    payload: dict[str, Any]


class Took(BaseModel):
    """Milliseconds spent."""

    encode: float
    search: float
    total: float


class SearchAnswer(BaseModel):
    """Items, best first."""

    hits: list[Found]
    took_ms: Took
    version: int = Field(description="sequence number of the collection that answered")
    bundle: str
    warnings: list[str] = []


class ItemWritten(BaseModel):
    """An item as it was stored."""

    id: str
    version: int
    observations: dict[Kind, int]
    warnings: list[str] = []


class ItemShown(BaseModel):
    """An item with all that was seen and said of it."""

    id: str
    payload: dict[str, Any]
    observations: list[Seen]


class ItemsRemoved(BaseModel):
    """How many items a deletion removed."""

    removed: int


class BundleInfo(BaseModel):
    """The encoder at work."""

    name: str
    about: str
    bundle_id: str
    vector_id: str
    geometry: str
    dim: int
    metric: str
    rig: str
    views: int
    provider: str


class CollectionInfo(BaseModel):
    """What is searched."""

    items: int
    observations: dict[Kind, int]
    version: int


class LimitsInfo(BaseModel):
    """What is refused beyond."""

    body_bytes: int
    text_characters: int
    text_tokens: int
    files: int
    pixels: int
    hits: int
    render_seconds: float


class Info(BaseModel):
    """What runs here."""

    version: str
    bundle: BundleInfo
    collection: CollectionInfo
    limits: LimitsInfo


class Health(BaseModel):
    """Alive, or ready."""

    status: Literal["ok"]


class ErrorDetail(BaseModel):
    """What went wrong: a code for programs, a sentence for people."""

    code: str
    message: str
    request_id: str


class ErrorAnswer(BaseModel):
    """The shape of every error."""

    error: ErrorDetail
