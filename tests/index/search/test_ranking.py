"""Evidence adds up, what an item lacks says nothing, pages go on, and what is asked with itself is first."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from index.collection import Collection
from index.legs.table import COLUMNS, COLUMNS_OF, LEGS, TARGET_LEGS
from index.plain_space import PlainSpace
from index.search import ranking
from index.search.model import EvidenceModel, SideModel, prior_model
from index.search.ranking import Scores, write_ratios
from index.store.filters import parse_filter
from multifold.bundle.text_reader import TextReader, open_text_reader
from multifold.types import SIDES, Distance, Item, Target, Vectors
from tests import reading
from tests.index.coloured import coloured, direction, find, ids, without
from tests.index.spaces import FEATURE, SPACE
from tests.index.things import caption


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with Collection.open(tmp_path / "things", SPACE) as opened:
        yield opened


def scored(
    values: dict[str, np.ndarray], present: np.ndarray, background: np.ndarray, heard: float
) -> Scores:
    """What one leg says of so many items, of which some lack it."""
    (name, column), count = next(iter(values.items())), len(present)
    weighted = np.zeros((count, len(COLUMNS)), np.float32)
    weighted[:, COLUMNS.index(name)] = column
    raw = np.zeros((count, 2), np.float32)
    raw[~present, 0] = np.nan
    bare = np.zeros(count, np.bool_)
    return Scores(np.arange(count), {name: raw}, weighted, background, 1.0, bare, heard)  # type: ignore[dict-item]


def test_the_ratios_are_what_plain_arithmetic_says() -> None:
    """The background gains nothing; its best may be meant, and one that scores nothing stands for it."""
    column, present = np.random.default_rng(0).standard_normal(64), np.arange(64) < 60
    column[~present] = 0.0
    scores = scored({"shape": column.astype(np.float32)}, present, np.ones(64, np.bool_), 1.0)
    ratios = scores.ratios(SideModel(np.where(np.array(COLUMNS) == "shape", 0.5, 0.0)))
    said = 0.5 * column.astype(np.float32)
    others = np.delete(said[:60], said[:60].argmax())
    level = np.log((np.exp(others).sum() + 1) / (len(others) + 1))
    wanted = np.zeros((64, len(LEGS)))
    wanted[:60, LEGS.index("shape")] = said[:60] - level
    assert ratios == pytest.approx(wanted, abs=1e-6)


def plain_ratios(scores: Scores, model: SideModel) -> np.ndarray:
    """The same by arrays, leg by leg."""
    ratios, weights = np.zeros(scores.present.shape), model.weights_for(scores.strange)
    others = np.flatnonzero(scores.background)
    said = [scores.values[:, COLUMNS_OF[leg]].astype(np.float64) @ weights[COLUMNS_OF[leg]] for leg in LEGS]
    others = np.delete(others, np.sum(said, axis=0)[others].argmax()) if len(others) else others
    for place, one in enumerate(said):
        known = others[scores.present[others, place]]
        level = np.log((np.exp(one[known]).sum() + 1) / (len(known) + 1))
        ratios[:, place] = np.where(scores.present[:, place], one - level, one)
    return ratios


@pytest.mark.parametrize(("items", "background"), [(0, 0), (1, 0), (1, 1), (2, 2), (40, 0), (300, 256)])
def test_the_ratios_of_all_legs_are_what_arrays_say(items: int, background: int) -> None:
    rng = np.random.default_rng(items)
    raw, values = {}, rng.standard_normal((items, len(COLUMNS))).astype(np.float32)
    for leg in LEGS:
        raw[leg] = np.where(rng.random(items) < 0.3, np.nan, rng.random(items))[:, None].repeat(3, axis=1)
        values[np.isnan(raw[leg][:, 0]), COLUMNS_OF[leg]] = 0.0
        raw[leg][:, 1] = 0.0  # nothing is the very thing that asks
    raw = {leg: said.astype(np.float32) for leg, said in raw.items()}
    scores = Scores(
        np.arange(items), raw, values, np.arange(items) < background, 1.0, np.zeros(items, np.bool_)
    )
    model = prior_model("text")
    assert scores.ratios(model) == pytest.approx(plain_ratios(scores, model), abs=1e-12)
    assert not np.isnan(scores.ratios(model)).any()


def test_a_leg_has_any_number_of_columns() -> None:
    rng = np.random.default_rng(0)
    values, present = rng.standard_normal((9, 6)).astype(np.float32), np.ones((9, 3), np.bool_)
    weights, legs = rng.standard_normal(6), np.array([0, 1, 1, 1, 1, 2])
    ratios = np.zeros((9, 3))
    write_ratios(values, weights, legs, present, np.zeros(9, np.bool_), ratios)
    said = values * weights
    wanted = np.stack([said[:, 0], said[:, 1:5].sum(axis=1), said[:, 5]], axis=1)
    assert ratios == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("among", [False, True])
def test_what_is_meant_is_no_background(among: bool) -> None:
    column, background = np.zeros(10, np.float32), np.ones(10, np.bool_)
    column[3], background[3] = 20.0, among
    scores = scored({"words": column}, np.ones(10, np.bool_), background, 1.0)
    ratios = scores.ratios(prior_model("text"))[:, LEGS.index("words")]
    assert ratios[3] == pytest.approx(6.0)
    assert np.delete(ratios, 3) == pytest.approx(0.0)


@pytest.mark.parametrize(("heard", "ranked"), [(1.0, False), (0.7, False), (0.3, True), (0.0, True)])
def test_queries_whose_words_nothing_has_have_weights_of_their_own(heard: float, ranked: bool) -> None:
    everything = np.ones(100, np.bool_)
    scores = scored({"shape": np.linspace(0, 5, 100, dtype=np.float32)}, everything, everything, heard)
    evidence = scores.ratios(SideModel(np.where(np.array(COLUMNS) == "words", 0.5, 0.0))).sum(axis=1)
    assert (evidence.argmax() == 99 and np.ptp(evidence) > 0.05) == ranked


def test_a_reader_is_asked_only_where_words_are_unheard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[str]()
    encode = TextReader.encode

    def noted(reader: TextReader, texts: list[str]) -> Vectors:
        read.extend(texts)
        return encode(reader, texts)

    monkeypatch.setattr(TextReader, "encode", noted)
    reader = open_text_reader(reading.write_table_reader(tmp_path / "reader"))
    items = coloured()
    with Collection.open(tmp_path / "things", SPACE, reader=reader) as collection:
        collection.upsert(items)
        for text, asked in (("the red chair", False), ("the crimson chair", True)):
            hits = find(collection, direction(items[55]), text)
            said = {share.leg for hit in hits for share in hit.evidence}
            assert (text in read, "reader" in said) == (asked, asked)
        assert "n000" in ids(hits)  # the red chair


@pytest.mark.parametrize("words", ["auto", "off", "only"])
def test_hits_say_why_and_how_sure(collection: Collection, words: str) -> None:
    items = coloured(points=0.7)
    collection.upsert(items)
    for target in get_args(Target):
        hits = find(collection, direction(items[7]), "a red desk", target=target, words=words, limit=30)
        assert bool(hits) == (target != "image")  # nothing has one
        for hit in hits:
            legs = {leg.leg: leg.value for leg in hit.evidence}
            assert set(legs) <= ({"words"} if words == "only" else set(TARGET_LEGS[target]))
            assert hit.gain is not None
            if target == "item" and words != "only":
                assert hit.score == pytest.approx(sum(legs.values()), abs=1e-4)
        chances = [hit.confidence or 0.0 for hit in hits]
        assert all(0 < chance < 1 for chance in chances)
        assert chances == sorted(chances, reverse=True)


def test_a_missing_side_says_nothing(collection: Collection) -> None:
    items = coloured()
    collection.upsert([*(without(item, "caption") for item in items[:50]), *items[50:]])
    hits = find(collection, direction(items[7]), limit=100)
    assert len(hits) == 100
    for hit in hits:
        legs = {leg.leg for leg in hit.evidence}
        assert legs == ({"shape"} if int(hit.id[1:]) < 50 else {"shape", "text"})


@pytest.mark.parametrize("examples", [3, 70])
def test_what_lacks_a_leg_is_neither_up_nor_down_by_it(collection: Collection, examples: int) -> None:
    """Points that say nothing: half of the items that lack them stand in the first half."""
    items = coloured(views=0.2, points=50.0)
    lacking = set(np.random.default_rng(1).permutation(100)[:examples].tolist())
    collection.upsert([without(one, "points") if n in lacking else one for n, one in enumerate(items)])
    targets: tuple[Target, ...] = ("item", "any", "shape")
    for target in targets:
        places = []
        for item in items[::5]:
            found = ids(find(collection, direction(item), target=target, limit=100))
            places += [found.index(items[n].id) for n in lacking if items[n] is not item]
        assert np.mean(places) == pytest.approx(49.5, abs=12 if examples < 9 else 5)


@pytest.mark.parametrize("lacking", [(), ("points",), ("caption",)], ids=["alike", "few points", "few texts"])
@pytest.mark.parametrize("metric", ["cosine", "ip"])
def test_what_is_asked_with_itself_is_first(
    tmp_path: Path, metric: Distance, lacking: tuple[Any, ...]
) -> None:
    """Vectors of any length too, where another may be nearer to a query than this is to itself."""
    space, random = PlainSpace(metric, FEATURE), np.random.default_rng(2)
    items = []
    for number, item in enumerate(coloured(points=0.7)):
        long = np.float32(random.uniform(0.2, 5)) if metric == "ip" else np.float32(1)
        seen = tuple(type(o)(o.kind, o.index, o.feature * long, o.text, o.blob) for o in item.observations)
        whole = Item(item.id, seen, item.payload)
        items.append(without(whole, *lacking) if number % 2 else whole)
    with Collection.open(tmp_path, space) as collection:
        collection.upsert(items)
        for target, item in product(("item", "any", "text", "shape"), items[:12]):
            for side, kind in (("text", "caption"), ("shape", "view")):
                if (target in SIDES and side != target) or kind in (lacking if int(item.id[1:]) % 2 else ()):
                    continue
                feature = np.stack([o.feature for o in item.observations if o.kind == kind]).mean(axis=0)
                vector = space.vectors(feature[None])[0]
                hits = find(collection, vector, target=target, side=side, own={side: vector}, limit=1)
                assert ids(hits) == [item.id], (target, side)


def test_equals_have_equal_scores_whatever_they_are_called(collection: Collection) -> None:
    items = coloured()
    twins = [Item(f"{name}{items[7].id}", items[7].observations) for name in ("a", "zebra ", "0/")]
    collection.upsert([*items, *twins])
    for target in ("item", "any", "shape", "text"):
        hits = find(collection, direction(items[7]), "in a direction", target=target, limit=104)
        alike = [hit for hit in hits if hit.id.endswith(items[7].id)]
        assert len(alike) == 4
        assert len({(round(hit.score, 5), round(hit.evidence[0].value, 5)) for hit in alike}) == 1


def test_pages_continue_one_another(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "RING", 8)
    items = coloured(points=0.7)
    collection.upsert(items)
    vector = direction(items[7])
    for target, text, pool in product(("item", "any", "shape"), ("a red desk", None), ("mean", "max")):
        how: dict[str, Any] = {"target": target, "pool": pool}
        whole = ids(find(collection, vector, text, limit=100, **how))
        pages = [find(collection, vector, text, limit=7, offset=start, **how) for start in range(0, 100, 7)]
        assert [hit.id for page in pages for hit in page] == whole
        assert sorted(whole) == [item.id for item in items]


def test_legs_that_weigh_nothing_give_no_candidates(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "RING", 8)
    items = coloured()
    collection.upsert([*items, Item("bare", without(items[7], "view").observations)])
    weights = np.isin(COLUMNS, ["shape"]).astype(np.float64)
    model = EvidenceModel({"text": SideModel(weights, wordless=weights)})
    hits = find(collection, direction(items[7]), "a red desk", model=model, limit=101)
    shapes = [hit.score for hit in hits if hit.id != "bare"]
    assert len(shapes) == 100
    assert shapes == sorted(shapes, reverse=True)  # no ring held an item that the shape ranks behind the next


def test_a_filter_holds_and_changes_no_scores(collection: Collection) -> None:
    items = coloured()
    collection.upsert(items)
    vector, where = direction(items[7]), parse_filter({"colour": "red"})
    some = find(collection, vector, "a red desk", where=where, limit=100)
    scores = {hit.id: hit.score for hit in find(collection, vector, "a red desk", limit=100)}
    assert {hit.id for hit in some} == {item.id for item in items if item.payload["colour"] == "red"}
    assert [hit.score for hit in some] == pytest.approx([scores[hit.id] for hit in some], abs=1e-4)


def test_a_phrase_that_nothing_has_gains_nothing(collection: Collection) -> None:
    items = coloured()
    collection.upsert(items)
    for text, colour, there in (
        ("desk in red", None, True),
        ('"desk in red"', None, True),
        ('"red in desk"', None, False),  # all words are there, but no caption has them so
        ('"desk in red" "a red sofa"', None, False),  # each is there, but nothing has both
        ('"desk in red"', "red", True),
        ('"desk in red"', "blue", False),  # among what a filter leaves
    ):
        where = None if colour is None else parse_filter({"colour": colour})
        gain = find(collection, direction(items[7]), text, where=where)[0].gain
        assert gain is not None
        assert np.isfinite(gain) == there, text


def test_one_leg_is_ranked_by_its_scores_and_few_among_many_by_all(collection: Collection) -> None:
    items, random = coloured(), np.random.default_rng(5)
    far = [caption(0, one, "noise") for one in random.standard_normal((300, FEATURE)).astype(np.float32)]
    collection.upsert([*items[:9], *(Item(f"t{n:03}", (one,)) for n, one in enumerate(far))])
    hits = find(collection, direction(items[3]), target="shape", limit=20)
    scores = [hit.score for hit in hits]
    assert sorted(ids(hits)) == [item.id for item in items[:9]]
    assert scores == sorted(scores, reverse=True)
    assert ids(find(collection, direction(items[3]), limit=1)) == ["n003"]


def test_a_shape_without_views_is_shown_by_its_points(collection: Collection) -> None:
    items = coloured(points=0.7)
    collection.upsert([*(without(one, "view") for one in items[:9]), *items[9:]])
    for target in ("shape", "item", "any"):
        hits = find(collection, direction(items[7]), target=target, limit=100)
        assert sorted(ids(hits)) == [item.id for item in items]
    found = next(hit for hit in hits if hit.id == items[7].id)
    assert (found.side, found.matched.kind) == ("shape", "points")


def test_an_empty_collection_has_no_hits(collection: Collection) -> None:
    assert find(collection, direction(coloured()[0]), "red") == []
