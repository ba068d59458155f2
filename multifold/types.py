"""The types that all packages share.

An *item* has many *sides*: texts, images, a shape. The data of a side are *observations*: captions,
photos, rendered views. An encoder turns an observation into a *feature*; the geometry turns a feature,
or the mean of several, into an *index vector*.

Shape legend: b batch · o observations of one item · n feature length · d index vector length ·
q queries · g gallery · v views · h, w pixels · t tokens.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from jaxtyping import Float32, UInt8

from multifold.errors import MultifoldError

Side: TypeAlias = Literal["text", "image", "shape"]
Aspect: TypeAlias = Literal["text", "image", "shape", "points"]
Kind: TypeAlias = Literal["caption", "photo", "view", "points"]
Metric: TypeAlias = Literal["ip", "l2"]
Distance: TypeAlias = Literal["cosine", "ip", "l2"]  # of vectors without an encoder
Pooling: TypeAlias = Literal["mean", "max"]
Target: TypeAlias = Literal["item", "any", "text", "image", "shape"]
Leg: TypeAlias = str  # as `index/legs` declares it, or `EXAMPLES`

Verdict: TypeAlias = Literal["good", "bad"]
QueryMeans: TypeAlias = Literal["text", "image", "mesh", "id", "vector"]  # what a part of a query is
ConfidenceBasis: TypeAlias = Literal["collection", "prior"]  # what a confidence was fitted on
FolderState: TypeAlias = Literal["naming", "comparing", "encoding", "watching", "waiting"]
Device: TypeAlias = Literal["cpu", "gpu", "auto"]  # of an index
Memory: TypeAlias = Literal["auto", "resident", "codes"]  # what of the sealed rows of an index is in memory
JobState: TypeAlias = Literal["queued", "running", "done", "failed", "cancelled"]
ExplanationMethod: TypeAlias = Literal["points", "grad-cam", "occlusion"]

STEPS_TO_ROOT = 50  # of a traversal, both ends counted
LONGEST_KEY = 255  # characters of a key of a payload
LONGEST_AUTHOR = 128  # of who gives a verdict
MOST_EXAMPLES = 32

EXAMPLES: Leg = "examples"  # what hits say that were judged
SIDES: tuple[Side, ...] = ("text", "image", "shape")
# An aspect is what is compared of an item. A shape has two: its views, and its points.
ASPECTS: tuple[Aspect, ...] = (*SIDES, "points")
SIDE_OF: Mapping[Kind, Side] = {"caption": "text", "photo": "image", "view": "shape", "points": "shape"}
KIND_OF: Mapping[Side, Kind] = {"text": "caption", "image": "photo", "shape": "view"}  # what every side has
ASPECT_OF: Mapping[Kind, Aspect] = {**{kind: side for side, kind in KIND_OF.items()}, "points": "points"}
KIND_OF_ASPECT: Mapping[Aspect, Kind] = {aspect: kind for kind, aspect in ASPECT_OF.items()}

Feature: TypeAlias = Float32[np.ndarray, " n"]
Features: TypeAlias = Float32[np.ndarray, "b n"]
Vector: TypeAlias = Float32[np.ndarray, " d"]
Vectors: TypeAlias = Float32[np.ndarray, "b d"]
Pixels: TypeAlias = UInt8[np.ndarray, "h w 3"]
PixelBatch: TypeAlias = UInt8[np.ndarray, "b h w 3"]


@dataclass(frozen=True)
class Observation:
    """One caption, photo or view of an item, or its points; and its feature."""

    kind: Kind
    index: int  # its place among the item's observations of this kind
    feature: Feature
    text: str | None = None  # captions
    blob: str | None = None  # photos and views: the key of the picture


@dataclass(frozen=True)
class Item:
    """A thing with its observations. `payload` is the user's own JSON object."""

    id: str
    observations: tuple[Observation, ...]
    payload: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[str, ...] = ()  # keys of the originals that its views are of
    notes: tuple[str, ...] = ()  # what was lost when its mesh was drawn, such as a texture
    damaged: tuple[Observation, ...] = ()  # left out of the others: not what was written
    whole: bool = True  # else its payload and files are not what was written, and left out

    @property
    def texts(self) -> tuple[str, ...]:
        """Its captions."""
        return tuple(one.text for one in self.observations if one.text is not None)

    def pictures(self, *kinds: Kind) -> tuple[str, ...]:
        """The keys of its pictures of these kinds."""
        return tuple(one.blob for one in self.observations if one.kind in kinds and one.blob is not None)


@dataclass(frozen=True)
class Mix:
    """Several index vectors, each with a weight of any sign; scores are the weighted sums of their scores."""

    parts: tuple[tuple[Vector, float], ...]


@dataclass(frozen=True)
class Examples:
    """Items that were judged as hits of a search, by their ids: it means what is like the good ones."""

    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}  # as they are read from requests
    good: Sequence[str] = field(
        default=(),
        metadata={"description": "these stay, and what is like them rises", "max_length": MOST_EXAMPLES},
    )
    bad: Sequence[str] = field(
        default=(),
        metadata={"description": "these go last, and what is like them falls", "max_length": MOST_EXAMPLES},
    )

    def __post_init__(self) -> None:
        """A single id would be read as a list of its letters."""
        for ids in (self.good, self.bad):
            if isinstance(ids, str):
                raise MultifoldError(f"examples are lists of ids: [{ids!r}], not {ids!r}")

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.good or self.bad)


NO_EXAMPLES = Examples()


@dataclass(frozen=True)
class LegEvidence:
    """What one leg of a search says of a hit, and what of the item it was that matched."""

    leg: Leg
    value: float  # a log-likelihood ratio in nats: above 0 it speaks for the item
    matched: Observation | None = None
    field: str | None = None  # where words matched that are no caption's: name, path or payload


@dataclass(frozen=True)
class TextCounts:
    """How many items of a collection have a text that says anything, and how many each word of a query."""

    items: int
    having: Mapping[str, int]


@dataclass(frozen=True)
class Presence:
    """Whether a collection has what a query means."""

    # Nats by which all items together say more than to a meaningless query; -inf: none has what is in quotes.
    gain: float
    well: bool  # whether anything stands out
    unlike: bool = False  # whether the query gains less than nearly all questions of the collection's own
    error: float | None = None  # how often the answer may lack what is meant, where that was asked
    everything: float | None = None  # nats that all items of the collection say together
    counts: TextCounts | None = None  # of a text
    chance: float | None = None  # that one of the first items is what is meant


@dataclass(frozen=True)
class Hit:
    """An item found, and the observation of it that matched best."""

    id: str
    score: float
    side: Side
    matched: Observation
    payload: Mapping[str, Any]
    confidence: float | None = None  # the chance that it is what was meant
    words: tuple[str, ...] = ()  # of the query, that name this item
    same: tuple["Hit", ...] = ()  # others that show the same, if they were folded into this one
    sides: Mapping[Side, float] | None = None  # the score of each side of the item, if it was asked for
    evidence: tuple[LegEvidence, ...] = ()  # of each leg that was asked
    presence: Presence | None = None  # whether the collection has what was meant: the same of all hits
    looks_like: tuple[str, ...] = ()  # names of what the picture that matched looks like


def features_of(observations: Iterable[Observation], side: Side) -> list[Feature]:
    """The features of captions, photos or single views."""
    return [one.feature for one in observations if one.kind == KIND_OF[side]]


def pool_side(observations: Sequence[Observation], side: Side) -> Feature | None:
    """One feature of a side: the mean of its captions, photos or views; with points, the mean of that and of
    these, made as long as it is."""
    plain = features_of(observations, side)
    if not plain:
        return None
    pooled = pool_mean(np.stack(plain))
    points = next((one.feature for one in observations if side == "shape" and one.kind == "points"), None)
    if points is None:
        return pooled
    length = float(np.linalg.norm(pooled)) / max(float(np.linalg.norm(points)), 1e-12)
    return pool_mean(np.stack([pooled, points * length]).astype(np.float32))


def pool_mean(features: Float32[np.ndarray, "o n"]) -> Feature:
    """Several observations become one: the mean of their features, before the geometry's map."""
    pooled: Feature = features.mean(axis=0, dtype=np.float64).astype(np.float32)
    return pooled
