"""Tokenizers trained on one's own texts: nothing is unknown, nothing depends on chance."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multifold.bundle.tokenizer import TextSpec, Tokenizer
from multifold.errors import MultifoldError
from training.towers.tokenizers import CLIP_END, TrainedTokenizer, clip_definition, train_definition

CORPUS = [
    "a red chair with four black legs",
    "a wooden table, low and wide",
    "a tall lamp with a striped shade",
    "the sofa is blue & its arms are grey",
] * 5
SMALL = train_definition(CORPUS, 320)


def tokenizer(trained: TrainedTokenizer) -> Tokenizer:
    return Tokenizer(
        trained.definition, TextSpec("clip", 400, trained.start, trained.end, trained.pad, "dynamic")
    )


def test_the_end_is_the_highest_id_and_the_vocabulary_has_the_size_asked_for() -> None:
    assert (SMALL.pad, SMALL.start, SMALL.end, SMALL.vocabulary) == (0, 1, 319, 320)
    ids = json.loads(SMALL.definition)["model"]["vocab"].values()
    assert sorted(ids) == list(range(320))


def test_a_small_corpus_gives_fewer_ids_without_gaps() -> None:
    trained = train_definition(["red chair"], 1000)
    assert trained.vocabulary < 300
    assert sorted(json.loads(trained.definition)["model"]["vocab"].values()) == list(
        range(trained.vocabulary)
    )


def test_frequent_words_become_one_token() -> None:
    ids = tokenizer(train_definition(CORPUS, 360))(["Chair", "a CHAIR with a shade"]).ids
    assert (ids[0] != SMALL.pad).sum() == 3
    assert ids[0, 1] == ids[1, 2]


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=40))
def test_nothing_is_unknown_and_no_text_names_a_framing_id(text: str) -> None:
    for said in (text, f"<end>{text}<pad><start>"):
        ids = tokenizer(SMALL)([said]).ids[0].tolist()
        assert ids[0] == SMALL.start
        assert ids[-1] == SMALL.end
        assert not {SMALL.start, SMALL.end, SMALL.pad} & set(ids[1:-1])


def test_different_texts_stay_different() -> None:
    said = ["red chair", "redchair", "red  chair!", "椅子", "椅", "naïve", "naive", "?", "!"]
    ids = tokenizer(SMALL)(said).ids.tolist()
    assert len({tuple(row) for row in ids}) == len(said)


def test_equal_texts_give_equal_definitions_in_another_process() -> None:
    """The library counts words in hash maps whose order changes from process to process."""
    code = (
        "from tests.training.test_tokenizers import CORPUS\n"
        "from training.towers.tokenizers import train_definition\n"
        "import sys; sys.stdout.buffer.write(train_definition(CORPUS, 320).definition.encode())"
    )
    for _ in range(2):
        other = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        assert other.stdout.decode() == SMALL.definition


def test_too_small_a_vocabulary_is_refused() -> None:
    with pytest.raises(MultifoldError, match="needs 259 at least"):
        train_definition(CORPUS, 258)


def test_clip_has_its_ids_in_a_row() -> None:
    vocabulary = json.loads(clip_definition())["model"]["vocab"]
    assert vocabulary["<start_of_text></w>"] == CLIP_END - 1
    assert vocabulary["<end_of_text></w>"] == CLIP_END
    assert sorted(vocabulary.values()) == list(range(len(vocabulary)))
    beyond = [token for token, place in vocabulary.items() if place > CLIP_END]
    assert all(token.startswith(("<start", "<end")) for token in beyond)
