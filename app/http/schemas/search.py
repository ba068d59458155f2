"""Searches, facets, and their answers."""

from typing import Any, Literal, TypeAlias

from app.collections.confidence import ConfidenceBasis
from app.http.schemas.errors import ErrorSummary
from app.http.schemas.items import ObservationResource
from multifold.errors import needs_extra
from multifold.types import Pooling, Side, Target

with needs_extra("serve"):
    from pydantic import BaseModel, ConfigDict, Field, FiniteFloat


LexicalMode: TypeAlias = Literal["auto", "off", "only"]

DuplicateMode: TypeAlias = Literal["show", "fold"]

MAX_LIMIT = 100
MAX_OFFSET = 10_000
MAX_QUERY_PARTS = 32
MAX_WEIGHT = 1000


class SearchOptions(BaseModel):
    """How to search, whatever is asked with."""

    model_config = ConfigDict(extra="forbid")

    target: Target = Field("shape", description="which side of the items to compare with; 'any' merges them")
    limit: int = Field(10, ge=1, le=MAX_LIMIT, description="most items in the answer")
    offset: int = Field(0, ge=0, le=MAX_OFFSET, description="items to pass over first")
    filter: dict[str, Any] | None = Field(None, description='what the payload must be: {"colour": "red"}')
    pool: Pooling = Field("mean", description="an item is the mean of its observations, or its best one")
    min_score: FiniteFloat | None = Field(None, description="no items that score less")
    min_confidence: float | None = Field(
        None, ge=0, le=1, description="no items that are less certain; needs a calibration of this pair"
    )
    exact: bool = Field(False, description="look at every row, however many there are")
    lexical: LexicalMode | None = Field(
        None,
        description="whether words of the query are looked for in names, captions and payloads too: 'auto' "
        "(as services are set) lets them name an item that has all that tell, 'only' looks at nothing else",
    )
    explain: bool = Field(False, description="give the index score of each side of a hit too")
    duplicates: DuplicateMode = Field(
        "show", description="'fold': items that show the same are one hit, which names the others"
    )


class QueryBody(BaseModel):
    """What can be asked with; exactly one of text, image, mesh, id and vector."""

    model_config = ConfigDict(extra="forbid")

    text: str | None = Field(None, description="words")
    image: str | None = Field(None, description="a picture as data URI: data:image/png;base64,…")
    mesh: str | None = Field(None, description="a mesh as data URI: data:model/gltf-binary;base64,…")
    mesh_format: str | None = Field(
        None, description="format of the mesh, such as glb, if nothing else tells"
    )
    id: str | None = Field(None, description="an item of this collection")
    side: Side | None = Field(None, description="which side of that item; else the target's, if it has it")
    vector: list[FiniteFloat] | None = Field(None, description="an index vector, as /v1/embeddings gives it")


class WeightedQueryBody(QueryBody):
    """One part of a mixed query."""

    weight: float = Field(1.0, ge=-MAX_WEIGHT, le=MAX_WEIGHT, description="below 0: away from it")


class SearchBody(SearchOptions, QueryBody):
    """A search in JSON: exactly one of text, image, mesh, id, vector and mix."""

    mix: list[WeightedQueryBody] | None = Field(
        None, min_length=1, max_length=MAX_QUERY_PARTS, description="several, each with a weight"
    )


class SimilarBody(SearchOptions):
    """How to look for what is like an item."""

    side: Side | None = Field(
        None, description="which side of the item to go by; else the target's, if it has it"
    )


class BatchSearchBody(BaseModel):
    """Several searches at once; each is one of /v1/search in JSON."""

    model_config = ConfigDict(extra="forbid")

    searches: list[dict[str, Any]] = Field(min_length=1)


class HitResource(BaseModel):
    """An item found, and the observation of it that matched best."""

    id: str
    score: float = Field(description="index score: higher is closer; comparable within one answer and side")
    confidence: float | None = Field(
        None, description="the probability that this is what was meant; null where nothing is calibrated"
    )
    chance: float | None = Field(
        None,
        description="how rarely what does not belong together scores so high; where no confidence is known",
    )
    modality: Side
    matched: ObservationResource
    payload: dict[str, Any]
    sides: dict[Side, float] | None = Field(
        None, description="with `explain`: the index score of each of its sides, the mean of its observations"
    )
    words: list[str] = Field([], description="of the query, that stand in its name, captions or payload")
    duplicates: list["DuplicateItem"] = Field(
        [], description="others that show the same, if they were folded"
    )


class DuplicateItem(BaseModel):
    """An item that shows the same as a hit."""

    id: str
    payload: dict[str, Any]


class SearchTiming(BaseModel):
    """Milliseconds from the first to the last step, waiting included."""

    encode: float
    search: float
    total: float


class SearchAnswer(BaseModel):
    """Items, best first."""

    hits: list[HitResource]
    took_ms: SearchTiming
    version: int = Field(description="sequence number of the collection that answered")
    bundle: str
    calibrated_by: ConfidenceBasis | None = Field(
        None, description="what says how sure hits are: the bundle, the collection's captions, or only chance"
    )
    warnings: list[str] = []


class BatchSearchOutcome(BaseModel):
    """The answer to one search, or why there is none."""

    answer: SearchAnswer | None = None
    error: ErrorSummary | None = None


class BatchSearchAnswer(BaseModel):
    """Answers in the order of the searches."""

    answers: list[BatchSearchOutcome]


MAX_FACET_HITS = 2_000


class FacetsBody(BaseModel):
    """Which values to count."""

    model_config = ConfigDict(extra="forbid")

    keys: list[str] = Field(min_length=1, max_length=64, description="keys of the payload; dots lead inwards")
    filter: dict[str, Any] | None = Field(None, description="only items that it lets through")
    query: SearchBody | None = Field(
        None, description="only what this search finds; its own limit and offset are not looked at"
    )
    best: int = Field(
        1_000, ge=1, le=MAX_FACET_HITS, description="with a query: so many of its best hits count"
    )
    limit: int = Field(20, ge=1, le=1000, description="most values of one key")


class FacetValueCount(BaseModel):
    """A value of the payload, and how many items have it."""

    value: str | float | bool
    count: int


class FacetRange(BaseModel):
    """The least and the greatest number of a key, and how many items have one."""

    min: float
    max: float
    count: int


class FacetsAnswer(BaseModel):
    """The commonest values of each key, most first, and the range of each key that has numbers."""

    facets: dict[str, list[FacetValueCount]]
    ranges: dict[str, FacetRange]
