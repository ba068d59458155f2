"""What the service says about itself: bundle, collection, limits, health."""

from typing import Literal

from multifold.errors import needs_extra
from multifold.types import ConfidenceBasis, Kind

with needs_extra("serve"):
    from pydantic import BaseModel


class BundleSummary(BaseModel):
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
    calibrated: list[str]  # pairs that confidence is known for, as asked/target/pool
    calibrated_by: (
        ConfidenceBasis | None
    )  # its own held-out pairs, the collection's captions, or chance: no probability
    calibrated_on: int  # items of the collection, where that is what it was fitted on


class CollectionSummary(BaseModel):
    """What is searched."""

    items: int
    observations: dict[Kind, int]
    version: int


class LimitsSummary(BaseModel):
    """What is refused beyond."""

    body_bytes: int
    text_characters: int
    text_tokens: int
    files: int
    pixels: int
    faces: int
    page: int
    hits: int
    offset: int
    facet_hits: int
    mix: int
    batch: int
    waiting: int
    seconds: float
    render_seconds: float


class InfoAnswer(BaseModel):
    """What runs here."""

    version: str
    bundle: BundleSummary
    collection: CollectionSummary
    limits: LimitsSummary
    feedback: bool  # whether hits can be judged
    fetches: bool  # whether files of items may be named by their addresses
    in_place: bool  # whether it copies no upload that a file of its folders holds


class HealthAnswer(BaseModel):
    """Alive, or ready."""

    status: Literal["ok"]
