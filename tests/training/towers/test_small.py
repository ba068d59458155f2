"""A text tower may begin with the word vectors of a text reader."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from multifold.bundle.text_reader import TextReaderError, open_text_reader
from multifold.bundle.tokenizer import Tokenizer
from tests.training import small
from training import checkpoint, loop
from training.batches import TrainingItems
from training.data.word_table import WordTable
from training.recipes.schema import Recipe
from training.towers import build_model, fetch_weights, text_spec, tokenizer_for
from training.towers import small as small_towers
from training.towers.base import TowerError
from training.towers.small import fit_words

WORDS = ("[UNK]", "red", "green", "blue", "crimson", "square", "left", "right", "##s")


@pytest.fixture
def reader(tmp_path: Path) -> Path:
    """Nine words, "crimson" beside "red"."""
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 6))
    vectors[4] = vectors[1] + 0.05
    WordTable(WORDS, vectors).write(tmp_path / "reader", {})
    return tmp_path / "reader"


def recipe(reader: Path | str, width: int = 8, depth: int = 1) -> Recipe:
    text = {"words": str(reader), "width": width, "depth": depth}
    return small.recipe({"text": text}, steps=3, warmup=0)


def test_words_begin_as_the_reader_has_them(reader: Path) -> None:
    wanted = recipe(reader)
    tokenizer = tokenizer_for(wanted.text, [])
    model = build_model(wanted, tokenizer.vocabulary)
    begun = model.get_parameter("text.embed.weight").detach().numpy()[: len(WORDS)]
    vectors = open_text_reader(reader)._table.astype(np.float32)  # type: ignore[attr-defined]
    products, expected = begun @ begun.T, vectors @ vectors.T
    np.testing.assert_allclose(products / products[0, 0], expected / expected[0, 0], rtol=1e-4, atol=1e-4)
    assert begun[:, :6].std() == pytest.approx(0.02, rel=1e-3)


def test_a_narrow_tower_takes_the_directions_that_tell_most() -> None:
    rng = np.random.default_rng(1)
    words = (rng.normal(size=(200, 2)) @ rng.normal(size=(2, 9))).astype(np.float32)
    products, expected = (each @ each.T for each in (fit_words(words, 2), words))
    np.testing.assert_allclose(products / products[0, 0], expected / expected[0, 0], rtol=1e-2, atol=1e-2)


def test_it_reads_words_that_no_caption_has(reader: Path) -> None:
    wanted = recipe(reader)
    trained = tokenizer_for(wanted.text, ["a red square"])
    tokens = Tokenizer(trained.definition, text_spec(wanted.text, trained))
    (crimson, red, unknown, typed) = (row.tolist() for row in tokens(["crimson", "red", "zzz", "<end>"]).ids)
    assert (crimson[1], red[1], unknown[1]) == (4, 1, 0)
    assert crimson[2] == trained.end == max(crimson)
    assert typed.count(trained.end) == 1  # the end is no word that someone can type


def test_words_may_come_with_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells a couch from a wrench, of which no caption speaks."""
    pytest.importorskip("wordllama", reason="the extra 'words' is not installed")
    wanted = recipe("packaged", width=128, depth=0)
    trained = tokenizer_for(wanted.text, [])
    embedded = build_model(wanted, trained.vocabulary).get_parameter("text.embed.weight").detach().numpy()
    words = Tokenizer(trained.definition, text_spec(wanted.text, trained))
    vectors = [
        embedded[row[1 : int(row.argmax())]].mean(axis=0) for row in words(["sofa", "couch", "wrench"]).ids
    ]
    sofa, couch, wrench = (vector / np.linalg.norm(vector) for vector in vectors)
    assert sofa @ couch > sofa @ wrench + 0.2
    monkeypatch.setattr(small_towers, "packaged_reader", lambda _: None)
    with pytest.raises(TowerError, match="multifold\\[words\\]"):
        fetch_weights(wanted)
    assert tokenizer_for(recipe("").text, ["a red square"]).cleaning == "clip"


@pytest.mark.parametrize(("depth", "learns"), [(1, "text.positions"), (0, "text.log_weight")])
def test_words_stay_while_the_tower_learns_and_the_checkpoint_needs_no_reader(
    reader: Path, tmp_path: Path, depth: int, learns: str
) -> None:
    wanted = recipe(reader, depth=depth)
    views, captions = small.pictures()
    trained = tokenizer_for(wanted.text, [])
    texts = [text for some in captions for text in some]
    tokens = Tokenizer(trained.definition, text_spec(wanted.text, trained))(texts).ids
    groups = TrainingItems(views, tokens, [(3 * i, 3 * i + 3) for i in range(len(captions))])
    begun = build_model(wanted, trained.vocabulary).state_dict()
    (tmp_path / "run").mkdir()
    path = loop.train(wanted, groups, trained, tmp_path / "run")
    shutil.rmtree(reader)
    learned = checkpoint.load_checkpoint(path).model.state_dict()
    known = len(WORDS)
    assert torch.equal(learned["text.embed.weight"][:known], begun["text.embed.weight"][:known])
    assert not torch.equal(learned[learns], begun[learns])


def test_what_is_no_table_of_words_is_refused_before_anything_is_drawn(tmp_path: Path, reader: Path) -> None:
    with pytest.raises(TextReaderError, match="is no text reader"):
        fetch_weights(recipe(tmp_path))
    (reader / "model.safetensors").rename(reader / "model.onnx")
    with pytest.raises((TextReaderError, TowerError)):
        fetch_weights(recipe(reader))
