"""Tokenizers trained on one's own texts: nothing is unknown, nothing depends on chance."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import open_clip
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library
from tokenizers.models import Unigram, WordPiece
from tokenizers.pre_tokenizers import Metaspace, Whitespace
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import UnigramTrainer

from multifold.bundle.tokenizer import TextSpec, Tokenizer, clean
from multifold.errors import MultifoldError
from training.recipes.schema import BertTextSection, OpenClipTextSection, SmallTextSection
from training.towers import text_spec, tokenizer_for
from training.towers.tokenizers import (
    CLIP_END,
    TrainedTokenizer,
    clip_definition,
    read_definition,
    train_definition,
)

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
        "from training.towers.tokenizers import train_definition\n"
        "import sys; sys.stdout.buffer.write(train_definition(sys.argv[1:], 320).definition.encode())"
    )
    other = subprocess.run([sys.executable, "-c", code, *CORPUS], check=True, capture_output=True)
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


TEXTS = ["a red chair with four legs", "a low wooden table", "the sofa is grey and blue"]
ODD = ["", "!!!", "A &amp; b", "naïve   CAFÉ 椅子 🪑", "<end_of_text> x", "it's 12" * 40]
SIGLIP = OpenClipTextSection(model="ViT-B-16-SigLIP", context=64)


def siglip_file(folder: Path) -> Path:
    """A T5-like tokenizer, as SigLIP's is: pieces with spaces, </s> at the end, which is the pad as well."""
    tokenizer = Library(Unigram())
    tokenizer.pre_tokenizer = Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    trainer = UnigramTrainer(vocab_size=60, special_tokens=special, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    tokenizer.enable_truncation(64)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"pad_token": "</s>"}), encoding="utf-8")
    return folder / "tokenizer.json"


def bert_file(folder: Path, pad: str = "[PAD]") -> Path:
    words = sorted({word for text in TEXTS for word in text.split()})
    vocabulary = {token: place for place, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])}
    tokenizer = Library(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    frame = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=frame)
    tokenizer.enable_padding(pad_id=vocabulary[pad], pad_token=pad, length=16)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def test_clips_texts_become_the_ids_of_open_clip() -> None:
    section = OpenClipTextSection(model="ViT-B-32")
    tokenizer = tokenizer_for(section, [])
    spec = text_spec(section, tokenizer)
    assert (spec.length, spec.context, tokenizer.vocabulary) == ("dynamic", 77, 49408)
    expected = open_clip.get_tokenizer("ViT-B-32")(ODD).numpy()
    ids = Tokenizer(tokenizer.definition, spec)(ODD).ids
    np.testing.assert_array_equal(ids, expected[:, : ids.shape[1]])
    assert not expected[:, ids.shape[1] :].any()


def test_siglip_reads_with_a_tokenizer_from_a_file(tmp_path: Path) -> None:
    section = SIGLIP.model_copy(update={"tokenizer": str(siglip_file(tmp_path))})
    tokenizer = tokenizer_for(section, [])
    assert (tokenizer.start, tokenizer.end, tokenizer.pad, tokenizer.cleaning) == (None, 1, 1, "canonicalize")
    spec = text_spec(section, tokenizer)
    assert spec.length == "fixed"
    library = Library.from_file(str(tmp_path / "tokenizer.json"))
    library.enable_padding(length=64, pad_id=1, pad_token="</s>")
    said = [*TEXTS, "A red, RED chair!", "", "chair " * 100]
    expected = [library.encode(clean(text, "canonicalize")).ids for text in said]
    np.testing.assert_array_equal(Tokenizer(tokenizer.definition, spec)(said).ids, expected)


def test_bert_reads_with_its_frame_from_a_file(tmp_path: Path) -> None:
    section = BertTextSection(tokenizer=str(bert_file(tmp_path)), context=16)
    tokenizer = tokenizer_for(section, [])
    assert (tokenizer.start, tokenizer.end, tokenizer.pad, tokenizer.cleaning) == (2, 3, 0, "bert")
    assert tokenizer.vocabulary == Library.from_file(section.tokenizer or "").get_vocab_size()
    library = Library.from_file(str(tmp_path / "tokenizer.json"))
    expected = [encoding.ids for encoding in library.encode_batch(TEXTS)]
    spec = text_spec(section, tokenizer)
    np.testing.assert_array_equal(Tokenizer(tokenizer.definition, spec)(TEXTS).ids, expected)


@pytest.mark.parametrize("section", [SmallTextSection(vocabulary=300), BertTextSection(vocabulary=300)])
def test_without_a_file_the_vocabulary_is_learned(section: SmallTextSection | BertTextSection) -> None:
    tokenizer = tokenizer_for(section, TEXTS * 5)
    assert tokenizer.vocabulary == 300
    assert text_spec(section, tokenizer).length == (
        "dynamic" if isinstance(section, SmallTextSection) else "fixed"
    )


@pytest.mark.parametrize(
    ("section", "said"),
    [
        (SIGLIP, "does not read as CLIP does; name its tokenizer.json"),
        (OpenClipTextSection(model="RN101", tokenizer="x.json"), "RN101 reads with CLIP's tokenizer; remove"),
        (OpenClipTextSection(model="ViT-H-14-CLIPA", tokenizer="x.json"), "in a way that is not known here"),
        (SIGLIP.model_copy(update={"tokenizer": "nowhere.json"}), "there is no tokenizer nowhere.json"),
    ],
)
def test_what_cannot_be_read_with_is_refused(section: OpenClipTextSection, said: str) -> None:
    with pytest.raises(MultifoldError, match=said):
        tokenizer_for(section, [])


def test_files_that_are_no_tokenizer_are_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{}", encoding="utf-8")
    with pytest.raises(MultifoldError, match=r"broken\.json is not a tokenizer definition"):
        read_definition(broken, "bert")
    library = Library.from_file(str(bert_file(tmp_path)))
    library.no_padding()
    library.save(str(broken))
    with pytest.raises(MultifoldError, match=r"broken\.json does not name its pad"):
        read_definition(broken, "bert")
    library.enable_padding()
    library.post_processor = TemplateProcessing(single="$A", special_tokens=[])
    library.save(str(broken))
    with pytest.raises(MultifoldError, match="frames a text by 0 ids"):
        read_definition(broken, "bert")


def test_the_bert_tower_wants_its_own_frame(tmp_path: Path) -> None:
    with pytest.raises(MultifoldError, match="is not BERT's kind"):
        tokenizer_for(BertTextSection(tokenizer=str(siglip_file(tmp_path))), [])
    (tmp_path / "tokenizer_config.json").unlink()
    with pytest.raises(MultifoldError, match="is not BERT's kind"):
        tokenizer_for(BertTextSection(tokenizer=str(bert_file(tmp_path, pad="[UNK]"))), [])


def test_old_checkpoints_know_no_cleaning() -> None:
    old = TrainedTokenizer(definition="", start=1, end=299, pad=0)
    assert (old.cleaning, old.vocabulary) == ("clip", 300)
