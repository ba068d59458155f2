"""The evidence of all legs: it adds up, a missing side says nothing, pages go on, weights are learned."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index.collection import Collection
from index.search import evidence
from index.search.evidence import EvidenceTable
from index.search.evidence_model import (
    HIGHEST,
    LEGS,
    MEANINGLESS,
    NAMES,
    PLACES,
    RULES,
    UNFITTED,
    WORDLESS,
    EvidenceModel,
    SideModel,
    prior_weights,
    standardise,
)
from index.search.evidence_questions import LETTERS, meaningless_queries
from index.search.search import SearchRequest
from index.store.filters import parse_filter
from index.texts.words import WordIndex
from multifold.bundle.text_reader import TextReader, open_text_reader
from multifold.types import Hit, Item, LexicalQuery, Query, Vector, Vectors
from tests import reading
from tests.index.spaces import FEATURE, Sphere
from tests.index.stores import one_store
from tests.index.things import caption, view

SPACE = Sphere(FEATURE)
THINGS = ("chair", "table", "lamp", "sofa", "shelf", "bed", "stool", "desk", "bench", "mirror")
COLOURS = ("red", "green", "blue", "yellow", "white", "black", "brown", "grey", "pink", "orange")


@pytest.fixture
def collection(tmp_path: Path, database: str | None) -> Iterator[Collection]:
    with Collection.open(tmp_path / "things", SPACE, database=database) as opened:
        yield opened


def things(seed: int = 0, *, views: float = 0.5) -> list[Item]:
    """A hundred coloured things, each with three captions; views lie this far from what the captions say."""
    random = np.random.default_rng(seed)
    items: list[Item] = []
    for colour in COLOURS:
        for thing in THINGS:
            centre = random.standard_normal(FEATURE)
            texts = (f"a {colour} {thing}", f"the {thing} in {colour}", f"{colour} {thing} for sale")
            seen = [(centre + views * random.standard_normal(FEATURE)).astype(np.float32) for _ in range(2)]
            told = [(centre + 0.1 * random.standard_normal(FEATURE)).astype(np.float32) for _ in texts]
            captions = [caption(n, one, text) for n, (one, text) in enumerate(zip(told, texts, strict=True))]
            pictures = [view(n, one) for n, one in enumerate(seen)]
            items.append(Item(f"n{len(items):03}", (*captions, *pictures), {"colour": colour}))
    return items


def direction(item: Item) -> Vector:
    """The vector of a query that means an item: its first caption."""
    return np.asarray(SPACE.vectors(item.observations[0].feature[None])[0], np.float32)


def find(
    collection: Collection, vector: Vector, text: str | None, model: EvidenceModel = UNFITTED, **options: int
) -> list[Hit]:
    words = None if text is None else LexicalQuery(text)
    request = SearchRequest(Query(vector, "item", words=words, **options), evidence=model)  # type: ignore[arg-type]
    return collection.search_many([request])[0]


def test_the_caption_that_matched_is_shown_where_one_before_it_has_no_vector(tmp_path: Path) -> None:
    items = things()
    meant = next(item for item in items if item.observations[0].text == "a pink sofa")
    for damaged in (False, True):
        with Collection.open(tmp_path, SPACE) as collection:
            collection.upsert([] if damaged else items)
            hit = find(collection, direction(meant), "a pink sofa")[0]
        matched = next(one.matched for one in hit.evidence if one.leg == "words")
        assert hit.id == meant.id
        assert matched is not None
        assert matched.text == "a pink sofa"
        nothing = np.full(FEATURE, np.nan, "<f4").tobytes()
        with closing(sqlite3.connect(tmp_path / "store.sqlite")) as database, database:
            first = "kind = 'caption' AND ordinal = 0 AND text = 'a pink sofa'"
            assert database.execute(f"UPDATE observations SET feature = ? WHERE {first}", [nothing]).rowcount


def test_words_find_what_the_vector_does_not(collection: Collection) -> None:
    items = things()
    collection.upsert(items)
    strange = SPACE.vectors(np.random.default_rng(9).standard_normal((1, FEATURE)).astype(np.float32))[0]
    hits = find(collection, strange, "pink sofas")
    assert hits[0].id == next(item.id for item in items if item.observations[0].text == "a pink sofa")
    assert hits[0].evidence[0].leg == "words"
    matched = hits[0].evidence[0].matched
    assert matched is not None
    assert matched.kind == "caption"
    assert hits[0].words == ("pink", "sofas")


def test_the_evidence_of_a_hit_is_the_sum_of_its_legs_and_falls(collection: Collection) -> None:
    items = things()
    collection.upsert(items)
    hits = find(collection, direction(items[7]), "a red desk", limit=30)
    for hit in hits:
        assert hit.score == pytest.approx(sum(leg.value for leg in hit.evidence), abs=1e-4)
    scores, chances = [hit.score for hit in hits], [hit.confidence for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert chances == sorted(chances, reverse=True)  # type: ignore[type-var]


def test_a_missing_side_says_nothing(collection: Collection) -> None:
    items = things()
    bare = [
        Item(item.id, tuple(one for one in item.observations if one.kind == "view")) for item in items[:50]
    ]
    collection.upsert([*bare, *items[50:]])
    hits = find(collection, direction(items[7]), None, limit=100)
    assert len(hits) == 100
    for hit in hits:
        legs = {leg.leg for leg in hit.evidence}
        assert legs == ({"shape"} if int(hit.id[1:]) < 50 else {"shape", "text"})


def test_strangers_gain_nothing() -> None:
    random = np.random.default_rng(0)
    values = np.zeros((64, len(NAMES)), np.float32)
    values[:, PLACES["shape"].start] = random.standard_normal(64)
    present = np.zeros((64, len(LEGS)), np.bool_)
    present[:60, LEGS.index("shape")] = True
    everybody = np.ones(64, np.bool_)
    table = EvidenceTable(np.arange(64), values, present, everybody, ~everybody)
    ratios = table.by_leg(SideModel(np.where(np.array(NAMES) == "shape", 0.5, 0.0)))[:, LEGS.index("shape")]
    raw = values[:, PLACES["shape"].start] * 0.5
    nothing = ratios[0] - raw[0]  # of who scores nothing, who stands for the first of them
    others = np.delete(ratios[:60], raw[:60].argmax())
    assert np.exp([*others, nothing]).mean() == pytest.approx(1)
    assert ratios[60:] == pytest.approx(raw[60:])


@pytest.mark.parametrize("among", [False, True])
def test_what_is_meant_is_no_stranger(among: bool) -> None:
    """A single item that has the words stands out as much, whether it is in the sample or not."""
    values = np.zeros((10, len(NAMES)), np.float32)
    values[3, PLACES["words"].start] = 20.0
    present, strangers = np.ones((10, len(LEGS)), np.bool_), np.ones(10, np.bool_)
    strangers[3] = among
    table = EvidenceTable(np.arange(10), values, present, strangers, values[:, 0] > 0)
    ratios = table.by_leg(SideModel(prior_weights("text")))[:, LEGS.index("words")]
    assert ratios[3] == pytest.approx(6.0)
    assert np.delete(ratios, 3) == pytest.approx(0.0)


def test_queries_whose_words_nothing_has_are_not_judged_by_the_fit() -> None:
    """Where the fit has learned that pictures know nothing, they still rank what no text can."""
    values = np.zeros((100, len(NAMES)), np.float32)
    values[:, PLACES["shape"].start] = np.linspace(0, 5, 100)
    present, strangers = np.ones((100, len(LEGS)), np.bool_), np.ones(100, np.bool_)
    weights, nothing = np.where(np.array(NAMES) == "words", 0.5, 0.0), values[:, 0] > 0
    for heard, ranked in ((1.0, False), (0.3, False), (0.1, True), (0.0, True)):
        table = EvidenceTable(np.arange(100), values, present, strangers, nothing, 1.0, heard)
        evidence = table.by_leg(SideModel(weights)).sum(axis=1)
        assert (evidence.argmax() == 99 and np.ptp(evidence) > 1) == ranked


def test_scores_are_standardised_by_strangers() -> None:
    scores = np.array([0.1, 0.2, 0.3, 0.4, 0.5, np.nan, 9.0], np.float32)
    strangers = np.array([True] * 6 + [False])
    standard = standardise(scores, strangers)
    assert standard[2] == 0
    assert standard[5] == 0
    assert standard[6] == HIGHEST
    assert standard[4] == pytest.approx(0.2 / (1.4826 * 0.1), rel=1e-4)


@pytest.mark.parametrize("text", ["a red desk", None])
def test_pages_continue_one_another(
    collection: Collection, text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "RING", 8)
    items = things()
    collection.upsert(items)
    vector = direction(items[7])
    whole = [hit.id for hit in find(collection, vector, text, limit=100)]
    pages = [find(collection, vector, text, limit=7, offset=start) for start in range(0, 100, 7)]
    assert [hit.id for page in pages for hit in page] == whole
    assert sorted(whole) == sorted(item.id for item in items)


def test_legs_that_weigh_nothing_give_no_candidates(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "RING", 8)
    items = things()
    collection.upsert(items)
    only_shape = EvidenceModel({"text": SideModel(np.isin(NAMES, ["shape"]).astype(np.float64))})
    hits = find(collection, direction(items[7]), "a red desk", only_shape, limit=100)
    scores = [hit.score for hit in hits]
    assert len(hits) == 100
    assert scores == sorted(scores, reverse=True)  # no ring held an item that the shape ranks behind the next

    without_views = Item("bare", tuple(one for one in items[7].observations if one.kind == "caption"))
    collection.upsert([without_views])
    found = find(collection, direction(items[7]), "a red desk", only_shape, limit=101)
    assert "bare" in {hit.id for hit in found}


def test_words_are_not_ranked_where_no_leg_depends_on_them(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [Item(one.id, tuple(o for o in one.observations if o.kind == "view")) for one in things()]
    collection.upsert(items)
    ranked, near = list[str](), WordIndex.near

    def noted(self: WordIndex, query: str, *rest: Any, **named: Any) -> Any:  # noqa: ANN401 (as it is)
        ranked.append(query)
        return near(self, query, *rest, **named)

    monkeypatch.setattr(WordIndex, "near", noted)
    for column, asks in (("shape", False), ("words", True)):
        weights = np.isin(NAMES, ["shape", column]).astype(np.float64)
        model = EvidenceModel({"text": SideModel(weights, wordless=weights)})
        find(collection, direction(items[7]), "a red desk", model)
        assert bool(ranked) == asks


@pytest.mark.parametrize("fitted", [False, True])
def test_a_reader_finds_what_the_items_say_in_other_words(
    tmp_path: Path, database: str | None, fitted: bool
) -> None:
    """Where no item has a word of the query, and pictures and the captions' vectors know nothing of it."""
    reader = open_text_reader(reading.write_table_reader(tmp_path / "reader"))
    with Collection.open(tmp_path / "things", SPACE, database=database, reader=reader) as collection:
        items = things(views=50.0)
        collection.upsert(items)
        model = collection.fit_evidence() if fitted else UNFITTED
        strange = SPACE.vectors(np.random.default_rng(9).standard_normal((1, FEATURE)).astype(np.float32))[0]
        hits = find(collection, strange, "crimson", model)
        assert hits[0].payload["colour"] == "red"
        assert hits[0].evidence[0].leg == "reader"


class LetterReader(TextReader):
    """Reads letters, so that it finds something near to any."""

    def __init__(self) -> None:
        self.id, self.dim = "letters", len(LETTERS)

    def encode(self, texts: Sequence[str]) -> Vectors:
        counts = [[text.casefold().count(letter) for letter in LETTERS] for text in texts]
        table = np.array(counts, np.float32).reshape(-1, self.dim)
        units: Vectors = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-9)
        return units

    def knows_word(self, word: str) -> bool:
        return not word


def test_a_query_without_a_meaning_gains_no_more_than_others_of_its_kind(tmp_path: Path) -> None:
    with Collection.open(tmp_path / "things", SPACE, reader=LetterReader()) as collection:
        items = [Item(item.id, item.observations[:1]) for item in things()]
        collection.upsert(items)
        nothing = np.random.default_rng(5).standard_normal(FEATURE).astype(np.float32)
        model = collection.fit_evidence(lambda texts: np.tile(nothing, (len(texts), 1)))
        assert model.of("text").meaningless > MEANINGLESS
        vector = SPACE.vectors(nothing[None])[0]
        gains = [find(collection, vector, text, model)[0].gain for text in meaningless_queries(seed=1)]
        assert np.mean([gain is not None and gain >= 0 for gain in gains]) < 0.3
        gain = find(collection, direction(items[7]), "a red desk", model)[0].gain
        assert gain is not None
        assert gain >= 0


def test_a_filter_holds_and_changes_no_scores_among_strangers(collection: Collection) -> None:
    items = things()
    collection.upsert(items)
    vector = direction(items[7])
    query = Query(vector, "item", 100, words=LexicalQuery("a red desk"))
    some = collection.search_many([SearchRequest(query, parse_filter({"colour": "red"}))])[0]
    scores = {hit.id: hit.score for hit in find(collection, vector, "a red desk", limit=100)}
    assert {hit.id for hit in some} == {item.id for item in items if item.payload["colour"] == "red"}
    assert [hit.score for hit in some] == pytest.approx([scores[hit.id] for hit in some], abs=1e-4)


def test_a_phrase_that_nothing_has_gains_nothing(collection: Collection) -> None:
    items = things()
    collection.upsert(items)
    vector = direction(items[7])
    for text, colour, there in (
        ("desk in red", None, True),
        ('"desk in red"', None, True),
        ('"red in desk"', None, False),  # all words are there, but no caption has them so
        ('"desk in red" "a red sofa"', None, False),  # each is there, but nothing has both
        ('"desk in red"', "red", True),
        ('"desk in red"', "blue", False),  # among what a filter leaves
    ):
        query = Query(vector, "item", 3, words=LexicalQuery(text))
        where = None if colour is None else parse_filter({"colour": colour})
        hit = collection.search_many([SearchRequest(query, where)])[0][0]
        assert hit.gain is not None
        assert np.isfinite(hit.gain) == there, text


def test_the_best_observation_of_items_that_have_several(collection: Collection) -> None:
    items = things()
    collection.upsert(items)
    for pool in ("mean", "max"):
        query = Query(direction(items[7]), "item", 3, pool)
        assert collection.search_many([SearchRequest(query)])[0][0].id == items[7].id


class TestFit:
    """Weights are learned from the items themselves."""

    @one_store
    def test_no_leg_falls_below_its_prior_weight(self, collection: Collection) -> None:
        """Also where views know nothing: the questions cannot tell what they are worth to others."""
        collection.upsert(things(views=50.0))
        model = collection.fit_evidence().of("text")
        prior = dict(zip(NAMES, prior_weights("text"), strict=True))
        weights = dict(zip(NAMES, model.weights, strict=True))
        wordless = dict(zip(NAMES, model.wordless, strict=True))
        for name in ("text", "shape", "shape long"):
            assert weights[name] >= prior[name]
            assert wordless[name] >= WORDLESS[name]
        assert weights["words"] > 0.3

    def test_a_model_belongs_to_the_reader_that_it_was_fitted_with(
        self, tmp_path: Path, database: str | None
    ) -> None:
        with Collection.open(tmp_path / "things", SPACE, database=database) as collection:
            collection.upsert(things())
            collection.fit_evidence()
            assert collection.evidence() is not None
        reader = open_text_reader(reading.write_table_reader(tmp_path / "reader"))
        with Collection.open(tmp_path / "things", SPACE, database=database, reader=reader) as collection:
            assert collection.evidence() is None
            collection.fit_evidence()
            assert collection.evidence() is not None

    def test_the_model_is_stored_and_read_again(self, collection: Collection) -> None:
        assert collection.evidence() is None
        collection.upsert(things())
        model = collection.fit_evidence()
        stored = collection.evidence()
        assert stored is not None
        assert stored.to_json() == model.to_json()
        assert stored.items == 100
        assert set(stored.sides) == {"text", "image", "shape"}  # a view asks as a picture

    def test_a_model_of_other_rules_is_none(self) -> None:
        note = EvidenceModel({"text": SideModel(prior_weights("text"))}).to_json()
        assert EvidenceModel.from_json(note) is not None
        assert EvidenceModel.from_json(note.replace(f'"rules": {RULES}', '"rules": 0')) is None

    def test_too_few_items_leave_what_holds_without_a_fit(self, collection: Collection) -> None:
        collection.upsert(things()[:2])
        assert collection.fit_evidence().sides == {}

    @one_store
    def test_no_weight_is_negative_and_the_fit_repeats(self, collection: Collection) -> None:
        collection.upsert(things())
        first, second = collection.fit_evidence(), collection.fit_evidence()
        assert first.to_json() == second.to_json()
        assert all((side.weights >= 0).all() for side in first.sides.values())

    @one_store
    def test_confidence_is_calibrated_on_other_items(self, collection: Collection) -> None:
        """On average as many of the first hits are right as their confidence says."""
        items = things(views=2.0)
        collection.upsert(items)
        model = collection.fit_evidence()
        asked = [(item, item.observations[1]) for item in items]
        chances, right = [], []
        for item, one in asked:
            vector = SPACE.vectors(item.observations[3].feature[None])[0]
            hit = find(collection, vector, None, model, limit=1)[0]
            chances.append(hit.confidence or 0.0)
            right.append(hit.id == item.id)
            assert one.text is not None
        assert np.mean(chances) == pytest.approx(np.mean(right), abs=0.35)
