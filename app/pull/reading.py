"""How an encoder was taught to read: cleaning, context length, and the ids that frame and fill a text.

The framing is asked of the published tokenizer itself, and what we make of texts is compared with what it
makes of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import tokenizers

from app.pull.layouts import Layout
from app.pull.source import PullError, Source
from multifold.tokens import Cleaning, TextError, TextSpec, Tokenizer, clean

SAMPLES = ("a red chair with four legs", "Zwei schwarze Stühle, 2 m hoch!", "木の椅子", "word " * 600)
OPEN_CLIP: dict[str, Cleaning] = {"lower": "clip", "canonicalize": "canonicalize", "whitespace": "whitespace"}
# Of models in the layout of transformers.js: cleaning, and the context where the configuration leaves it out.
FAMILIES: dict[str, tuple[Cleaning, int]] = {
    "clip": ("clip", 77),
    "siglip": ("canonicalize", 64),
    "siglip2": ("canonicalize", 64),
}


@dataclass(frozen=True)
class Reading:
    """What the configuration says of texts. `causal`: what follows the end id should change nothing."""

    family: str
    cleaning: Cleaning
    context: int
    causal: bool


def reading(source: Source, layout: Layout, masked: bool) -> Reading:
    """What the configuration says; `masked`: whether the text graph takes an attention mask."""
    said = source.json(layout.config)
    try:
        return _open_clip(said["text_cfg"], masked) if layout.kind == "immich" else _transformers(said)
    except (KeyError, TypeError, AttributeError) as error:
        raise PullError(f"{layout.config} cannot be understood: {error!r}") from error


def text_spec(source: Source, layout: Layout, said: Reading, length: Literal["dynamic", "fixed"]) -> TextSpec:
    """How to read, checked against the published tokenizer."""
    published = _load(source.text(layout.tokenizer))
    start, end = _frame(published)
    pad = _pad(published, source.json(layout.tokenizer_config))
    try:
        spec = TextSpec(said.cleaning, said.context, start, end, pad, length)
        ours = Tokenizer(source.text(layout.tokenizer), spec)
    except TextError as error:
        raise PullError(f"{layout.tokenizer} cannot be used: {error}") from error
    _compare(published, ours)
    return spec


def _open_clip(said: dict[str, Any], masked: bool) -> Reading:
    context = int(said.get("context_length", 77))
    model = str(said.get("hf_model_name", ""))
    if "nllb" in model:
        raise PullError("NLLB towers want the language of each text before it, which a bundle cannot say")
    if (
        masked
    ):  # M-CLIP's own text tower, which reads texts as they are; the configuration is the image tower's
        return Reading("m-clip", "none", context, causal=False)
    by_hand = "hf_tokenizer_name" not in said
    settings = dict(said.get("tokenizer_kwargs") or {})
    how = settings.pop("clean", "lower" if by_hand else "whitespace")
    if how not in OPEN_CLIP or settings:
        raise PullError(f"texts are read with clean = {how!r} and {settings}; we know {', '.join(OPEN_CLIP)}")
    causal = by_hand and not said.get("no_causal_mask", False)
    return Reading("open_clip", OPEN_CLIP[how], context, causal)


def _transformers(said: dict[str, Any]) -> Reading:
    family = said["model_type"]
    if family not in FAMILIES:
        raise PullError(f"the model is a {family!r}; we know how {', '.join(FAMILIES)} read texts")
    cleaning, context = FAMILIES[family]
    context = int((said.get("text_config") or {}).get("max_position_embeddings", context))
    return Reading(family, cleaning, context, causal=family == "clip")


def _load(definition: str) -> tokenizers.Tokenizer:
    try:
        found = tokenizers.Tokenizer.from_str(definition)
    except Exception as error:  # the library raises bare exceptions
        raise PullError(f"tokenizer.json is damaged: {error}") from error
    if (found.padding or {}).get("direction") == "left" or (found.truncation or {}).get(
        "direction"
    ) == "left":
        raise PullError("the tokenizer pads or cuts texts on their left, which a bundle cannot say")
    found.no_padding()
    found.no_truncation()
    return found


def _frame(published: tokenizers.Tokenizer) -> tuple[int | None, int]:
    """The ids that stand before and after every text."""
    bare = published.encode("a", add_special_tokens=False).ids
    framed = published.encode("a").ids
    before = next((i for i in range(len(framed)) if framed[i : i + len(bare)] == bare), 0)
    start, end = framed[:before], framed[before + len(bare) :]
    if len(start) > 1 or len(end) != 1:
        raise PullError(
            f"the tokenizer frames a text with {start} and {end}; we know at most one id before and one after"
        )
    return (start[0] if start else None), end[0]


def _pad(published: tokenizers.Tokenizer, said: dict[str, Any]) -> int:
    if said.get("padding_side", "right") != "right":
        raise PullError("the tokenizer pads texts on their left, which a bundle cannot say")
    token = said.get("pad_token")
    name = token.get("content") if isinstance(token, dict) else token
    found = published.token_to_id(name) if isinstance(name, str) else None
    if found is None:
        raise PullError(f"the tokenizer names no pad token among its tokens, but {name!r}")
    return found


def _compare(published: tokenizers.Tokenizer, ours: Tokenizer, texts: Sequence[str] = SAMPLES) -> None:
    """Ours frames and cuts as the published one does, after the same cleaning."""
    spec = ours.spec
    published.enable_truncation(spec.context)
    published.enable_padding(length=spec.context, pad_id=spec.pad)
    for text, row in zip(texts, ours(texts).ids, strict=True):
        theirs = published.encode(clean(text, spec.cleaning)).ids
        found = row.tolist() + [spec.pad] * (spec.context - len(row))
        if found != theirs:
            raise PullError(f"the tokenizer reads {text[:40]!r} as {theirs[:12]} …, we as {found[:12]} …")
