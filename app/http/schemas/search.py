"""What searches, facets, traversals, explanations, embeddings and feedback are asked with."""

from typing import Any, Literal, TypeAlias

from index.store.schema import LONGEST_WHO
from multifold.analysis.traversal import STEPS
from multifold.errors import needs_extra
from multifold.types import ExplanationMethod, Kind, Pooling, Side, Target, Verdict

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


MOST_STEPS = 200
MOST_WIDTHS = 16


class TraverseBody(QueryBody):
    """What to walk from: exactly one of text, image, mesh and id."""

    steps: int = Field(STEPS, ge=2, le=MOST_STEPS, description="steps to the root, both ends counted")
    widths: list[FiniteFloat] = Field(
        [],
        max_length=MOST_WIDTHS,
        description="K: a path for each, on which only captions whose cone holds count",
    )
    captions: Literal["all", "collection", "bundle"] = Field("all", description="whose captions may be met")


class ExplainBody(QueryBody):
    """Why an item matches: the query, exactly one of text, image, mesh, id and vector, and the item."""

    item: str = Field(description="the item that was found")
    kind: Kind | None = Field(None, description="of the observation to explain; else the best one")
    index: int | None = Field(None, ge=0, description="its place; needs the kind")
    method: ExplanationMethod | None = Field(None, description="else the best that the bundle knows")
    token: int | None = Field(
        None, ge=0, description="maps of one pair of tokens alone, where an encoder compares several"
    )
    maps: bool = Field(True, description="false: scores only")


class EmbeddingsBody(BaseModel):
    """What to embed, as OpenAI's API has it, and of which modality."""

    input: str | list[str] = Field(description="texts; or images or meshes as data URIs")
    model: str | None = Field(None, description="the name of the bundle, or nothing")
    modality: Side = "text"
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(None, description="nothing but the length that the vectors have")
    mesh_format: str | None = Field(None, description="format of the meshes, if nothing else tells")
    user: str | None = Field(None, description="passed over")


class ShownObservation(BaseModel):
    """An observation of an item."""

    model_config = ConfigDict(extra="forbid")

    kind: Kind
    index: int = Field(ge=0)


class FeedbackBody(BaseModel):
    """A verdict on a hit: whether the item is what the query meant."""

    model_config = ConfigDict(extra="forbid")

    query: SearchBody = Field(description="what was searched, as /v1/search takes it")
    item: str = Field(description="the item that is judged")
    observation: ShownObservation | None = Field(None, description="the observation that was shown")
    verdict: Verdict
    by: str | None = Field(
        None, min_length=1, max_length=LONGEST_WHO, description="who says so, in any name of your own"
    )
