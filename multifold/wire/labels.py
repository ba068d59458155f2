"""Rerankings, classifications and tags: what is asked, and what is answered."""

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeAlias

from multifold.types import LONGEST_KEY, ConfidenceBasis
from multifold.wire.items import MAX_PAGE, ItemFilterBody, refuse_single_text
from multifold.wire.messages import Answer, Body, ReadAs, described
from multifold.wire.search import (
    EvidenceShare,
    LexicalMode,
    MixedQuery,
    SubjectBody,
)

MAX_CANDIDATES = 1_000
MAX_LABELS = 200
MAX_PROMPTS = 16
MAX_TAGS = 50
Tag: TypeAlias = Annotated[str, ReadAs(str, min_length=1, max_length=200)]
Prompt: TypeAlias = Annotated[str, ReadAs(str, min_length=1, max_length=1_000)]
Template: TypeAlias = Annotated[str, ReadAs(str, pattern=r"\{\}", max_length=1_000)]


class RerankBody(
    MixedQuery,
    example={"text": "a red chair", "candidates": [{"id": "chair-1"}, {"text": "a chair in red"}]},
):
    """A query, as a search takes it, and what to put in order."""

    candidates: Sequence[SubjectBody] = described(
        "items, texts, images and meshes", kw_only=True, min_length=1, max_length=MAX_CANDIDATES
    )
    limit: int | None = described("so many of the best; else all", default=None, ge=1, le=MAX_CANDIDATES)
    lexical: LexicalMode | None = described("'off': words of the query count for nothing", default=None)


class LabelBody(Body):
    """A label with prompts of its own."""

    label: Tag = described("its name in the answer")
    prompts: Sequence[Prompt] = described(
        "what names it to the encoder", min_length=1, max_length=MAX_PROMPTS
    )


Labels: TypeAlias = Annotated[
    Sequence[str | LabelBody] | Mapping[str, Sequence[str]], ReadAs(Sequence[Tag | LabelBody])
]


class VocabularyBody(Body):
    """The labels to choose from. A client may give each label its prompts by a mapping."""

    labels: Labels | None = described("these", default=None, min_length=1, max_length=MAX_LABELS)
    key: str | None = described(
        "a key of the payload: without 'labels' its commonest values are the labels; items that have one "
        "of the labels there are the answers that confidence is fitted on",
        default=None,
        min_length=1,
        max_length=LONGEST_KEY,
    )
    templates: Sequence[Template] | None = described(
        "prompts of labels that have none of their own; {} is the place of the label",
        default=None,
        min_length=1,
        max_length=MAX_PROMPTS,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.labels, Mapping):
            pairs = tuple(LabelBody(label, tuple(prompts)) for label, prompts in self.labels.items())
            object.__setattr__(self, "labels", pairs)
        refuse_single_text(self.labels)


class ClassifyBody(
    VocabularyBody,
    SubjectBody,
    example={"text": "a red chair", "labels": ["chair", "table"]},
):
    """What to classify, exactly one of text, image, mesh and id; and the labels, or the key that has them."""


class TagProposalBody(
    ItemFilterBody, VocabularyBody, example={"labels": ["chair", "table"], "min_confidence": 0.8}
):
    """Which items, and which tags: labels, values of a key, or words of the collection's captions."""

    ids: Sequence[str] | None = described(
        "these items; else those of the filter, or all", default=None, max_length=MAX_PAGE
    )
    words: int | None = described(
        "so many of the commonest words of the captions are the tags", default=None, ge=1, le=MAX_LABELS
    )
    several: bool | None = described(
        "whether an item may have several; else no if the key has one value in each item", default=None
    )
    min_confidence: float = described("no tags that are less certain", default=0.5, ge=0, le=1)
    best: int = described("most tags of one item", default=5, ge=1, le=MAX_TAGS)
    limit: int = described("most items in the answer", default=100, ge=1, le=MAX_PAGE)
    after: str | None = described("the `next` of the page before", default=None)


class AcceptedTagBody(Body):
    """A tag, with the confidence that it was proposed with."""

    tag: Tag = described("the tag")
    confidence: float = described("from 0 to 1", default=1.0, ge=0, le=1)


class TaggedItemBody(Body):
    """An item and its tags."""

    id: str = described("the item")
    tags: Sequence[AcceptedTagBody | Tag] = described("with or without a confidence", max_length=MAX_TAGS)


class TagAcceptBody(Body, example={"items": [{"id": "chair-1", "tags": ["chair"]}], "key": "kind"}):
    """Tags to write into items, as they were proposed."""

    items: Sequence[TaggedItemBody] = described("with their tags", min_length=1, max_length=MAX_PAGE)
    key: str | None = described(
        "of the payload that they are values of", default=None, min_length=1, max_length=LONGEST_KEY
    )
    min_confidence: float = described("tags that are less certain are left out", default=0.0, ge=0, le=1)


class TagRemoveBody(ItemFilterBody, example={"key": "kind"}):
    """Which machine-made tags to remove; without any field, all."""

    ids: Sequence[str] | None = described("only from these items", default=None, max_length=MAX_PAGE)
    key: str | None = described("only those of this key", default=None, min_length=1, max_length=LONGEST_KEY)
    tags: Sequence[Tag] | None = described("only these", default=None, max_length=MAX_LABELS)


class RerankedCandidate(Answer, kw_only=True):
    """A candidate in its new order."""

    index: int = described("its place among the candidates that were sent")
    id: str | None = described("the item, if it is one", default=None)
    score: float = described("the evidence in nats, as in a search with the target 'item'")
    confidence: float | None = described(
        "the probability that this was meant, of a single query", default=None
    )
    evidence: tuple[EvidenceShare, ...] = described("what each leg says, strongest first", default=())


class RerankAnswer(Answer, kw_only=True):
    """Candidates, best first."""

    candidates: tuple[RerankedCandidate, ...] = described("each with its place among those that were sent")
    calibrated_by: ConfidenceBasis | None = described("what confidences were fitted on", default=None)
    version: int = described("sequence number of the collection that answered")
    bundle: str = described("name of the encoder")
    warnings: tuple[str, ...] = described("what was not compared, such as the end of a long text", default=())


class LabelChance(Answer, kw_only=True):
    """A label, and how sure it is."""

    label: str = described("its name")
    confidence: float = described("the probability that it is the right one")
    evidence: tuple[EvidenceShare, ...] = described("what each leg says, strongest first", default=())


class ClassifyAnswer(Answer, kw_only=True):
    """Labels, the surest first."""

    labels: tuple[LabelChance, ...] = described("each with its probability")
    none: float = described("the probability that it is none of them")
    calibrated_by: ConfidenceBasis = described("'collection': answers in the payload; else 'prior'")
    version: int = described("sequence number of the collection that answered")
    bundle: str = described("name of the encoder")
    warnings: tuple[str, ...] = described("what was not compared, such as the end of a long text", default=())


class ProposedTag(Answer, kw_only=True):
    """A tag that an item may have."""

    tag: str = described("the tag")
    confidence: float = described("the probability that it is right")


class ProposedTags(Answer):
    """The tags that an item may have, the surest first."""

    id: str = described("the item")
    tags: tuple[ProposedTag, ...] = described("those that are as certain as was asked for")


class TagProposalAnswer(Answer, kw_only=True):
    """Items with proposed tags, and where the next page begins; null after the last. Nothing was written."""

    items: tuple[ProposedTags, ...] = described("those that a tag is proposed for")
    key: str | None = described("of the payload that the tags are values of; null where they are of none")
    next: str | None = described("the `after` of the following page; null after the last")
    calibrated_by: ConfidenceBasis = described("'collection': answers in the payload; else 'prior'")
    version: int = described("sequence number of the collection that answered")
    bundle: str = described("name of the encoder")


class TagChangeAnswer(Answer):
    """How many items were changed, and which are not there."""

    changed: int = described("how many items are different now")
    missing: tuple[str, ...] = described("ids that are not there")
    version: int = described("number of the collection's last change")
