"""A text reader that is learned from captions alone: one vector a word, in the layout of model2vec.

What one caption of an item says should tell what its other captions say. So the vectors are the directions in
which the words of two captions of one item agree most, compared with how the words of any caption vary
(canonical correlation of bags of words). Words like "sofa" and "couch", which are said of the same things and
never in one caption, get the same direction; words of which the other captions say nothing get short vectors.

Words beyond the most frequent ones are placed by what the other captions of their items say. Numbers are
float16, and the same captions give the same bytes.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import TypeAlias

import numpy as np
import tokenizers
from jaxtyping import Float32, Float64, Int64
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from multifold.bundle.tensor_file import write_tables
from multifold.bundle.text_reader import CONFIG_FILE, ORIGIN_FILE, TABLE_FILE, TOKENIZER_FILE
from multifold.bundle.tokenizer import clean
from multifold.durable import make_folder, write_file
from multifold.errors import MultifoldError

Captions: TypeAlias = Sequence[Sequence[str]]  # of each item
Words: TypeAlias = Sequence[Sequence[Int64[np.ndarray, " _"]]]  # of each caption of each item, each word once
Matrix: TypeAlias = Float64[np.ndarray, "_ _"]
Numbers: TypeAlias = Float64[np.ndarray, " _"]

UNKNOWN, INSIDE = "[UNK]", "##"
LEAST_ITEMS = 50  # with two captions or more; fewer teach nothing that plain words do not know
LEAST_COUNT = 2  # captions that a word must stand in
MOST_WORDS, MOST_PIVOTS = 30_000, 2_048  # words with a vector; those whose vectors are solved for
RIDGE = 0.5  # of a word's own variance
FADING = 3.0  # captions that a rare word's vector is held back by
SHARPNESS = 0.5  # power of the correlation in the length of a direction
DIMS = (32, 64, 128, 256)
ENDINGS = 64  # pieces like "s" by which an unknown word is told from a known one
LONGEST_ENDING, SHORTEST_STEM, LEAST_STEMS = 3, 3, 3
HELD_OUT, MOST_HELD_OUT = 10, 500  # one item in so many is held out, and no more than that
CAPTIONS_AT_ONCE = 6_000  # captions whose bags are in memory at once


class WordTableError(MultifoldError):
    """Captions from which no reader can be learned."""


@dataclass(frozen=True)
class WordTable:
    """Words and pieces of words, with a vector each; the first row is that of unknown words."""

    words: tuple[str, ...]
    vectors: Matrix

    def cut(self, dim: int) -> "WordTable":
        """The same with the first directions only."""
        return WordTable(self.words, self.vectors[:, :dim])

    def tokenizer(self) -> tokenizers.Tokenizer:
        """Texts to places in the table."""
        vocabulary = {word: place for place, word in enumerate(self.words)}
        model = WordPiece(vocabulary, unk_token=UNKNOWN, continuing_subword_prefix=INSIDE)
        tokenizer = tokenizers.Tokenizer(model)
        tokenizer.normalizer, tokenizer.pre_tokenizer = _NORMALIZER, _PRE_TOKENIZER
        return tokenizer

    def write(self, folder: Path, origin: dict[str, object]) -> None:
        """Write it as a text reader into a folder."""
        make_folder(folder)
        table = np.asarray(self.vectors, np.float16)
        stated = {"model_type": "model2vec", "architectures": ["StaticModel"], "normalize": True}
        config = {**stated, "hidden_dim": table.shape[1], "embedding_dtype": "float16"}
        write_tables(folder / TABLE_FILE, {"embeddings": table})
        write_file(folder / TOKENIZER_FILE, self.tokenizer().to_str().encode())
        for name, content in ((CONFIG_FILE, config), (ORIGIN_FILE, origin)):
            write_file(folder / name, json.dumps(content, indent=2).encode() + b"\n")


_NORMALIZER = BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=True, lowercase=True)
_PRE_TOKENIZER = BertPreTokenizer()


def learn_words(captions: Captions, dims: int = DIMS[-1]) -> WordTable:
    """The table of these items' captions; directions are sorted, the most telling first."""
    several = [[split_words(text) for text in dict.fromkeys(item)] for item in captions]
    several = [item for item in several if len(item) > 1]
    if len(several) < LEAST_ITEMS:
        raise WordTableError(
            f"{len(several)} items have two texts or more, and a reader needs {LEAST_ITEMS}: it learns from "
            "what different captions say of one thing"
        )
    counts = Counter(word for item in several for caption in item for word in {*caption})
    known = sorted((word for word, n in counts.items() if n >= LEAST_COUNT), key=lambda w: (-counts[w], w))
    known = known[:MOST_WORDS]
    places = {word: place for place, word in enumerate(known)}
    items = [
        [np.array(sorted({places[word] for word in caption if word in places}), np.int64) for caption in item]
        for item in several
    ]
    pivots = min(len(known), MOST_PIVOTS)
    own, together = _moments(items, pivots)
    vectors = _solve(own, together, dims)
    if pivots < len(known):
        vectors = _place_others(items, vectors, len(known))
    vectors /= np.linalg.norm(vectors, axis=1).max(initial=1e-12)
    endings = [f"{INSIDE}{ending}" for ending in _endings(known)]
    silent = np.zeros((len(endings), vectors.shape[1]))
    rows = np.concatenate([np.zeros((1, vectors.shape[1])), vectors, silent])
    return WordTable((UNKNOWN, *known, *endings), rows)


@dataclass(frozen=True)
class HeldOutRecall:
    """How often a caption of an item that was not learned from finds its other captions first, or in ten."""

    items: int
    first: float
    tenth: float


def choose_dim(captions: Captions, dims: Sequence[int] = DIMS) -> tuple[int, HeldOutRecall]:
    """The length of vectors that is best on a tenth of the items when the others are learned from."""
    several = [item for item in captions if len(set(item)) > 1]
    held_out = several[::HELD_OUT][:MOST_HELD_OUT]
    table = learn_words([item for place, item in enumerate(several) if place % HELD_OUT])
    widths = [dim for dim in dims if dim < table.vectors.shape[1]] or [table.vectors.shape[1]]
    recalls = {dim: measure_recall(table.cut(dim), held_out) for dim in widths}
    best = max(recalls, key=lambda dim: recalls[dim].first)
    return best, recalls[best]


def measure_recall(table: WordTable, captions: Captions) -> HeldOutRecall:
    """Each caption asks, the others of its item are known, and so are all captions of the other items."""
    texts, owners = zip(*((text, place) for place, item in enumerate(captions) for text in item), strict=True)
    places = np.array(owners)
    tokenizer = table.tokenizer()
    encodings = tokenizer.encode_batch_fast([clean(text, "none") for text in texts])
    vectors = np.array([table.vectors[encoding.ids].sum(axis=0) for encoding in encodings])
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    starts = np.searchsorted(places, np.arange(len(captions)))
    ranks = []
    for row, own in enumerate(places):
        scores = vectors @ vectors[row]
        scores[row] = -np.inf
        best = np.maximum.reduceat(scores, starts)
        ranks.append(np.count_nonzero(best >= best[own]))
    return HeldOutRecall(
        len(captions), float(np.mean(np.array(ranks) <= 1)), float(np.mean(np.array(ranks) <= 10))
    )


def split_words(text: str) -> list[str]:
    """The words of a text as the tokenizer cuts them, without what is no word."""
    plain = _NORMALIZER.normalize_str(clean(text, "none"))
    parts = (part for part, _ in _PRE_TOKENIZER.pre_tokenize_str(plain))
    return [part for part in parts if any(map(str.isalnum, part))]


def _moments(items: Words, pivots: int) -> tuple[Matrix, Matrix]:
    """How the words of captions vary, and how those of two captions of one item vary together."""
    own, together = np.zeros((pivots, pivots)), np.zeros((pivots, pivots))
    mean = np.zeros(pivots)
    captions = sum(map(len, items))
    for bags in _blocks(items, pivots):
        flat = bags.reshape(-1, pivots)
        sums = bags.sum(axis=1)
        count = bags.shape[1]
        each = flat.T @ flat  # whole numbers, which float32 holds
        mean += flat.sum(axis=0)
        own += each
        together += (sums.T @ sums - each) / (count - 1)
    mean /= captions
    return own / captions - np.outer(mean, mean), together / captions - np.outer(mean, mean)


def _blocks(items: Words, pivots: int) -> Iterator[Float32[np.ndarray, "i c w"]]:
    """The words of items that have as many captions: 1 where a caption has the word."""
    for count, group in groupby(sorted(items, key=len), len):
        alike = [*group]
        step = max(1, CAPTIONS_AT_ONCE // count)
        for start in range(0, len(alike), step):
            some = alike[start : start + step]
            bags = np.zeros((len(some), count, pivots), np.float32)
            for row, words in zip(bags.reshape(-1, pivots), chain.from_iterable(some), strict=True):
                row[words[words < pivots]] = 1
            yield bags


def _solve(own: Matrix, together: Matrix, dims: int) -> Matrix:
    """The directions in which two captions agree most, sorted, with signs of their own."""
    own = own + RIDGE * np.diag(own.diagonal()) + 1e-6 * own.trace() / len(own) * np.eye(len(own))
    values, vectors = np.linalg.eigh(own)
    whiten = vectors / np.sqrt(values) @ vectors.T
    agreement, directions = np.linalg.eigh(whiten @ (together + together.T) @ whiten / 2)
    agreement, directions = agreement[::-1][:dims], directions[:, ::-1][:, :dims]
    kept = agreement > 1e-6
    table: Matrix = (whiten @ directions[:, kept]) * agreement[kept] ** SHARPNESS
    table *= np.sign(table[np.abs(table).argmax(axis=0), np.arange(table.shape[1])])
    return table


def _place_others(items: Words, table: Matrix, words: int) -> Matrix:
    """The vectors of the pivots, and for other words what the other captions of their items say."""
    pivots, dim = table.shape
    placed, counts = np.zeros((words, dim)), np.zeros(words)
    said = np.concatenate([words_of[None] for words_of in _other_captions(items, table)])
    said -= said.mean(axis=0)
    for row, tokens in enumerate(chain.from_iterable(items)):
        placed[tokens] += said[row]
        counts[tokens] += 1
    placed /= (counts + FADING)[:, None]
    scale = (placed[:pivots] * table).sum() / max((placed[:pivots] ** 2).sum(), 1e-12)
    return np.concatenate([table, scale * placed[pivots:]])


def _other_captions(items: Words, table: Matrix) -> Iterator[Numbers]:
    """For each caption, the mean vector of the other captions of its item."""
    for item in items:
        vectors = np.array([table[words[words < len(table)]].sum(axis=0) for words in item])
        yield from (vectors.sum(axis=0) - vectors) / (len(item) - 1)


def _endings(words: Sequence[str]) -> list[str]:
    """Endings that turn several known words into other known words; the most frequent first."""
    known = {*words}
    counts = Counter[str]()
    for word in words:
        for length in range(1, min(LONGEST_ENDING, len(word) - SHORTEST_STEM) + 1):
            counts[word[-length:]] += word[:-length] in known
    often = [ending for ending, n in counts.items() if n >= LEAST_STEMS]
    return sorted(often, key=lambda ending: (-counts[ending], ending))[:ENDINGS]
