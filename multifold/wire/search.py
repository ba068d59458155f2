"""Answers to searches, facets and embeddings, and verdicts on hits."""

from dataclasses import dataclass, field
from typing import Any, Literal

from multifold.types import ConfidenceBasis, Kind, QueryMeans, Side, Target, Verdict
from multifold.wire.items import ObservationInfo, Refusal


@dataclass(frozen=True)
class DuplicateItem:
    """An item that shows the same as a hit."""

    id: str
    payload: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class SearchHit:
    """An item found, and the observation of it that matched best."""

    id: str
    score: float = field(
        metadata={"description": "index score: higher is closer; comparable within one answer and side"}
    )
    confidence: float | None = field(
        default=None,
        metadata={
            "description": "the probability that this is what was meant; null where nothing is calibrated"
        },
    )
    chance: float | None = field(
        default=None,
        metadata={
            "description": "how rarely what does not belong together scores so high; "
            "where no confidence is known"
        },
    )
    modality: Side
    matched: ObservationInfo
    payload: dict[str, Any]
    sides: dict[Side, float] | None = field(
        default=None,
        metadata={
            "description": "with `explain`: the index score of each of its sides, "
            "the mean of its observations"
        },
    )
    words: tuple[str, ...] = field(
        default=(), metadata={"description": "of the query, that stand in its name, captions or payload"}
    )
    duplicates: tuple[DuplicateItem, ...] = field(
        default=(), metadata={"description": "others that show the same, if they were folded"}
    )


@dataclass(frozen=True)
class SearchTimings:
    """Milliseconds from the first to the last step, waiting included."""

    encode: float
    search: float
    total: float


@dataclass(frozen=True, kw_only=True)
class SearchAnswer:
    """Items, best first."""

    hits: tuple[SearchHit, ...]
    took_ms: SearchTimings
    version: int = field(metadata={"description": "sequence number of the collection that answered"})
    bundle: str
    calibrated_by: ConfidenceBasis | None = field(
        default=None,
        metadata={
            "description": "what says how sure hits are: the bundle, "
            "the collection's captions, or only chance"
        },
    )
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class BatchSearchOutcome:
    """The answer to one search, or why there is none."""

    answer: SearchAnswer | None = None
    error: Refusal | None = None


@dataclass(frozen=True)
class BatchSearchAnswer:
    """Answers in the order of the searches."""

    answers: tuple[BatchSearchOutcome, ...]


@dataclass(frozen=True)
class FacetValueCount:
    """A value of the payload, and how many items have it."""

    value: str | float | bool
    count: int


@dataclass(frozen=True)
class NumberRange:
    """The least and the greatest number of a key, and how many items have one."""

    min: float
    max: float
    count: int


@dataclass(frozen=True)
class FacetsAnswer:
    """The commonest values of each key, most first, and the range of each key that has numbers."""

    facets: dict[str, tuple[FacetValueCount, ...]]
    ranges: dict[str, NumberRange]


@dataclass(frozen=True, kw_only=True)
class EmbeddingInfo:
    """The index vector of one input."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str = field(
        metadata={"description": "numbers, or base64 of little-endian float32"}
    )


@dataclass(frozen=True)
class TokenUsage:
    """Tokens that were read."""

    prompt_tokens: int
    total_tokens: int


@dataclass(frozen=True, kw_only=True)
class EmbeddingsAnswer:
    """Vectors in the order of the inputs."""

    object: Literal["list"] = "list"
    data: tuple[EmbeddingInfo, ...]
    model: str
    usage: TokenUsage


@dataclass(frozen=True, kw_only=True)
class ServedModel:
    """A bundle, as OpenAI's API shows models."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: Literal["multifold"] = "multifold"
    modalities: tuple[Side, ...]
    dimensions: int


@dataclass(frozen=True, kw_only=True)
class ModelsAnswer:
    """The bundle that is loaded."""

    object: Literal["list"] = "list"
    data: tuple[ServedModel, ...]


@dataclass(frozen=True)
class FeedbackPart:
    """One part of a query; without content where that is not kept."""

    means: QueryMeans
    weight: float
    text: str | None = None
    id: str | None = None
    side: Side | None = None
    url: str | None = field(default=None, metadata={"description": "of its picture or mesh"})


@dataclass(frozen=True)
class ObservationReference:
    """An observation of an item."""

    kind: Kind
    index: int


@dataclass(frozen=True, kw_only=True)
class FeedbackEntry:
    """A verdict on an item for a query, as it is kept."""

    id: str
    item: str
    observation: ObservationReference | None
    verdict: Verdict
    by: str | None
    given: str = field(metadata={"description": "when, in UTC"})
    target: Target
    query: tuple[FeedbackPart, ...]


@dataclass(frozen=True)
class FeedbackPage:
    """Verdicts, and where the next page begins; null after the last."""

    feedback: tuple[FeedbackEntry, ...]
    next: str | None
