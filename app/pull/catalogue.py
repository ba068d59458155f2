"""Published towers that we know, from what their publishers and users have written down.

`sha256` holds the hashes that are known in advance; what is not pinned here is verified against the hub's own
list and written into the bundle. None: not known. A commit that is not known is taken when the encoder is
first pulled, and written into the bundle too: while it is there, another commit is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from app.pull.published_files import Variant


@dataclass(frozen=True)
class PublishedEncoder:
    """One encoder of the list."""

    name: str
    repository: str
    licence: str = ""  # of the weights; what the export itself says is read from the hub, too
    languages: str = "-"
    variant: Variant = "fp32"
    revision: str | None = None
    download: int | None = None  # bytes of both graphs
    memory: int | None = None  # MiB
    milliseconds: float | None = None
    recall: Mapping[str, float] = field(default_factory=dict)  # percent, by language
    sha256: Mapping[str, str] = field(default_factory=dict)

    @property
    def about(self) -> str:
        towers = f"Published towers {self.repository} ({self.variant})"
        return f"{towers}, trained on pictures and texts of the web."

    @property
    def pinned(self) -> str:
        return ("unverified", "partly known", "known")[sum(name.endswith(".onnx") for name in self.sha256)]

    @property
    def row(self) -> tuple[str, ...]:
        size = "-" if self.download is None else f"{self.download / 1e6:.0f} MB"
        memory = "-" if self.memory is None else f"{self.memory / 1024:.1f} GiB"
        time = "-" if self.milliseconds is None else f"{self.milliseconds:.1f} ms"
        recall = (f"{self.recall[one]:.1f}" if one in self.recall else "-" for one in SHOWN_LANGUAGES)
        shown = self.name, self.variant, size, memory, time, *recall, self.languages
        return (*shown, self.licence or "-", self.pinned, self.repository)


SHOWN_LANGUAGES = ("en", "cs", "de", "es", "ar", "zh")


def _hashes(suffix: str, vision: str, text: str, **configurations: str) -> dict[str, str]:
    """Hashes of a repository in the layout of transformers.js, by file name."""
    graphs = {f"onnx/vision_model{suffix}.onnx": vision, f"onnx/text_model{suffix}.onnx": text}
    return graphs | {f"{name}.json": sha256 for name, sha256 in configurations.items()}


CLIP = partial(
    PublishedEncoder,
    repository="Xenova/clip-vit-base-patch32",
    revision="d15189d7028b43f1d3e65039190477f6af591c2a",
    licence="MIT",
    languages="English",
)
CLIP_TOKENS = "f7f3b7af117d467b58374797691a6438d3e6b9e9cef800dfd5dced7f697a90cd"
SIGLIP = partial(
    PublishedEncoder,
    repository="Xenova/siglip-base-patch16-224",
    revision="4649052661e53c7000355844105f8a1792088239",
    licence="Apache-2.0",
    languages="English",
)
SIGLIP_TOKENS = "4a17c975210be5ab4c36b47d8dae4eefb866dbfb1e676e394aad85dc30a3ae08"
RECOMMENDED = "siglip2-b16-small"
PUBLISHED_ENCODERS = (
    PublishedEncoder(
        name="siglip2-b16-small",
        repository="onnx-community/siglip2-base-patch16-224-ONNX",
        revision="ba1f3b0843f24bc5417d38e19c37b287d719b2f4",
        variant="int8",
        licence="Apache-2.0",
        languages="many",
        download=94_553_333 + 283_438_275,
        sha256=_hashes(
            "_quantized",
            vision="5f2b401c1a4fc095702a5d45348e17ad46c4f87064085365b43c6e8eaa5c0070",
            text="3a0603d3a00c05a80a6ded4743c16aaac7b1e62cdcc7e362e7ce418659b96400",
            tokenizer="cb9140fae3ac5122c972d37adf83e1248471a38147ad76f8215c8872c6fd8322",
            tokenizer_config="7c3a247599e741bceba1a3fe0285aea88d1044dc1fad2caa1e48cdd9fd25f630",
            preprocessor_config="9b36b57ebaf20f09bf4c22100ccc21877ea6bfe5aead0c00c59f8af8ccefacfc",
            config="e43a9f7692d3819886a82cb2097048258d444f123c67d37ec825f9345b019cf2",
        ),
    ),
    PublishedEncoder(
        name="siglip2-b16",
        repository="immich-app/ViT-B-16-SigLIP2__webli",
        licence="Apache-2.0",
        languages="many",
        memory=3038,
        milliseconds=5.81,
        recall={"en": 75.19, "cs": 54.81, "de": 86.44, "es": 82.22, "ar": 61.71, "zh": 64.39},
    ),
    PublishedEncoder(
        name="siglip2-b32",
        repository="immich-app/ViT-B-32-SigLIP2-256__webli",
        licence="Apache-2.0",
        languages="many",
        memory=3061,
        milliseconds=3.31,
        recall={"en": 73.15, "cs": 54.31, "de": 84.44, "es": 78.99, "ar": 60.7, "zh": 62.56},
    ),
    CLIP(
        name="clip-b32-small",
        variant="int8",
        download=89_117_001 + 64_504_507,
        sha256=_hashes(
            "_quantized",
            vision="583fd1110a514667812fee7d684952aaf82a99b959760c8d7dca7e0ab9839299",
            text="73baab855d406190da9faa498cfedf65f15cf309f4cc7385b7b032e6d08e5c3a",
            tokenizer=CLIP_TOKENS,
        ),
    ),
    CLIP(
        name="clip-b32",
        download=351_685_709 + 254_058_553,
        memory=1004,
        milliseconds=2.26,
        recall={"en": 59.37, "es": 29.84},
        sha256=_hashes(
            "",
            vision="fd6e1402a588279d1723c7534d4bcba5bc0b14b47dfab0e46f8c47b8270d7d40",
            text="3f6571f5bad13a97c469c1622e1cfc4d9aef78b79fdbfcff804ca357bfada8cc",
            tokenizer=CLIP_TOKENS,
        ),
    ),
    PublishedEncoder(
        name="clip-b32-laion",
        repository="immich-app/ViT-B-32__laion2b-s34b-b79k",
        revision="8204c663a7b5aa2edd55e0df578b39f57af07376",
        licence="MIT",
        languages="English",
        download=605_000_000,
        memory=1001,
        milliseconds=2.29,
        recall={"en": 68.78, "de": 36.6, "es": 42.5},
    ),
    SIGLIP(
        name="siglip-b16-small",
        variant="int8",
        download=211_000_000,
        sha256={"tokenizer.json": SIGLIP_TOKENS},
    ),
    SIGLIP(
        name="siglip-b16",
        memory=1081,
        milliseconds=5.77,
        recall={"en": 71.64, "cs": 22.89, "de": 75.19, "es": 74.6},
        sha256={
            "onnx/text_model.onnx": "3aa7fdbd20eaa8740cce17bf82913de641fcb632a768fed59f661cdcd0c32553",
            "tokenizer.json": SIGLIP_TOKENS,
        },
    ),
    PublishedEncoder(
        name="jina-clip-v1",
        repository="jinaai/jina-clip-v1",
        revision="fd7f7158b59ba9347679ec009a6547936d2c7378",
        variant="int8",
        licence="Apache-2.0",
        languages="English",
        download=226_000_000,
    ),
    PublishedEncoder(
        name="xlm-b32",
        repository="immich-app/XLM-Roberta-Base-ViT-B-32__laion5b_s13b_b90k",
        licence="MIT",
        languages="many",
        memory=3030,
        milliseconds=3.2,
        recall={"en": 68.33, "cs": 61.01, "de": 81.63, "es": 75.01, "ar": 59.66, "zh": 72.52},
    ),
    PublishedEncoder(
        name="nllb-base",
        repository="immich-app/nllb-clip-base-siglip__mrl",
        licence="CC-BY-NC-4.0",
        languages="one of 200",
        memory=4696,
        milliseconds=16.95,
        recall={"en": 69.66, "cs": 69.86, "de": 84.58, "es": 77.21, "ar": 74.03, "zh": 72.89},
    ),
)


def find_published_encoder(name: str) -> PublishedEncoder | None:
    return next((one for one in PUBLISHED_ENCODERS if one.name == name), None)


def candidates(language: str) -> tuple[PublishedEncoder, ...]:
    """The recommended encoder, and the two of most recall in a language."""
    known = [one for one in PUBLISHED_ENCODERS if language in one.recall and one.name != RECOMMENDED]
    best = sorted(known, key=lambda one: -one.recall[language])[:2]
    return tuple(one for one in PUBLISHED_ENCODERS if one.name == RECOMMENDED or one in best)


def format_catalogue() -> str:
    measured = ("memory", "time", *SHOWN_LANGUAGES)
    head = ("name", "variant", "graphs", *measured, "languages", "licence", "hashes", "repository")
    rows = [head, *(one.row for one in PUBLISHED_ENCODERS)]
    return "\n".join([*align_columns(rows), "", *CATALOGUE_NOTES])


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line for each row, with cells of a column below one another."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


CATALOGUE_NOTES = (
    f"For a laptop: {RECOMMENDED}. Licences are those of the weights. `-`: not known.",
    "memory, time, en to zh: immich measured fp32 graphs: peak of its process, one pass on a 7800X3D,",
    "percent, by language: mean of recall@1, 5 and 10, text to picture, Crossmodal-3600. None of int8.",
    "Compare on your own things: multifold pull --for FOLDER --language cs.",
    "hashes: `unverified` ones are checked against the hub's own list when pulled, and kept in the bundle.",
)
