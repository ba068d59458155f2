"""How published encoders read texts: their configuration, and their tokenizer asked with raw texts.

The ids that frame a text come from the published tokenizer. Our tokens of raw texts are compared with those
that the publisher's own code makes of them: its cleaning, then its `tokenizer.json`.
"""

import re
import string
from dataclasses import dataclass
from typing import Any

import tokenizers
from tokenizers import Regex, normalizers
from tokenizers.normalizers import Normalizer

from app.pull.catalogue import flores_code
from app.pull.published_files import PublishedFiles, PullError, TowerLayout
from multifold.bundle.tokenizer import Cleaning, TextError, TextSpec, Tokenizer

RAW_TEXTS = (
    "L-shaped two-seat sofa, 2.5 m",
    "A red chair (four legs)!",
    "Zwei schwarze Stühle, 2 m hoch!",
    "木の椅子",
    "word " * 600,
)
OPEN_CLIP_CLEANINGS: dict[str, Cleaning] = {
    "lower": "clip",
    "canonicalize": "canonicalize",
    "whitespace": "whitespace",
}
# Of models in the layout of transformers.js: cleaning, and the context where the configuration leaves it out.
TEXT_FAMILIES: dict[str, tuple[Cleaning, int]] = {
    "clip": ("clip", 77),
    "siglip": ("canonicalize", 64),
    "siglip2": ("lowercase", 64),
    "jina_clip": ("none", 512),
}
SIGLIP2_TOKENIZER = "siglip2"  # in its name: it only lower-cases, whatever open_clip's file says
# What the code of a tokenizer's class does to a text before its tokenizer.json.
CLASS_CLEANINGS: dict[str, Cleaning] = {
    "SiglipTokenizer": "canonicalize",
    "Siglip2Tokenizer": "lowercase",
    "GemmaTokenizer": "lowercase",  # as SigLIP 2 has it
}


@dataclass(frozen=True)
class TextConfig:
    """Text preprocessing of a configuration. `causal`: what follows the end id should change nothing."""

    family: str
    cleaning: Cleaning
    context: int
    causal: bool


def read_text_config(source: PublishedFiles, layout: TowerLayout, masked: bool) -> TextConfig:
    """The text preprocessing that the configuration states; `masked`: the text graph takes a mask."""
    config = source.json(layout.config)
    try:
        if layout.kind == "immich":
            return _open_clip_text(config["text_cfg"], masked)
        return _transformers_text(config)
    except (KeyError, TypeError, AttributeError) as error:
        raise PullError(f"{layout.config} cannot be understood: {error!r}") from error


class PublishedTexts:
    """The published tokenizer on raw texts, and the description of one of ours that reads them alike."""

    def __init__(
        self, source: PublishedFiles, layout: TowerLayout, config: TextConfig, language: str | None = None
    ) -> None:
        definition = source.text(layout.tokenizer)
        settings = source.json(layout.tokenizer_config)
        self._tokenizer = _load_tokenizer(definition)
        start, end = _frame_ids(self._tokenizer)
        if config.family == "nllb":
            start = _language_id(self._tokenizer, language)
        try:
            self.spec = TextSpec(
                config.cleaning, config.context, start, end, _pad_id(self._tokenizer, settings), "fixed"
            )
            ours = Tokenizer(definition, self.spec)
        except TextError as error:
            raise PullError(f"{layout.tokenizer} cannot be used: {error}") from error
        stated = config.cleaning if layout.kind == "immich" else "none"
        name = str(settings.get("tokenizer_class")).removesuffix("Fast")
        own = self._tokenizer.normalizer
        steps = [*_published_steps(CLASS_CLEANINGS.get(name, stated)), *([own] if own is not None else [])]
        self._tokenizer.normalizer = normalizers.Sequence(steps)
        self._tokenizer.enable_truncation(self.spec.context)
        self._tokenizer.enable_padding(length=self.spec.context, pad_id=self.spec.pad)
        self._compare(ours)

    def ids(self, text: str) -> list[int]:
        """The ids of a raw text, as many as the context holds."""
        ids = self._tokenizer.encode(text).ids
        return ids if self.spec.start is None else [self.spec.start, *ids[1:]]

    def _compare(self, ours: Tokenizer) -> None:
        """Refuse a tokenizer that does not clean, frame and cut as the published one does."""
        for text, row in zip(RAW_TEXTS, ours(RAW_TEXTS).ids, strict=True):
            theirs = self.ids(text)
            if row.tolist() != theirs:
                read = f"as {theirs[:12]} …, we as {row.tolist()[:12]} …"
                raise PullError(f"the tokenizer reads {text[:40]!r} {read}")


SPACES: list[Normalizer] = [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]


def _published_steps(cleaning: Cleaning) -> list[Normalizer]:
    """The cleaning of a publisher's code, in the words of its tokenizers' library."""
    punctuation = Regex(f"[{re.escape(string.punctuation)}]")
    steps: dict[Cleaning, list[Normalizer]] = {
        "clip": [*SPACES, normalizers.Lowercase()],
        "lowercase": [normalizers.Lowercase()],
        "canonicalize": [normalizers.Replace(punctuation, ""), normalizers.Lowercase(), *SPACES],
        "whitespace": SPACES,
    }
    return steps.get(cleaning, [])


def _language_id(published: tokenizers.Tokenizer, language: str | None) -> int:
    """The token that stands before texts of a language."""
    if language is None:
        raise PullError("NLLB towers want the language of the texts: say --language en, cs or another")
    code = flores_code(language)
    known = published.token_to_id(code)
    if known is None:
        raise PullError(f"the tokenizer has no token for the language {language!r} ({code})")
    return int(known)


def _open_clip_text(config: dict[str, Any], masked: bool) -> TextConfig:
    context = int(config.get("context_length", 77))
    name = str(config.get("hf_tokenizer_name", ""))
    family = "nllb" if "nllb" in f"{name} {config.get('hf_model_name', '')}" else "open_clip"
    if masked:  # M-CLIP's own text tower reads texts as they are; the configuration is the image tower's
        return TextConfig("m-clip", "none", context, causal=False)
    plain = "hf_tokenizer_name" not in config
    settings = dict(config.get("tokenizer_kwargs") or {})
    cleaning = settings.pop("clean", "lower" if plain else "whitespace")
    if cleaning not in OPEN_CLIP_CLEANINGS or settings:
        known = ", ".join(OPEN_CLIP_CLEANINGS)
        raise PullError(f"texts are read with clean = {cleaning!r} and {settings}; we know {known}")
    causal = plain and not config.get("no_causal_mask", False)
    if SIGLIP2_TOKENIZER in name.lower():
        return TextConfig(family, "lowercase", context, causal)
    return TextConfig(family, OPEN_CLIP_CLEANINGS[cleaning], context, causal)


def _transformers_text(config: dict[str, Any]) -> TextConfig:
    family = config["model_type"]
    if family not in TEXT_FAMILIES:
        raise PullError(f"the model is a {family!r}; we know how {', '.join(TEXT_FAMILIES)} read texts")
    cleaning, context = TEXT_FAMILIES[family]
    context = int((config.get("text_config") or {}).get("max_position_embeddings", context))
    return TextConfig(family, cleaning, context, causal=family in ("clip", "jina_clip"))


def _load_tokenizer(definition: str) -> tokenizers.Tokenizer:
    try:
        tokenizer = tokenizers.Tokenizer.from_str(definition)
    except Exception as error:  # the library raises bare exceptions
        raise PullError(f"tokenizer.json is damaged: {error}") from error
    settings = (tokenizer.padding or {}, tokenizer.truncation or {})
    if any(one.get("direction") == "left" for one in settings):
        raise PullError("the tokenizer pads or cuts texts on their left, which a bundle cannot say")
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _frame_ids(published: tokenizers.Tokenizer) -> tuple[int | None, int]:
    bare = published.encode("a", add_special_tokens=False).ids
    framed = published.encode("a").ids
    before = next((i for i in range(len(framed)) if framed[i : i + len(bare)] == bare), 0)
    start, end = framed[:before], framed[before + len(bare) :]
    if len(start) > 1 or len(end) != 1:
        frame = f"the tokenizer frames a text with {start} and {end}"
        raise PullError(f"{frame}; we know at most one id before and one after")
    return (start[0] if start else None), end[0]


def _pad_id(published: tokenizers.Tokenizer, config: dict[str, Any]) -> int:
    if config.get("padding_side", "right") != "right":
        raise PullError("the tokenizer pads texts on their left, which a bundle cannot say")
    token = config.get("pad_token")
    name = token.get("content") if isinstance(token, dict) else token
    pad = published.token_to_id(name) if isinstance(name, str) else None
    if pad is None:
        raise PullError(f"the tokenizer names no pad token among its tokens, but {name!r}")
    return pad
