"""What rerankings, classifications and tags are asked with."""

from typing import Annotated, TypeAlias

from pydantic import Field

from app.http.schemas.items import MAX_PAGE, ItemFilterBody
from app.http.schemas.request import MeshFormat, RequestBody, example, given, optional
from app.http.schemas.search import MAX_QUERY_PARTS, LexicalMode, QueryBody, WeightedQueryBody
from index.store.schema import LONGEST_KEY

MAX_CANDIDATES = 1_000
MAX_LABELS = 200
MAX_PROMPTS = 16
MAX_TAGS = 50
LONGEST_TAG = 200
Tag: TypeAlias = Annotated[str, Field(min_length=1, max_length=LONGEST_TAG)]
Prompt: TypeAlias = Annotated[str, Field(min_length=1, max_length=1_000)]
Template: TypeAlias = Annotated[
    str, Field(pattern=r"\{\}", max_length=1_000, description="a prompt; {} is the place of the label")
]


class SubjectBody(RequestBody):
    """An item, or what is none; exactly one of text, image, mesh and id."""

    model_config = given("text", "image", "mesh", "id", like={"id": "chair-1"})

    text: str | None = optional("words")
    image: str | None = optional("a picture as data URI: data:image/png;base64,…")
    mesh: str | None = optional("a mesh as data URI: data:model/gltf-binary;base64,…")
    mesh_format: MeshFormat = None
    id: str | None = optional("an item of this collection, with all that is known of it")


class RerankBody(QueryBody):
    """A query, as a search takes it, and what to put in order."""

    model_config = given(
        *("text", "image", "mesh", "id", "vector", "mix"),
        like={"text": "a red chair", "candidates": [{"id": "chair-1"}, {"text": "a chair in red"}]},
    )

    mix: list[WeightedQueryBody] | None = optional(
        "several, each with a weight", min_length=1, max_length=MAX_QUERY_PARTS
    )
    candidates: list[SubjectBody] = Field(min_length=1, max_length=MAX_CANDIDATES)
    limit: int | None = optional("so many of the best; else all", ge=1, le=MAX_CANDIDATES)
    lexical: LexicalMode | None = optional("'off': words of the query count for nothing")


class LabelBody(RequestBody):
    """A label with prompts of its own."""

    label: Tag
    prompts: list[Prompt] = Field(min_length=1, max_length=MAX_PROMPTS)


class VocabularyBody(RequestBody):
    """The labels to choose from."""

    labels: list[Tag | LabelBody] | None = optional("these", min_length=1, max_length=MAX_LABELS)
    templates: list[Template] | None = optional(
        "prompts of labels that have none of their own", min_length=1, max_length=MAX_PROMPTS
    )
    key: str | None = optional(
        "a key of the payload: without 'labels' its commonest values are the labels; items that have one "
        "of the labels there are the answers that confidence is fitted on",
        min_length=1,
        max_length=LONGEST_KEY,
    )


class ClassifyBody(SubjectBody, VocabularyBody):
    """What to classify, exactly one of text, image, mesh and id; and the labels, or the key that has them."""

    model_config = given(
        "text", "image", "mesh", "id", like={"text": "a red chair", "labels": ["chair", "table"]}
    )


class TagProposalBody(ItemFilterBody, VocabularyBody):
    """Which items, and which tags: labels, values of a key, or words of the collection's captions."""

    model_config = example(labels=["chair", "table"], min_confidence=0.8)

    ids: list[str] | None = optional("these items; else those of the filter, or all", max_length=MAX_PAGE)
    words: int | None = optional(
        "so many of the commonest words of the captions are the tags", ge=1, le=MAX_LABELS
    )
    several: bool | None = optional(
        "whether an item may have several; else no if the key has one value in each item"
    )
    min_confidence: float = Field(0.5, ge=0, le=1, description="no tags that are less certain")
    best: int = Field(5, ge=1, le=MAX_TAGS, description="most tags of one item")
    limit: int = Field(100, ge=1, le=MAX_PAGE, description="most items in the answer")
    after: str | None = optional("the `next` of the page before")


class AcceptedTagBody(RequestBody):
    """A tag, with the confidence that it was proposed with."""

    tag: Tag
    confidence: float = Field(1.0, ge=0, le=1)


class TaggedItemBody(RequestBody):
    """An item and its tags."""

    id: str
    tags: list[AcceptedTagBody | Tag] = Field(max_length=MAX_TAGS)


class TagAcceptBody(RequestBody):
    """Tags to write into items, as they were proposed."""

    model_config = example(items=[{"id": "chair-1", "tags": ["chair"]}], key="kind")

    items: list[TaggedItemBody] = Field(min_length=1, max_length=MAX_PAGE)
    key: str | None = optional("of the payload that they are values of", min_length=1, max_length=LONGEST_KEY)
    min_confidence: float = Field(0.0, ge=0, le=1, description="tags that are less certain are left out")


class TagRemoveBody(ItemFilterBody):
    """Which machine-made tags to remove; without any field, all."""

    model_config = example(key="kind")

    ids: list[str] | None = optional("only from these items", max_length=MAX_PAGE)
    key: str | None = optional("only those of this key", min_length=1, max_length=LONGEST_KEY)
    tags: list[Tag] | None = optional("only these", max_length=MAX_LABELS)
