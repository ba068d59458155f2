"""A reader learned from captions: words of one meaning meet, and it helps on unseen items."""

from pathlib import Path

import numpy as np
import pytest

from multifold import manifest
from multifold.bundle import bundle as bundles
from multifold.bundle.text_reader import TextReader, open_text_reader
from multifold.cli import main
from multifold.manifest import ManifestEntry
from tests import reading, tiny
from training.data import word_table
from training.data.word_table import WordTable, WordTableError, learn_words, measure_recall, split_words

LEARNED, UNSEEN = 250, 100
KINDS = (("sofa", "couch"), ("lamp", "light"), ("nightstand", "bedside table"), ("stool", "seat"), ("bench",))
COLOURS = (("purple", "violet"), ("green", "emerald"), ("red", "crimson"), ("white", "ivory"), ("black",))
STUFFS = (("metal", "steel"), ("wooden", "timber"), ("leather",), ("glass",))
PARTS = (("drawer", "tray"), ("cushion", "pillow"), ("button", "switch"), ("wheel", "castor"), ("handle",))
OPENINGS = ("there is", "this is", "i am looking for", "find me", "")
Captions = list[tuple[str, ...]]


def describe(rng: np.random.Generator) -> tuple[str, ...]:
    """Four captions of one thing: each says some of its facts, in one of the words for each."""
    facts = [group[rng.integers(len(group))] for group in (KINDS, COLOURS, STUFFS, PARTS, COLOURS)]
    captions = []
    for _ in range(4):
        kind, colour, stuff, part, its = (str(rng.choice(words)) for words in facts)
        first = [f"a {colour} {kind}", f"a {stuff} {kind}", f"a {colour} {stuff} {kind}"][rng.integers(3)]
        last = ["", f" with a {part}", f" with a {its} {part}"][rng.integers(3)]
        captions.append(f"{rng.choice(OPENINGS)} {first}{last}".strip())
    return tuple(captions)


@pytest.fixture(scope="module")
def captions() -> Captions:
    rng = np.random.default_rng(0)
    return [describe(rng) for _ in range(LEARNED)]


@pytest.fixture(scope="module")
def unseen() -> Captions:
    rng = np.random.default_rng(1)
    return [describe(rng) for _ in range(UNSEEN)]


@pytest.fixture(scope="module")
def table(captions: Captions) -> WordTable:
    return learn_words(captions)


@pytest.fixture(scope="module")
def reader(table: WordTable, tmp_path_factory: pytest.TempPathFactory) -> TextReader:
    folder = tmp_path_factory.mktemp("readers") / "own"
    table.cut(16).write(folder, {"learned_from": LEARNED})
    return open_text_reader(folder)


def alike(reader: TextReader, one: str, other: str) -> float:
    first, second = reader.encode([one, other])
    return float(first @ second)


def test_words_that_are_said_of_the_same_things_are_alike(reader: TextReader) -> None:
    for one, other in (("couch", "sofa"), ("violet", "purple"), ("bedside table", "nightstand")):
        assert alike(reader, one, other) > 0.5
    assert alike(reader, "violet", "green") < 0.3
    assert alike(reader, "sofa", "lamp") < 0.3


def test_words_that_tell_nothing_have_short_vectors(table: WordTable) -> None:
    lengths = dict(zip(table.words, np.linalg.norm(table.vectors, axis=1), strict=True))
    told = np.median([lengths[word] for word in ("sofa", "lamp", "green", "crimson", "metal")])
    assert max(lengths[word] for word in ("a", "is", "this", "there", "looking")) < 0.4 * told


def test_it_finds_unseen_items_and_a_random_table_does_not(table: WordTable, unseen: Captions) -> None:
    learned = measure_recall(table.cut(16), unseen)
    random = np.random.default_rng(0).standard_normal((len(table.words), 16))
    control = measure_recall(WordTable(table.words, random), unseen)
    assert learned.first > 0.45
    assert learned.first > control.first + 0.15
    assert learned.tenth > control.tenth + 0.1


def test_a_measure_worked_out_by_hand() -> None:
    """Three of four captions find their item first; "a b" is as near to the other, so it counts not."""
    table = WordTable(("[UNK]", "a", "b"), np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    found = measure_recall(table, [("a", "a"), ("b", "a b")])
    assert (found.items, found.first, found.tenth) == (2, 0.75, 1.0)


def test_the_same_captions_give_the_same_bytes(captions: Captions, tmp_path: Path) -> None:
    for name in ("one", "other"):
        learn_words(captions[:80]).write(tmp_path / name, {})
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == ["config.json", "model.safetensors", "origin.json", "tokenizer.json"]
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_unknown_forms_of_known_words_are_told_and_other_words_say_nothing(reader: TextReader) -> None:
    assert not reader.encode(["zxqv", "!?", ""]).any()
    things = [("tray", "trays"), ("lamp", "lamps"), ("spoon", "spoons")]
    items = [(f"a {one} here", f"two {many} there") for one, many in things] + [("red vase", "vase")]
    small = learn_words(items * 20)
    assert "##s" in small.words
    tokenizer = small.tokenizer()
    assert tokenizer.encode("vases").tokens == ["vase", "##s"]
    assert tokenizer.encode("vasectomy").tokens == ["[UNK]"]
    assert not small.vectors[small.words.index("##s")].any()


def test_rare_words_are_placed_by_what_is_said_beside_them(
    captions: Captions, unseen: Captions, table: WordTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With directions solved for few words only, the others still help."""
    monkeypatch.setattr(word_table, "MOST_PIVOTS", 32)
    placed = learn_words(captions).cut(16)
    assert placed.words == table.words
    known = WordTable(placed.words[:33], placed.vectors[:33])
    recalls = [measure_recall(one, unseen).first for one in (known, placed, table.cut(16))]
    assert recalls[0] + 0.05 < recalls[1] < recalls[2]


def test_blocks_change_nothing(captions: Captions, table: WordTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_table, "CAPTIONS_AT_ONCE", 33)
    assert learn_words(captions).vectors == pytest.approx(table.vectors, abs=1e-6)


def test_items_with_one_text_teach_nothing(captions: Captions) -> None:
    for some in (captions[:49], [one[:1] for one in captions], [(one[0], one[0]) for one in captions], []):
        with pytest.raises(WordTableError, match="items have two texts or more, and a reader needs 50"):
            learn_words(some)


def test_words_of_all_scripts(captions: Captions) -> None:
    assert split_words("Ein RÖTLICHER Stuhl, x-15!") == ["ein", "rotlicher", "stuhl", "x", "15"]
    assert split_words("赤い椅子 \ud800") == ["赤", "い", "椅", "子"]


@pytest.fixture(scope="module")
def listed(captions: Captions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("manifests") / "things.jsonl"
    entries = [
        ManifestEntry(str(place), texts=texts, split="train" if place < LEARNED - 50 else "test")
        for place, texts in enumerate(captions)
    ]
    manifest.write(path, entries)
    return path


def test_the_command_writes_a_reader_and_says_how_good_it_is(
    listed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--manifest", str(listed), "--split", "train", "--out", str(tmp_path / "own")]
    assert main(["reader", *words]) == 0
    reader = open_text_reader(tmp_path / "own")
    assert reader.origin["learned_from"] == LEARNED - 50
    assert reader.origin["held_out"]["items"] == 20
    printed = capsys.readouterr().out
    assert f"reader {reader.id}" in printed
    assert "20 held-out items, asked by one text: R@1 0." in printed


def test_the_command_makes_a_reader_part_of_a_bundle(listed: Path, tmp_path: Path) -> None:
    before = tiny.build(tmp_path / "tiny")
    words = ["--manifest", str(listed), "--dim", "12", "--bundle", str(before.folder)]
    assert main(["reader", *words]) == 0
    after = bundles.load(before.folder)
    assert after.reader_folder is not None
    assert open_text_reader(after.reader_folder).dim == 12
    other = reading.write_table_reader(tmp_path / "other")
    assert main(["reader", "--from", str(other), "--bundle", str(before.folder)]) == 0
    assert open_text_reader(after.reader_folder).id == open_text_reader(other).id
    assert bundles.load(before.folder).vector_id == before.vector_id


@pytest.mark.parametrize("words", [["--manifest", "x.jsonl"], ["--from", "x"], ["--from", "x", "--out", "y"]])
def test_the_command_asks_where_to(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reader", *words]) == 2
    assert "say where to" in capsys.readouterr().err
