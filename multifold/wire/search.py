"""Answers to searches, facets and embeddings, and verdicts on hits."""

from typing import Any, Literal

from multifold.types import ConfidenceBasis, Kind, Leg, QueryMeans, Side, Target, Verdict
from multifold.wire.answer import Answer, described
from multifold.wire.items import ObservationInfo, Refusal


class DuplicateItem(Answer):
    """An item that shows the same as a hit."""

    id: str
    payload: dict[str, Any]


class EvidenceShare(Answer):
    """What one leg of a search says of a hit, and what of the item it was that matched."""

    leg: Leg
    value: float = described("a log-likelihood ratio in nats: above 0 it speaks for the item")
    matched: ObservationInfo | None = None
    text_field: str | None = described("where words matched: name, path or payload", default=None)


class SearchHit(Answer, kw_only=True):
    """An item found, and the observation of it that matched best."""

    id: str
    score: float = described("index score, or evidence: higher is closer; for one answer and side")
    confidence: float | None = described("the probability that this was meant, if calibrated", default=None)
    chance: float | None = described("without a confidence: how rarely strangers score so high", default=None)
    modality: Side
    matched: ObservationInfo
    payload: dict[str, Any]
    sides: dict[Side, float] | None = described("with `explain`: the index score of each side", default=None)
    words: tuple[str, ...] = described("words of the query that name this item", default=())
    evidence: tuple[EvidenceShare, ...] = described(
        "with the target 'item', or of shapes with points: what each leg says", default=()
    )
    duplicates: tuple[DuplicateItem, ...] = described("others that show the same, if folded", default=())


class SearchTimings(Answer):
    """Milliseconds from the first to the last step, waiting included."""

    encode: float
    search: float
    total: float


class SearchAnswer(Answer, kw_only=True):
    """Items, best first."""

    hits: tuple[SearchHit, ...]
    took_ms: SearchTimings
    version: int = described("sequence number of the collection that answered")
    bundle: str
    calibrated_by: ConfidenceBasis | None = described("what confidences were fitted on", default=None)
    matches_well: bool | None = described(
        "with the target 'item': false where nothing stands out", default=None
    )
    warnings: tuple[str, ...] = ()
    next: str | None = described("the `after` of the following page; null after the last", default=None)


class BatchSearchOutcome(Answer):
    """The answer to one search, or why there is none."""

    answer: SearchAnswer | None = None
    error: Refusal | None = None


class BatchSearchAnswer(Answer):
    """Answers in the order of the searches."""

    answers: tuple[BatchSearchOutcome, ...]


class FacetValueCount(Answer):
    """A value of the payload, and how many items have it."""

    value: str | float | bool
    count: int


class NumberRange(Answer):
    """The least and the greatest number of a key, and how many items have one."""

    min: float
    max: float
    count: int


class FacetsAnswer(Answer):
    """The commonest values of each key, most first, and the range of each key that has numbers."""

    facets: dict[str, tuple[FacetValueCount, ...]]
    ranges: dict[str, NumberRange]


class EmbeddingInfo(Answer, kw_only=True):
    """The index vector of one input."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str = described("numbers, or base64 of little-endian float32")


class TokenUsage(Answer):
    """Tokens that were read."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsAnswer(Answer, kw_only=True):
    """Vectors in the order of the inputs."""

    object: Literal["list"] = "list"
    data: tuple[EmbeddingInfo, ...]
    model: str
    usage: TokenUsage


class ServedModel(Answer, kw_only=True):
    """A bundle, as OpenAI's API shows models."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: Literal["multifold"] = "multifold"
    modalities: tuple[Side, ...]
    dimensions: int
    prefixes: tuple[int, ...] = described("shorter lengths that embeddings may have", default=())


class ModelsAnswer(Answer, kw_only=True):
    """The bundle that is loaded."""

    object: Literal["list"] = "list"
    data: tuple[ServedModel, ...]


class FeedbackPart(Answer):
    """One part of a query; without content where that is not kept."""

    means: QueryMeans
    weight: float
    text: str | None = None
    id: str | None = None
    side: Side | None = None
    url: str | None = described("of its picture or mesh", default=None)


class ObservationReference(Answer):
    """An observation of an item."""

    kind: Kind
    index: int


class FeedbackEntry(Answer, kw_only=True):
    """A verdict on an item for a query, as it is kept."""

    id: str
    item: str
    observation: ObservationReference | None
    verdict: Verdict
    by: str | None
    given: str = described("when, in UTC")
    target: Target
    query: tuple[FeedbackPart, ...]


class FeedbackPage(Answer):
    """Verdicts, and where the next page begins; null after the last."""

    feedback: tuple[FeedbackEntry, ...]
    next: str | None
