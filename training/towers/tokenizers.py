"""Tokenizer definitions for bundles: CLIP's own, and small ones trained on the recipe's texts."""

import gzip
import importlib.util
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, PreTokenizer, Sequence, Split
from tokenizers.trainers import BpeTrainer

from multifold.bundle.text_reader import TextReader
from multifold.bundle.tokenizer import Cleaning, clean
from multifold.errors import MissingExtraError, MultifoldError, needs_extra

with needs_extra("train"):
    import regex  # type: ignore[import-untyped]

CLIP_START, CLIP_END = 49406, 49407
CLIP_MERGES = 49152 - 256 - 2
CLIP_LITERALS = {"<start_of_text>": CLIP_START, "<end_of_text>": CLIP_END}
PAD, START, END = "<pad>", "<start>", "<end>"
LONG_S = "\N{LATIN SMALL LETTER LONG S}"
IOTA = "\u0345"
_SUFFIX = "</w>"


@dataclass(frozen=True)
class TrainedTokenizer:
    """A definition, the ids that frame and fill its texts, and how these are cleaned before."""

    definition: str
    start: int | None
    end: int
    pad: int
    cleaning: Cleaning = "clip"
    size: int | None = None

    @property
    def vocabulary(self) -> int:
        """The number of ids of a tower: `size`, or up to the end id, which is the highest then."""
        return self.end + 1 if self.size is None else self.size


def train_definition(texts: Iterable[str], vocabulary: int) -> TrainedTokenizer:
    """Byte pairs learned from `texts`, cleaned as CLIP does: nothing is unknown, nothing is chance."""
    smallest = len(ByteLevel.alphabet()) + 3
    if vocabulary < smallest:
        raise MultifoldError(f"a vocabulary of {vocabulary} is too small; it needs {smallest} at least")
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=True)
    trainer = BpeTrainer(
        vocab_size=vocabulary - 1,
        special_tokens=[PAD, START],
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((clean(text, "clip") for text in texts), trainer)
    end = tokenizer.get_vocab_size()
    return TrainedTokenizer(_without_literals(tokenizer, {END: end}), start=1, end=end, pad=0)


def reader_tokenizer(reader: TextReader) -> TrainedTokenizer:
    """The words of a text reader, and above them the ids that frame and fill a text."""
    definition: dict[str, Any] = json.loads(reader.definition)
    words = definition["model"].get("vocab")
    if not isinstance(words, dict):
        raise MultifoldError("the tokenizer of the text reader has no table of words that could be extended")
    first = 1 + max(words.values())
    words.update({PAD: first, START: first + 1, END: first + 2})
    definition |= {"added_tokens": [], "post_processor": None}
    extended = json.dumps(definition, ensure_ascii=False)
    return TrainedTokenizer(extended, start=first + 1, end=first + 2, pad=first, cleaning="none")


def clip_tokenizer() -> TrainedTokenizer:
    return TrainedTokenizer(clip_definition(), CLIP_START, CLIP_END, pad=0)


def read_definition(path: Path, cleaning: Cleaning) -> TrainedTokenizer:
    """A tokenizer.json; its template tells the framing ids, a tokenizer_config.json beside it the pad."""
    try:
        definition = path.read_text(encoding="utf-8")
        tokenizer = Tokenizer.from_str(definition)
    except FileNotFoundError:
        raise MultifoldError(f"there is no tokenizer {path}") from None
    except Exception as error:  # the library raises bare exceptions
        raise MultifoldError(f"{path} is not a tokenizer definition: {error}") from error
    pad = _pad(tokenizer, path)
    tokenizer.no_padding()
    match tokenizer.encode("").ids:
        case [*start, end] if len(start) < 2:
            size = tokenizer.get_vocab_size()
            return TrainedTokenizer(definition, start[0] if start else None, end, pad, cleaning, size)
        case frame:
            ids = f"{path} frames a text by {len(frame)} ids"
            raise MultifoldError(f"{ids}; it needs an end, and at most a start")


def clip_definition() -> str:
    """CLIP's tokenizer from the vocabulary that open_clip ships; it wants texts cleaned the `clip` way."""
    merges = _clip_merges()
    alphabet = _clip_alphabet()
    tokens = [*alphabet, *(token + _SUFFIX for token in alphabet), *("".join(pair) for pair in merges)]
    vocabulary = {token: place for place, token in enumerate(tokens)}
    plain = _clip_tokenizer(vocabulary, merges)
    for literal, place in CLIP_LITERALS.items():
        _add_literal(plain.encode(literal).tokens, place, vocabulary, merges)
    return _clip_tokenizer(vocabulary, merges).to_str()


def _pad(tokenizer: Tokenizer, path: Path) -> int:
    beside = path.with_name("tokenizer_config.json")
    token = json.loads(beside.read_text(encoding="utf-8")).get("pad_token") if beside.exists() else None
    pad = tokenizer.token_to_id(token["content"] if isinstance(token, dict) else token) if token else None
    if pad is None and tokenizer.padding is not None:
        pad = tokenizer.padding["pad_id"]
    if pad is None:
        raise MultifoldError(f"{path} does not name its pad; put tokenizer_config.json into its folder")
    return int(pad)


def _without_literals(tokenizer: Tokenizer, more: dict[str, int]) -> str:
    """The definition, its framing ids out of reach: no text that someone types can name them."""
    definition: dict[str, Any] = json.loads(tokenizer.to_str())
    definition["added_tokens"] = []
    definition["model"]["vocab"].update(more)
    return json.dumps(definition, ensure_ascii=False)


def _add_literal(
    pieces: list[str], place: int, vocabulary: dict[str, int], merges: list[tuple[str, str]]
) -> None:
    """Teach the pairs to spell a literal, as open_clip reads "<end_of_text>" in a text as the end id.

    The halfway tokens get ids above all others, and never stay: only a whole literal can start like one.
    """
    spelled = pieces[0]
    for piece in pieces[1:]:
        merges.append((spelled, piece))
        spelled += piece
        vocabulary[spelled] = max(CLIP_END, *vocabulary.values()) + 1
    vocabulary[spelled] = place


def _clip_tokenizer(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> Tokenizer:
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=merges, end_of_word_suffix=_SUFFIX))
    tokenizer.pre_tokenizer = _clip_words()
    return tokenizer


def _clip_words() -> PreTokenizer:
    """CLIP's words. Letters and numbers are spelled out: the regex engines disagree on 17,000 newer ones.

    Texts are lower-case by now, so all that is left of ignoring case is the long s, and an iota that stands
    below its letter: to CLIP it is a letter and is none, so it belongs to no word.
    """
    letters, numbers = _ranges(r"\p{L}"), _ranges(r"\p{N}")
    literals = f"<[s{LONG_S}]tart_of_text>|<end_of_text>"
    endings = f"'[s{LONG_S}]|'t|'re|'ve|'m|'ll|'d"
    pattern = rf"{literals}|{endings}|[{letters}]+|[{numbers}]|[^\s{IOTA}{letters}{numbers}]+"
    return Sequence([Split(Regex(pattern), "removed", invert=True), ByteLevel(False, use_regex=False)])


@cache
def _ranges(kind: str) -> str:
    """All characters of a kind as the inside of a character class."""
    every = "".join(map(chr, (*range(0xD800), *range(0xE000, sys.maxunicode + 1))))
    spans = (match.group() for match in regex.finditer(f"{kind}+", every))
    return "".join(f"{span[0]}-{span[-1]}" for span in spans)


def _clip_alphabet() -> list[str]:
    """The bytes as CLIP writes them, in its order: printable ones as themselves, then the others."""
    printable = [chr(c) for c in (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))]
    return printable + [chr(0x100 + place) for place in range(0x100 - len(printable))]


def _clip_merges() -> list[tuple[str, str]]:
    package = importlib.util.find_spec("open_clip")
    if package is None or package.origin is None:
        raise MissingExtraError("open_clip is not installed. It comes with the extra 'train'.")
    packed = Path(package.origin).with_name("bpe_simple_vocab_16e6.txt.gz").read_bytes()
    lines = gzip.decompress(packed).decode("utf-8").split("\n")[1 : CLIP_MERGES + 1]
    return [(left, right) for left, right in map(str.split, lines)]
