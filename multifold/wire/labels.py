"""Answers of rerankings and classifications, and proposed tags."""

from multifold.types import ConfidenceBasis
from multifold.wire.answer import Answer, described
from multifold.wire.search import EvidenceShare


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

    candidates: tuple[RerankedCandidate, ...]
    calibrated_by: ConfidenceBasis | None = described("what confidences were fitted on", default=None)
    version: int = described("sequence number of the collection that answered")
    bundle: str
    warnings: tuple[str, ...] = ()


class LabelChance(Answer, kw_only=True):
    """A label, and how sure it is."""

    label: str
    confidence: float
    evidence: tuple[EvidenceShare, ...] = described("what each leg says, strongest first", default=())


class ClassifyAnswer(Answer, kw_only=True):
    """Labels, the surest first."""

    labels: tuple[LabelChance, ...]
    none: float = described("the probability that it is none of them")
    calibrated_by: ConfidenceBasis = described("'collection': answers in the payload; else 'prior'")
    version: int = described("sequence number of the collection that answered")
    bundle: str
    warnings: tuple[str, ...] = ()


class ProposedTag(Answer, kw_only=True):
    """A tag that an item may have."""

    tag: str
    confidence: float


class ProposedTags(Answer):
    """The tags that an item may have, the surest first."""

    id: str
    tags: tuple[ProposedTag, ...]


class TagProposalAnswer(Answer, kw_only=True):
    """Items with proposed tags, and where the next page begins; null after the last. Nothing was written."""

    items: tuple[ProposedTags, ...]
    key: str | None
    next: str | None
    calibrated_by: ConfidenceBasis = described("'collection': answers in the payload; else 'prior'")
    version: int = described("sequence number of the collection that answered")
    bundle: str


class TagChangeAnswer(Answer):
    """How many items were changed, and which are not there."""

    changed: int
    missing: tuple[str, ...]
    version: int
