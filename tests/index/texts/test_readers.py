"""The index of a text reader: the ranking of plain cosines, whatever is added, removed, saved or missing."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.texts.analysis import words_of_name
from index.texts.contracts import ItemTexts, TextIndex, TextIndexError
from index.texts.readers import ReaderIndex, quantise
from multifold.bundle.text_reader import TextReader, open_text_reader
from tests import reading

CAPTIONS = ("a red car", "a wooden chair on a beach", "toy guitar", "crimson", "zxqv", "", "chairs", "a")
QUERIES = ("red", "a crimson toy car", "wooden chairs", "beach guitar")
STEP = 2 / 127  # how far a product of quantised unit vectors may be off, and more


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> TextReader:
    return open_text_reader(reading.write_table_reader(tmp_path_factory.mktemp("readers") / "table"))


@pytest.fixture
def index(reader: TextReader) -> ReaderIndex:
    return ReaderIndex(reader)


def some_items(count: int, first: int = 0, seed: int = 3) -> list[ItemTexts]:
    rng = np.random.default_rng([seed, first])
    return [
        ItemTexts(edition, str(name), None, tuple(map(str, captions[: rng.integers(4)])))
        for edition, (name, *captions) in enumerate(rng.choice(CAPTIONS, (count, 4)), first)
    ]


def cosines(reader: TextReader, items: Sequence[ItemTexts], query: str) -> dict[int, float]:
    """The best cosine of each item's captions, or else its name, from float32 vectors and item by item."""
    asked, found = reader.encode([query])[0], {}
    for item in items:
        rows = reader.encode(item.captions or [words_of_name(item.name)])
        rows = rows[rows.any(axis=1)]
        found[item.edition] = float((rows @ asked).max()) if len(rows) else 0.0
    return found


def check(index: ReaderIndex, items: Sequence[ItemTexts]) -> None:
    """The index answers as plain cosines over these items do."""
    assert index.count() == len(items)
    editions = np.array([item.edition for item in items] + [10**9], np.int64)
    for query in QUERIES:
        expected = cosines(index.reader, items, query)
        scores = index.scores(query, editions)
        assert scores[:-1].tolist() == pytest.approx([*expected.values()], abs=STEP)
        assert scores[-1] == 0
        ranked, of_ranked = index.rank(query, len(items) + 5)
        by_edition = dict(zip(editions.tolist(), scores.tolist(), strict=True))
        order = sorted(
            (edition for edition in by_edition if by_edition[edition] > 0), key=lambda e: (-by_edition[e], e)
        )
        assert ranked.tolist() == order
        assert of_ranked.tolist() == [by_edition[edition] for edition in order]
        for limit in (0, 1, 3):
            assert index.rank(query, limit)[0].tolist() == order[:limit]


def test_a_name_is_read_as_people_write_it_with_and_without_its_folders(reader: TextReader) -> None:
    index = ReaderIndex(reader)
    names = ("beach/toy guitar", "toyGuitar_A.02", "red-car/1", "1")
    index.add([ItemTexts(edition, name) for edition, name in enumerate(names)])
    editions = np.arange(len(names))
    assert index.scores("toy guitar", editions)[:2] == pytest.approx(1, abs=STEP)
    assert index.scores("red car", editions)[2] == pytest.approx(1, abs=STEP)
    assert index.scores("red", editions)[3] == 0  # a number says nothing
    assert [one.text for one in index.matches("guitar", editions)] == ["name", "name", "name", None]


def test_nothing_is_in_an_empty_index(index: ReaderIndex) -> None:
    assert isinstance(index, TextIndex)
    check(index, [])
    assert index.matches("red", np.array([1]))[0].text is None
    index.add([])
    index.remove([1, 2])
    assert index.scores_of("red", []).shape == (0,)


def test_golden_numbers(index: ReaderIndex, reader: TextReader) -> None:
    index.add(
        [ItemTexts(7, "beach", None, ("red car", "guitar")), ItemTexts(8, "zxqv"), ItemTexts(6, "beach")]
    )
    red, car, crimson = (reading.table()[reading.WORDS.index(word)] for word in ("red", "car", "crimson"))
    both = red + car
    expected = both @ crimson / np.linalg.norm(both) / np.linalg.norm(crimson)
    assert index.scores("crimson", np.array([8, 7])).tolist() == pytest.approx([0, expected], abs=STEP)
    for query, edition, text in (
        ("crimson", 7, 0),
        ("guitar", 7, 1),
        ("beach", 6, "name"),
        ("beach", 8, None),
        ("beach", 9, None),
    ):
        assert index.matches(query, np.array([edition]))[0].text == text


def test_it_ranks_as_plain_cosines_do(index: ReaderIndex) -> None:
    """Texts that are not in it too, as when a caption is hidden: the order in which they come is kept."""
    items = some_items(200)
    index.add(items)
    check(index, items)
    backwards = items[::-1]
    for query in (*QUERIES, "zxqv"):
        expected = index.scores(query, np.array([item.edition for item in backwards]))
        assert np.array_equal(ReaderIndex(index.reader).scores_of(query, backwards), expected)


def test_it_knows_which_items_have_a_text_that_says_anything(index: ReaderIndex) -> None:
    items = [
        ItemTexts(0, "IMG_0001"),
        ItemTexts(1, "red car"),
        ItemTexts(2, "DSC00007", None, ("a red car",)),
        ItemTexts(3, "0042"),
    ]
    index.add(items[:2])
    index.add(items[2:])
    assert index.knows(np.array([0, 1, 2, 3, 9])).tolist() == [False, True, True, False, False]


def test_a_query_of_unknown_words_says_nothing(index: ReaderIndex) -> None:
    index.add(some_items(20))
    assert len(index.rank("a red thing", 5)[0])
    assert not len(index.rank("zxqv 77", 5)[0])
    assert not index.scores("zxqv 77", np.arange(20)).any()
    assert index.matches("zxqv 77", np.array([3]))[0].text is None


def test_numbers_of_names_tell_nothing_apart(index: ReaderIndex) -> None:
    index.add([ItemTexts(n, f"red car-{n:04}") for n in range(20)])
    assert len(set(index.scores("crimson", np.arange(20)).tolist())) == 1


def test_only_what_is_allowed_is_ranked(index: ReaderIndex) -> None:
    index.add(some_items(200))
    every = index.rank("a red car", 300)[0].tolist()
    allowed = np.array([99, 5, 5, 150, 4000, 17])
    assert index.rank("a red car", 300, allowed)[0].tolist() == [one for one in every if one in allowed]
    assert not len(index.rank("a red car", 300, np.empty(0, np.int64))[0])


def test_ties_go_to_the_smaller_edition(index: ReaderIndex) -> None:
    index.add([ItemTexts(edition, "red car") for edition in range(1000, 0, -1)])
    assert index.rank("red car", 5)[0].tolist() == [1, 2, 3, 4, 5]


def test_an_edition_is_added_once_or_nothing_is(index: ReaderIndex) -> None:
    index.add(some_items(5))
    for again in ([*some_items(3, first=5), *some_items(1, first=2)], [*some_items(1, first=9)] * 2):
        with pytest.raises(TextIndexError, match="stands twice"):
            index.add(again)
    check(index, some_items(5))


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "save"]), st.lists(st.integers(0, 30), max_size=12, unique=True)
    ),
    max_size=8,
)


@settings(max_examples=40, deadline=None)
@given(changes=CHANGES)
def test_any_order_of_changes_ends_at_the_same_answers(
    reader: TextReader, tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, list[int]]]
) -> None:
    index, held = ReaderIndex(reader), dict[int, ItemTexts]()
    for kind, editions in changes:
        if kind == "add":
            new = {one: some_items(1, first=one)[0] for one in editions if one not in held}
            index.add([*new.values()])
            held |= new
        elif kind == "remove":
            index.remove(editions)
            held = {edition: item for edition, item in held.items() if edition not in editions}
        else:
            folder = tmp_path_factory.mktemp("saved")
            index.save(folder)
            index = ReaderIndex(reader)
            index.load(folder)
    check(index, [held[edition] for edition in sorted(held)])
    assert index.nbytes < 20_000


def test_a_damaged_or_foreign_save_is_refused_and_changes_nothing(index: ReaderIndex, tmp_path: Path) -> None:
    items = some_items(30)
    index.add(items)
    index.save(tmp_path / "saved")
    for vectors in (reading.table(5), -reading.table()):
        other = open_text_reader(reading.write_table_reader(tmp_path / "other", embeddings=vectors))
        with pytest.raises(TextIndexError, match="of another text reader"):
            ReaderIndex(other).load(tmp_path / "saved")
    path = tmp_path / "saved" / "segment-rows.npy"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    for name, message in (("saved", "is damaged"), ("none", "is no index of texts")):
        with pytest.raises(TextIndexError, match=message):
            index.load(tmp_path / name)
    check(index, items)


def test_questions_run_beside_changes(reader: TextReader) -> None:
    """Each answer is that of one state: the item that never changes is always there, and scores the same."""
    index = ReaderIndex(reader)
    index.add([ItemTexts(0, "red"), *some_items(50, first=1)])
    wanted, faults = index.scores("red", np.array([0]))[0], list[Mapping[str, object]]()

    def ask() -> None:
        for _ in range(300):
            editions, scores = index.rank("red", 500)
            found = dict(zip(editions.tolist(), scores.tolist(), strict=True))
            if found.get(0) != wanted or (np.diff(scores) > 0).any():
                faults.append(found)

    with ThreadPoolExecutor(3) as threads:
        asking = [threads.submit(ask) for _ in range(3)]
        for first in range(100, 1100, 20):
            index.add(some_items(20, first=first))
            index.remove(range(first - 60, first - 50))
        for one in asking:
            one.result()
    assert not faults


@given(st.lists(st.lists(st.floats(-1, 1, width=32), min_size=4, max_size=4), max_size=6))
def test_a_quantised_vector_is_within_half_a_step(rows: list[list[float]]) -> None:
    vectors = np.array(rows, np.float32).reshape(-1, 4)
    steps, sizes = quantise(vectors)
    assert (np.abs(steps * sizes[:, None] - vectors) <= sizes[:, None] * 0.5001 + 1e-38).all()
