"""What searches, facets, traversals, explanations, embeddings and feedback are asked with."""

from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, Field, FiniteFloat

from app.http.schemas.request import MeshFormat, RequestBody, example, given, optional
from index.store.schema import LONGEST_WHO
from multifold.analysis.traversal import STEPS
from multifold.types import ExplanationMethod, Kind, Pooling, Side, Target, Verdict

LexicalMode: TypeAlias = Literal["auto", "off", "only"]
DuplicateMode: TypeAlias = Literal["show", "fold"]

MAX_LIMIT = 100
MAX_OFFSET = 10_000
MAX_CURSOR = 4_096
MAX_QUERY_PARTS = 32
MAX_EXAMPLES = 32
MAX_WEIGHT = 1000
MAX_FACET_HITS = 2_000
MOST_STEPS = 200
MOST_WIDTHS = 16


class ExamplesBody(RequestBody):
    """Items that were judged as hits of a search."""

    good: list[str] = Field(
        [], max_length=MAX_EXAMPLES, description="ids: these stay, and what is like them rises"
    )
    bad: list[str] = Field(
        [], max_length=MAX_EXAMPLES, description="ids: these go last, and what is like them falls"
    )


class SearchOptions(RequestBody):
    """How to search, whatever is asked with."""

    target: Target = Field(
        "item",
        description="'item': the evidence of all sides, words and names added up; a side: that alone; "
        "'any': the most confident side",
    )
    limit: int = Field(10, ge=1, le=MAX_LIMIT, description="most items in the answer")
    offset: int = Field(0, ge=0, le=MAX_OFFSET, description="items to pass over first")
    after: str | None = optional("the `next` of the page before, instead of an offset", max_length=MAX_CURSOR)
    filter: dict[str, Any] | None = optional('what the payload must be: {"colour": "red"}')
    pool: Pooling = Field("mean", description="an item is the mean of its observations, or its best one")
    min_score: FiniteFloat | None = optional("no items that score less")
    min_confidence: float | None = optional(
        "no items that are less certain; needs a calibration of this pair", ge=0, le=1
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
    examples: ExamplesBody | None = optional(
        "items that were judged good or bad: clues beside the query; with the target 'item'"
    )
    diversity: FiniteFloat = Field(
        0.0,
        ge=0,
        le=1,
        description="how far look-alikes of better hits give way among the best 100; with the target 'item'",
    )


class QueryBody(RequestBody):
    """What can be asked with; exactly one of text, image, mesh, id and vector."""

    model_config = given("text", "image", "mesh", "id", "vector", like={"text": "a red chair"})

    text: str | None = optional("words")
    image: str | None = optional("a picture as data URI: data:image/png;base64,…")
    mesh: str | None = optional("a mesh as data URI: data:model/gltf-binary;base64,…")
    mesh_format: MeshFormat = None
    id: str | None = optional("an item of this collection")
    side: Side | None = optional("which side of that item; else the target's, if it has it")
    vector: list[FiniteFloat] | None = optional("an index vector, as /v1/embeddings gives it")


class WeightedQueryBody(QueryBody):
    """One part of a mixed query."""

    weight: float = Field(1.0, ge=-MAX_WEIGHT, le=MAX_WEIGHT, description="below 0: away from it")


class SearchBody(SearchOptions, QueryBody):
    """A search in JSON: exactly one of text, image, mesh, id, vector and mix."""

    model_config = given(
        "text",
        "image",
        "mesh",
        "id",
        "vector",
        "mix",
        like={"text": "a red chair", "filter": {"price": {"lt": 100}}, "limit": 5},
    )

    mix: list[WeightedQueryBody] | None = optional(
        "several, each with a weight", min_length=1, max_length=MAX_QUERY_PARTS
    )


class SimilarBody(SearchOptions):
    """How to look for what is like an item."""

    model_config = example(target="shape", limit=5)

    side: Side | None = optional("which side of the item to go by; else the target's, if it has it")


class BatchSearchBody(RequestBody):
    """Several searches at once; each is one of /v1/search in JSON."""

    model_config = example(searches=[{"text": "a red chair"}, {"text": "a lamp", "limit": 3}])

    searches: list[dict[str, Any]] = Field(min_length=1)


class FacetsBody(RequestBody):
    """Which values to count."""

    model_config = example(keys=["colour", "price"], query={"text": "a chair"})

    keys: list[str] = Field(min_length=1, max_length=64, description="keys of the payload; dots lead inwards")
    filter: dict[str, Any] | None = optional("only items that it lets through")
    query: SearchBody | None = optional(
        "only what this search finds; its own limit and offset are not looked at"
    )
    best: int = Field(
        1_000, ge=1, le=MAX_FACET_HITS, description="with a query: so many of its best hits count"
    )
    limit: int = Field(20, ge=1, le=1000, description="most values of one key")


class TraverseBody(QueryBody):
    """What to walk from: exactly one of text, image, mesh and id."""

    model_config = given("text", "image", "mesh", "id", "vector", like={"text": "a red chair", "steps": 20})

    steps: int = Field(STEPS, ge=2, le=MOST_STEPS, description="steps to the root, both ends counted")
    widths: list[FiniteFloat] = Field(
        [],
        max_length=MOST_WIDTHS,
        description="K: a path for each, on which only captions whose cone holds count",
    )
    captions: Literal["all", "collection", "bundle"] = Field("all", description="whose captions may be met")


class ExplainBody(QueryBody):
    """Why an item matches: the query, exactly one of text, image, mesh, id and vector, and the item."""

    model_config = given(
        "text", "image", "mesh", "id", "vector", like={"text": "a red chair", "item": "chair-1"}
    )

    item: str = Field(description="the item that was found")
    kind: Kind | None = optional("of the observation to explain; else the best one")
    index: int | None = optional("its place; needs the kind", ge=0)
    method: ExplanationMethod | None = optional("else the best that the bundle knows")
    token: int | None = optional("maps of one pair of tokens alone, where an encoder compares several", ge=0)
    maps: bool = Field(True, description="false: scores only")


class EmbeddingsBody(BaseModel):
    """What to embed, as OpenAI's API has it, and of which modality."""

    model_config = example(input=["a red chair", "a lamp"])

    input: str | list[str] = Field(description="texts; or images or meshes as data URIs")
    model: str | None = optional("the name of the bundle, or nothing")
    modality: Side = "text"
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = optional("the length of the vectors, or one of the `prefixes` of /v1/models")
    mesh_format: str | None = optional("format of the meshes, if nothing else tells")
    user: str | None = optional("passed over")


class ShownObservation(RequestBody):
    """An observation of an item."""

    kind: Kind
    index: int = Field(ge=0)


class FeedbackBody(RequestBody):
    """A verdict on a hit: whether the item is what the query meant."""

    model_config = example(query={"text": "a red chair"}, item="chair-1", verdict="good")

    query: SearchBody = Field(description="what was searched, as /v1/search takes it")
    item: str = Field(description="the item that is judged")
    observation: ShownObservation | None = optional("the observation that was shown")
    verdict: Verdict
    by: str | None = optional("who says so, in any name of your own", min_length=1, max_length=LONGEST_WHO)
