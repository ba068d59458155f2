"""The index of words ranks like plain BM25F, whatever was added and removed before."""

import math
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.texts import questions, segments, words
from index.texts.analysis import Analyzer, chunks
from index.texts.contracts import ItemTexts, TextIndex, TextIndexError
from index.texts.kernels import BEST_TEXT_SHARE, K
from index.texts.word_segments import LENGTH, WEIGHTS
from index.texts.words import WordIndex
from tests.index.texts.word_items import found, ids, index_of, item

ANALYZER = Analyzer()


class PlainIndex:
    """BM25F and the best text, as kernels.py says them."""

    def __init__(self, items: Sequence[ItemTexts]) -> None:
        self.items = {one.edition: list(self._texts(one)) for one in items}

    def _texts(self, one: ItemTexts) -> Iterator[tuple[int, int, Counter[str]]]:
        fields = [[one.name], [one.path] if one.path else [], one.values, one.captions]
        for field, text in ((field, text) for field, texts in enumerate(fields) for text in texts):
            cut = list(chunks(text))
            counts = Counter(ANALYZER.terms(word for c in cut for word in (*c.pieces, *c.wholes)))
            yield field, max(1, sum(len(c.pieces) for c in cut)), counts

    def scores(self, terms: Sequence[str]) -> dict[int, float]:
        texts = [text for every in self.items.values() for text in every]
        single, whole = [], []
        for field in range(4):
            lengths = [length for one, length, _ in texts if one == field]
            several = sum(any(one == field for one, _, _ in every) for every in self.items.values())
            single.append(sum(lengths) / max(len(lengths), 1))
            whole.append(sum(lengths) / max(several, 1))
        rarity = {}
        for term in terms:
            having = sum(any(counts[term] for _, _, counts in every) for every in self.items.values())
            rarity[term] = math.log(1 + (len(self.items) - having + 0.5) / (having + 0.5)) if having else 0.0

        def saturated(x: float) -> float:
            return x * (K + 1) / (K + x)

        scores = {}
        for edition, every in self.items.items():
            lengths = [sum(length for one, length, _ in every if one == field) for field in range(4)]
            total = sum(
                rarity[term]
                * saturated(
                    sum(
                        WEIGHTS[field] * counts[term]
                        / (1 - LENGTH[field] + LENGTH[field] * lengths[field] / whole[field])
                        for field, _, counts in every
                    )
                )
                for term in terms
            )  # fmt: skip
            best = max(
                sum(
                    rarity[term]
                    * saturated(
                        WEIGHTS[field] * counts[term]
                        / (1 - LENGTH[field] + LENGTH[field] * length / single[field])
                    )
                    for term in terms
                )
                for field, length, counts in every
            )  # fmt: skip
            scores[edition] = (1 - BEST_TEXT_SHARE) * total + BEST_TEXT_SHARE * best
        return scores


ItemParts: TypeAlias = tuple[str, str | None, list[str], list[str]]
WORDS = ("red", "chair", "chairs", "table", "KX-42", "cafe", "Café", "x1", "lamp")
TEXT = st.lists(st.sampled_from(WORDS), min_size=0, max_size=6).map(" ".join)
ITEM = st.tuples(TEXT, st.none() | TEXT, st.lists(TEXT, max_size=3), st.lists(TEXT, max_size=4))
STEPS = st.lists(st.tuples(st.lists(st.integers(1, 20), max_size=3), st.lists(ITEM, max_size=4)), max_size=5)
EVERY = ItemTexts(0, "x", None, WORDS)  # so that no word is looked for by another one


@pytest.mark.parametrize("small", [0, segments.MERGED_ITEMS])
@settings(max_examples=40, deadline=None)
@given(steps=STEPS, query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4, unique=True))
def test_it_ranks_like_plain_bm25f(
    small: int, steps: list[tuple[list[int], list[ItemParts]]], query: list[str]
) -> None:
    index, alive, last = index_of(EVERY), {0: EVERY}, 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "MERGED_ITEMS", small)
        for removed, added in steps:
            new = [
                ItemTexts(last + n, name, path, tuple(captions), tuple(values))
                for n, (name, path, values, captions) in enumerate(added, 1)
            ]
            last += len(new)
            index.remove(removed)
            index.add(new)
            alive = {edition: one for edition, one in alive.items() if edition not in removed}
            alive |= {one.edition: one for one in new}
    asked = " ".join(query)
    terms = dict.fromkeys(ANALYZER.terms(w for one in chunks(asked) for w in (*one.pieces, *one.wholes)))
    wanted = PlainIndex(list(alive.values())).scores(list(terms))
    everyone = ids(*range(30))
    assert index.count() == len(alive)
    assert index.scores(asked, everyone) == pytest.approx([wanted.get(n, 0.0) for n in range(30)], rel=1e-5)
    editions, scores = index.rank(asked, 100)
    assert set(editions.tolist()) == {edition for edition, score in wanted.items() if score > 0}
    assert scores.tolist() == index.scores(asked, editions).tolist()
    assert sorted(zip(-scores, editions, strict=True)) == list(zip(-scores, editions, strict=True))
    for limit in range(len(editions)):
        assert index.rank(asked, limit)[0].tolist() == editions[:limit].tolist()
    odd = everyone[everyone % 2 == 1]
    assert index.rank(asked, 100, odd)[0].tolist() == editions[editions % 2 == 1].tolist()


def test_numbers_worked_out_by_hand() -> None:
    index = index_of(item(1, "mug", "a red mug"), item(2, "vase", "a red vase", "red"))
    # both have "red": ln(1 + 0.5 / 2.5); one has "mug": ln(1 + 1.5 / 1.5)
    red, mug = math.log(1.2), math.log(2)
    assert index.most("red mug") == pytest.approx(red + mug)
    # captions: on average (3 + 4) / 2 words an item, (3 + 3 + 1) / 3 a text
    whole, text = (0.25 + 0.75 * 3 / n for n in (3.5, 7 / 3))
    x, y = 1 / whole, 1 / text
    in_all = red * 2.2 * x / (1.2 + x) + mug * 2.2 * (2 + x) / (1.2 + 2 + x)
    in_one = max((red + mug) * 2.2 * y / (1.2 + y), mug * 2.2 * 2 / 3.2)
    assert index.scores("a red mug", ids(1))[0] == pytest.approx(0.5 * in_all + 0.5 * in_one, rel=1e-6)


def test_many_items_and_their_ties() -> None:
    count = 8_209
    index = index_of(*(item(n, "thing", "a lamp" if n % 3 else "a lamp, a green lamp") for n in range(count)))
    assert found(index, "lamp", 4) == [0, 3, 6, 9]
    assert found(index, "green", count) == list(range(0, count, 3))
    assert found(index, "thing", 5) == [0, 1, 2, 3, 4]
    half = np.arange(1, count, 2)
    assert index.rank("green", 3, half)[0].tolist() == [3, 9, 15]
    index.remove(range(9, count))
    assert (index.count(), found(index, "green")) == (9, [0, 3, 6])


NAMES = ["guitar", "pizza", "café", "KX-42/7b", "book shelf", "kitchenTable_A", "headphones", "beach", "x 7"]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("acoustic guitar", ["guitar"]),
        ("pizzas", ["pizza"]),
        ("Pizza!", ["pizza"]),
        ("the a of", ["kitchenTable_A"]),  # stop words count only alone
        ("a guitar for the beach", ["guitar", "beach"]),
        ("CAFE", ["café"]),
        ("kx-42/7B", ["KX-42/7b", "x 7"]),
        ("kx42", ["KX-42/7b"]),
        ("bookshelves", ["book shelf"]),
        ("shelf", ["book shelf"]),
        ("kitchen table", ["kitchenTable_A"]),
        ("head phone", ["headphones"]),
        ("guit", ["guitar"]),
        ("gutiar", ["guitar"]),
        ("guitr", ["guitar"]),
        ("bech", ["beach"]),
        ("77", []),
        ("zxqv 77 kllp", []),
        ("", []),
        ("\0\ud800", []),
    ],
)
def test_queries_find_what_they_mean(query: str, names: list[str]) -> None:
    index = index_of(*(item(n, name, "thing mine") for n, name in enumerate(NAMES)))
    assert [NAMES[n] for n in found(index, query)] == names


def test_a_phrase_in_quotes_is_one() -> None:
    index = index_of(
        item(1, "a", "red chair and blue table"),
        item(2, "b", "a blue chair", "a red table"),
        item(3, "c", "chair, red"),
        item(4, "KX-42 stand", "for a red chair"),
    )
    assert set(found(index, "red chair")) == {1, 2, 3, 4}
    for query in ('"red chair"', "“Red chairs”", 'table "red chair"', '„red chair"'):
        assert set(found(index, query)) == {1, 4}
        assert (index.scores(query, ids(1, 2, 3, 4)) > 0).tolist() == [True, False, False, True]
    assert found(index, '"kx-42 stand"') == [4]
    assert found(index, '"for chair"') == found(index, '"blue moon"') == []
    assert set(found(index, '19" red')) == {1, 2, 3, 4}


def test_a_hundred_captions_drown_nobody() -> None:
    colours = ("red", "blue", "green", "black", "white")
    kinds = ("chair", "table", "lamp", "sofa", "shelf")
    many = [f"a {colour} {kind} {n}" for n in range(4) for colour in colours for kind in kinds]
    index = index_of(
        item(0, "everything", *many),
        *(item(n, f"n{n}", f"a {colours[n % 5]} {kinds[n // 5]}", "nice") for n in range(25) if n),
    )
    for n in range(1, 25):
        assert found(index, f"{colours[n % 5]} {kinds[n // 5]}")[0] == n
    assert found(index, "red chair 3")[0] == 0
    two = index_of(item(1, "a", "red box", "blue lid", "old"), item(2, "b", "red lid", "blue box", "old"))
    assert [found(two, query)[0] for query in ("blue box", "red box")] == [
        2,
        1,
    ]  # of one caption, not the sum
    stop = index_of(
        item(1, "x", "the lamp of the house"), item(2, "y", "the the of of"), item(3, "z", "lamp")
    )
    assert (set(found(stop, "the lamp of")), set(found(stop, "the of"))) == ({1, 3}, {1, 2})


def test_stop_words_tell_apart_what_other_words_find() -> None:
    names = ["mobile phone", "mobile phone off", "smoking area", "no smoking area", "king of the hill"]
    index = index_of(*(item(n, name) for n, name in enumerate(names)))
    for n, name in enumerate(names[:4]):
        assert found(index, name)[0] == n
    assert found(index, "the phone") == [0, 1]
    (match,) = index.matches("no smoking in the area", np.array([3]))
    assert match.words == ("smoking", "area")


def test_it_says_what_matched() -> None:
    index = index_of(
        item(7, "KX-42", "a green lamp", "a red chair", path="store/old_chair.glb", values="oak;9.5")
    )
    asked, seven = ("kx-42", "red chair", "green", "oak", "glb", "sofa"), np.array([7])
    assert [index.matches(q, seven)[0].text for q in asked] == [
        "name", 1, 0, "payload", "path", None,
    ]  # fmt: skip
    assert index.matches("A KX-42, green and round", np.array([7]))[0].words == ("KX-42", "green")
    assert index.matches("green", np.array([8]))[0] == (None, ())


def test_languages_of_the_texts() -> None:
    german = [
        item(n, f"n{n}", "der rote Stuhl steht auf dem Boden und ist nicht für den Garten") for n in range(9)
    ]
    assert index_of(*german).spoken() == ("german",)
    index = WordIndex(("german",))
    index.add([*german, item(20, "x", "zwei Stühle")])
    assert 20 in found(index, "Stuhl", 20)
    assert index.languages == ("german",)


def test_an_edition_stands_once() -> None:
    index = index_of(item(1), item(2))
    for new in ([item(3), item(3)], [item(2), item(4)]):
        with pytest.raises(TextIndexError, match="stands twice"):
            index.add(new)
    assert index.count() == 2
    index.remove([2, 5])
    index.add([item(2, "again")])
    assert found(index, "again") == [2]
    assert isinstance(index, TextIndex)


def test_very_long_and_very_many_texts() -> None:
    index = index_of(
        item(1, "x", "word " * 70_000, "tail"), item(2, "y", *["lamp"] * 3_000), item(3, "z" * 5_000)
    )
    assert found(index, "word") == [1]
    assert found(index, "lamp") == [2]
    assert index.matches("lamp", np.array([2]))[0].text == 0
    assert len(found(index, " ".join(f"w{n}" for n in range(500)) + " lamp")) <= 1


def test_a_long_text_costs_no_more_than_its_first_letters() -> None:
    text = " ".join(["lamp", *(f"w{number}" for number in range(100_000)), "zebra"])
    index = index_of(item(1, "x", text), item(2, "y", values=f"{text};giraffe"))
    assert found(index, "lamp") == [1, 2]
    assert found(index, "zebra") == found(index, "giraffe") == []


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    index = index_of(*(item(n, f"part{n}", f"a red lamp {n % 7}") for n in range(600)))
    index.remove(range(0, 600, 5))
    index.save(tmp_path / "words")
    again = WordIndex()
    again.load(tmp_path / "words")
    for one in (index, again):
        assert one.count() == 480
        one.add([item(1000, "new", "a red lamp")])
        one.remove([1])
    for query in ("red lamp", "part17", "lamp 3", "new"):
        assert found(again, query, 50) == found(index, query, 50)
    empty = WordIndex()
    empty.save(tmp_path / "empty")
    again.load(tmp_path / "empty")
    assert (again.count(), found(again, "lamp")) == (0, [])


def test_a_damaged_save_is_refused(tmp_path: Path) -> None:
    index = index_of(*(item(n, f"part{n}") for n in range(50)))
    index.save(tmp_path / "words")
    for file in sorted((tmp_path / "words").iterdir()):
        whole = file.read_bytes()
        for broken in (whole[: len(whole) // 2], b"", whole[:-1] + bytes([whole[-1] ^ 1])):
            file.write_bytes(broken)
            with pytest.raises(TextIndexError):
                WordIndex().load(tmp_path / "words")
        file.write_bytes(whole)
    WordIndex().load(tmp_path / "words")
    with pytest.raises(TextIndexError):
        WordIndex().load(tmp_path / "nothing")


def test_questions_run_beside_changes() -> None:
    """An answer lacks what is removed while it is made, and what is added then."""
    index = index_of(*(item(n, f"part{n}", "a red lamp") for n in range(300)))
    stop, wrong = threading.Event(), list[int]()

    def ask() -> None:
        while not stop.is_set():
            editions, scores = index.rank("red lamp", 1000)
            if not (180 <= len(editions) <= 310 and (scores > 0).all()):
                wrong.append(len(editions))

    with ThreadPoolExecutor(3) as threads:
        asking = [threads.submit(ask) for _ in range(3)]
        for n in range(300, 420):
            index.remove([n - 300])
            index.add([item(n, f"part{n}", "a red lamp")])
        stop.set()
        for one in asking:
            one.result()
    assert (wrong, index.count()) == ([], 300)


def test_common_words_are_left_out_of_what_is_near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "RARE", 8)
    monkeypatch.setattr(words, "SCORED_ITEMS", 0)
    index = WordIndex()
    index.add(
        [ItemTexts(n, f"n{n}", captions=("a red chair" if n % 2 else "a blue chair",)) for n in range(64)]
    )
    index.add([ItemTexts(64, "n64", captions=("a crimson chair",))])
    every, _ = index.rank("crimson chair", 100)
    assert len(every) == 65
    assert index.near("crimson chair", 100).tolist() == [64]
    assert len(index.near("chair", 100)) == 65  # there is no rarer one


def test_most_of_the_best_are_near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "SCORED_ITEMS", 0)
    random = np.random.default_rng(3)
    vocabulary = [f"{letter}{'ab'[n % 2]}{'xyz'[n % 3]}" for n, letter in enumerate("bcdfghjklmnpqrstvw")]

    def text(most: int) -> str:
        return " ".join(random.choice(vocabulary, random.integers(2, most)))

    items = [ItemTexts(n, text(4), captions=tuple(text(12) for _ in range(n % 4))) for n in range(600)]
    index = index_of(*items)
    index.remove(range(0, 600, 7))
    allowed = np.arange(0, 600, 2, dtype=np.int64)
    shares = []
    for among in (None, allowed):
        for query in (text(6) for _ in range(20)):
            best, near = index.rank(query, 20, among)[0], index.near(query, 40, among)
            assert len(near) >= len(best)
            assert not (near % 7 == 0).any()
            assert among is None or not (near % 2).any()
            shares.append(len(np.intersect1d(best, near)) / len(best))
    assert np.mean(shares) > 0.8  # many score nearly alike
    assert set(index.near('"bax cby"', 600)) == set(index.rank('"bax cby"', 600)[0])


def test_it_counts_the_items_that_have_each_word_of_a_question() -> None:
    items = item(1, "red chairs", "a red chair"), item(2, "chair"), item(3, "wardrobe of the king")
    index = index_of(*items)
    assert index.having("the Red chair, carmine") == {"red": 1, "chair": 2, "carmine": 0}
    assert index.having("ward") == {"ward": 0}  # a guess is no word that an item has
    assert index.having("of the") == {"of": 1, "the": 1}
    index.remove([2])
    assert index.having("chair") == {"chair": 1}


def test_a_guess_is_made_only_where_a_word_is_unknown() -> None:
    index = index_of(item(1, "car"), item(2, "carpet"), item(3, "cart"))
    assert found(index, "car") == [1]
    index.remove([1])
    assert found(index, "car") == [2, 3]


def test_two_words_may_be_one_in_an_item_also_where_others_have_them_apart() -> None:
    index = index_of(item(1, "trafficlight"), item(2, "light"), item(3, "fire"), item(4, "light fire engine"))
    assert found(index, "traffic light")[0] == 1
    assert index.weigh("traffic light", ids(1)).shares == 1  # it has both words
    assert index.weigh("traffic light", ids(2)).shares < 1
    assert found(index, "light fire") == [4, 2, 3]  # nothing writes these as one


def test_it_says_how_much_of_the_text_that_says_most_the_question_states() -> None:
    index = index_of(item(1, "red chair"), item(2, "a chair of red wood for the garden"), item(3, "red"))
    for question, stated in (
        ("red chair", [1, 0.25, 1]),
        ("chairs", [0.5, 0.125, 0]),
        ("a chair", [0.5, 0.125, 0]),
    ):
        assert index.weigh(question, ids(1, 2, 3)).stated.tolist() == stated
    assert index.weigh_texts("red chair", [item(0, "red chair chair")]).stated == 1
    joined = index_of(item(1, "headphones"), item(2, "head"))
    assert joined.weigh("head phones", ids(1)).stated == 1  # once, though it stands for both words
    apart = index_of(item(1, "kitchen/red chairs/1"), item(2, "x", path="old things\\red chair"))
    assert apart.weigh("red chair", ids(1, 2)).stated.tolist() == [1, 1]  # each step of a path is a text


def test_a_correct_word_is_no_misspelling() -> None:
    index = index_of(item(1, "plate"), item(2, "starfish"), item(3, "car"), item(4, "pet"), item(5, "steel"))
    assert found(index, "plaet") == [1]
    assert found(index, "star") == [2]  # the beginning of another word
    assert found(index, "place") == found(index, "steal") == []
    assert found(index, "carpet") == [3, 4]
    assert index.weigh("plaet", ids(1)).shares == 1
    assert (
        index.weigh("star", ids(2)).shares == index.weigh("carpet", ids(3)).shares == 0
    )  # they may be meant
