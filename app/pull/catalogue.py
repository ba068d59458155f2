"""The published models that we know, read from catalogue.toml: encoders, text readers and point encoders."""

import argparse
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from app.pull.published_files import PullError, Variant

CATALOGUE = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))
RECOMMENDED = "siglip2-b16-small"
SHOWN_LANGUAGES = ("en", "cs", "de", "es", "ar", "zh")
FLORES_CODES: Mapping[str, str] = CATALOGUE["languages"]


@dataclass(frozen=True)
class PublishedModel:
    """One entry of the list."""

    name: str
    repository: str
    licence: str = ""  # of the weights; what the export itself says is read from the hub, too
    languages: str = "-"
    revision: str | None = None
    download: int | None = None  # bytes
    sha256: Mapping[str, str] = field(default_factory=dict)  # hashes that are known, by file

    @property
    def size(self) -> str:
        return "-" if self.download is None else f"{self.download / 1e6:.0f} MB"


@dataclass(frozen=True)
class PublishedEncoder(PublishedModel):
    """Published towers, or towers that nobody has listed."""

    variant: Variant = "fp32"
    memory: int | None = None  # MiB
    milliseconds: float | None = None
    recall: Mapping[str, float] = field(default_factory=dict)  # percent, by language

    @property
    def about(self) -> str:
        towers = f"Published towers {self.repository} ({self.variant})"
        return f"{towers}, trained on pictures and texts of the web."

    @property
    def pinned(self) -> str:
        return ("unverified", "partly known", "known")[sum(name.endswith(".onnx") for name in self.sha256)]

    @property
    def row(self) -> tuple[str, ...]:
        memory = "-" if self.memory is None else f"{self.memory / 1024:.1f} GiB"
        time = "-" if self.milliseconds is None else f"{self.milliseconds:.1f} ms"
        recall = (f"{self.recall[one]:.1f}" if one in self.recall else "-" for one in SHOWN_LANGUAGES)
        shown = self.name, self.variant, self.size, memory, time, *recall, self.languages
        return (*shown, self.licence or "-", self.pinned, self.repository)


@dataclass(frozen=True)
class PublishedReader(PublishedModel):
    """A text reader: a table of static vectors in the layout of the library model2vec."""

    dim: int = 0

    @property
    def row(self) -> tuple[str, ...]:
        hashes = "known" if self.sha256 else "unverified"
        return self.name, self.size, str(self.dim), self.languages, self.licence, hashes, self.repository


@dataclass(frozen=True)
class PublishedPoints(PublishedModel):
    """A point encoder, whose weights `multifold export` adds to a bundle."""

    clip: str = ""  # of OpenAI, in whose space it is

    @property
    def row(self) -> tuple[str, ...]:
        return self.name, self.clip, self.licence, self.repository


ENCODERS = tuple(PublishedEncoder(**entry) for entry in CATALOGUE["encoders"])
READERS = tuple(PublishedReader(**entry) for entry in CATALOGUE["readers"])
POINTS = tuple(PublishedPoints(**entry) for entry in CATALOGUE["points"])


def run(_: argparse.Namespace) -> int:
    print(format_catalogue())
    return 0


def find_published(name: str) -> PublishedModel | None:
    every: tuple[PublishedModel, ...] = (*ENCODERS, *READERS, *POINTS)
    return next((one for one in every if one.name.lower() == name.lower()), None)


def candidates(language: str) -> tuple[PublishedEncoder, ...]:
    """The recommended encoder, and the two of most recall in a language."""
    known = [one for one in ENCODERS if language in one.recall and one.name != RECOMMENDED]
    best = sorted(known, key=lambda one: -one.recall[language])[:2]
    return tuple(one for one in ENCODERS if one.name == RECOMMENDED or one in best)


def flores_code(language: str) -> str:
    """The name of a language in NLLB: of two letters, or that name itself."""
    if "_" in language:
        return language
    if language not in FLORES_CODES:
        raise PullError(
            f"{language!r} is no language that we know; say {', '.join(FLORES_CODES)}, or ces_Latn"
        )
    return FLORES_CODES[language]


def format_catalogue() -> str:
    of_encoders = ("name", "variant", "graphs", "memory", "time", *SHOWN_LANGUAGES, "languages", "licence")
    encoders = [(*of_encoders, "hashes", "repository"), *(one.row for one in ENCODERS)]
    readers = [
        ("text reader", "download", "numbers", "languages", "licence", "hashes", "repository"),
        *(one.row for one in READERS),
    ]
    points = [("points", "space of", "licence", "repository"), *(one.row for one in POINTS)]
    lines = [*_align(encoders), "", *ENCODER_NOTES, "", *_align(readers), "", READER_NOTE]
    return "\n".join([*lines, "", *_align(points), "", POINT_NOTE])


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line for each row, with cells of a column below one another."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


ENCODER_NOTES = (
    f"For a laptop: {RECOMMENDED}. Licences are those of the weights. `-`: not known.",
    "memory, time, en to zh: immich measured fp32 graphs: peak of its process, one pass on a 7800X3D,",
    "percent, by language: mean of recall@1, 5 and 10, text to picture, Crossmodal-3600. None of int8.",
    "Compare on your own things: multifold pull --for FOLDER --language cs.",
    "hashes: `unverified` ones are checked against the hub's own list when pulled, and kept in the bundle.",
)
READER_NOTE = "A text reader compares texts with texts, beside an encoder: docs/readers.md."
POINT_NOTE = "They learned in part from ShapeNet: docs/towers.md#points."
