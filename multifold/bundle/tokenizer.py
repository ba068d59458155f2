"""Texts to token ids: the same tokenizer for training and serving.

A text is cleaned, cut into the tokens of a Hugging Face `tokenizers` definition, and framed by the start and
end ids. Tokens beyond the context length are cut, and the result says which texts were cut.
"""

import html
import re
import string
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import ftfy
import numpy as np
import tokenizers
from jaxtyping import Int64
from tokenizers.normalizers import BertNormalizer, Lowercase

from multifold.errors import MultifoldError

Cleaning: TypeAlias = Literal["clip", "canonicalize", "lowercase", "whitespace", "bert", "none"]

_NO_PUNCTUATION = str.maketrans("_", " ", string.punctuation.replace("_", ""))


class TextError(MultifoldError):
    """A tokenizer that cannot be used."""


@dataclass(frozen=True)
class TextSpec:
    """How an encoder takes texts: `dynamic` cuts a batch at its longest text, `fixed` fills the context."""

    cleaning: Cleaning
    context: int
    start: int | None
    end: int
    pad: int
    length: Literal["dynamic", "fixed"]

    def __post_init__(self) -> None:
        if self.cleaning not in get_args(Cleaning) or self.length not in ("dynamic", "fixed"):
            raise TextError(f"no such way to read: cleaning {self.cleaning!r}, length {self.length!r}")
        if self.context <= self.frame:
            raise TextError(f"a context of {self.context} tokens leaves no room for a text")

    @property
    def frame(self) -> int:
        return 1 if self.start is None else 2


@dataclass(frozen=True)
class Tokens:
    """The ids of a batch of texts, and which of the texts were too long and were cut."""

    ids: Int64[np.ndarray, "b t"]
    cut: tuple[bool, ...]


class Tokenizer:
    """The tokenizer of one encoder."""

    def __init__(self, definition: str, spec: TextSpec) -> None:
        self.spec = spec
        self._tokenizer = load_tokenizer(definition)
        size = self._tokenizer.get_vocab_size(with_added_tokens=True)
        if max(spec.start or 0, spec.end, spec.pad) >= size or min(spec.start or 0, spec.end, spec.pad) < 0:
            raise TextError(f"the start, end or pad id is not one of the {size} ids of this tokenizer")

    def __call__(self, texts: Sequence[str]) -> Tokens:
        """The ids of each text; the end id stands last even where the text was cut."""
        cleaned = [clean(text, self.spec.cleaning) for text in texts]
        encodings = self._tokenizer.encode_batch_fast(cleaned, add_special_tokens=False)
        room = self.spec.context - self.spec.frame
        bodies = [encoding.ids for encoding in encodings]
        start = [] if self.spec.start is None else [self.spec.start]
        rows = [[*start, *body[:room], self.spec.end] for body in bodies]
        return Tokens(self._padded(rows), tuple(len(body) > room for body in bodies))

    def words(self, text: str) -> list[tuple[str, tuple[int, ...]]]:
        """The words of a cleaned text, each with its places among the ids; what was cut has none."""
        cleaned = clean(text, self.spec.cleaning)
        first = self.spec.frame - 1
        room = self.spec.context - self.spec.frame
        spans = [match.span() for match in re.finditer(r"\S+", cleaned)]
        held: list[list[int]] = [[] for _ in spans]
        encoding = self._tokenizer.encode(cleaned, add_special_tokens=False)
        for place, (_, end) in enumerate(encoding.offsets[:room]):
            word = bisect_right([start for start, _ in spans], end - 1) - 1
            if word >= 0:
                held[word].append(first + place)
        return [(cleaned[start:end], tuple(places)) for (start, end), places in zip(spans, held, strict=True)]

    def _padded(self, rows: list[list[int]]) -> Int64[np.ndarray, "b t"]:
        dynamic = self.spec.length == "dynamic"
        width = max(map(len, rows), default=0) if dynamic else self.spec.context
        ids = np.full((len(rows), width), self.spec.pad, np.int64)
        for place, row in zip(ids, rows, strict=True):
            place[: len(row)] = row
        return ids


def clean(text: str, how: Cleaning) -> str:
    """A text as its encoder was given texts in training."""
    if how in ("bert", "lowercase", "none"):
        # half of a surrogate pair, which JSON can hold and UTF-8 cannot, becomes the replacement character
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if how == "lowercase":  # as SigLIP 2 was trained: punctuation stays
            return Lowercase().normalize_str(text)
        return text if how == "none" else _collapse_spaces(BertNormalizer().normalize_str(text))
    # broken encodings and HTML entities (some are escaped twice) become the characters they stood for
    text = html.unescape(html.unescape(ftfy.fix_text(text)))
    if how == "clip":
        return _collapse_spaces(text).lower()
    return _collapse_spaces(text.translate(_NO_PUNCTUATION).lower() if how == "canonicalize" else text)


def _collapse_spaces(text: str) -> str:
    return " ".join(text.split())


def load_tokenizer(definition: str) -> tokenizers.Tokenizer:
    """A tokenizer that neither pads nor cuts."""
    try:
        tokenizer = tokenizers.Tokenizer.from_str(definition)
    except Exception as error:  # the library raises bare exceptions
        raise TextError(f"this is not a tokenizer definition ({error}); export the bundle again") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer
