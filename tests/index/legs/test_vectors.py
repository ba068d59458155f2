"""A leg of vectors: candidates, scores by plain arithmetic, what an item lacks, and what is the same."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index.collection import Collection
from index.legs.contracts import SearchLeg, Thing
from index.legs.table import make_legs
from index.legs.vectors import SAME, SCORE, VectorLeg
from index.search.candidates import legs_of
from index.search.query import Query
from index.search.scores import score_editions, weigh
from index.store.browse import editions_of
from multifold.types import SIDE_OF, Aspect, Item, Mix, Vector, pool_mean
from tests.index.coloured import coloured, without
from tests.index.spaces import FEATURE, SPACES, Space
from tests.index.things import score

ITEMS = [without(item, "view") if n % 3 == 0 else item for n, item in enumerate(coloured()[:30])]
RANDOM = np.random.default_rng(9)


@pytest.fixture(params=SPACES, ids=lambda one: one.vector_id)
def space(request: pytest.FixtureRequest) -> Space:
    made: Space = request.param
    return made


@pytest.fixture
def collection(tmp_path: Path, space: Space) -> Iterator[Collection]:
    with Collection.open(tmp_path, space) as opened:
        opened.upsert(ITEMS)
        yield opened


@contextmanager
def leg(
    collection: Collection,
    name: Aspect,
    vector: Vector | Mix,
    **how: Any,  # noqa: ANN401
) -> Iterator[tuple[VectorLeg, np.ndarray]]:
    """A leg that is asked, and the editions of the items in their order, which rise."""
    with collection.scoring() as (searcher, now):
        editions = editions_of(now, [item.id for item in ITEMS])
        found = VectorLeg(name, searcher.asked(Query(vector, **how), now))
        yield found, np.array([editions[item.id] for item in ITEMS])


def vectors_of(space: Space, item: Item, side: Aspect) -> np.ndarray:
    """Those of one side of an item, and that of their mean."""
    seen = np.stack([one.feature for one in item.observations if SIDE_OF[one.kind] == side])
    return np.concatenate([space.vectors(pool_mean(seen)[None]), space.vectors(seen)])


def query_of(space: Space) -> Vector:
    return np.asarray(space.vectors(RANDOM.standard_normal((1, FEATURE)).astype(np.float32))[0])


def lacks(item: Item) -> bool:
    return all(one.kind != "view" for one in item.observations)


@pytest.mark.parametrize("pool", ["mean", "max"])
def test_scores_are_plain_similarities_and_missing_where_an_item_lacks_the_leg(
    collection: Collection, space: Space, pool: str
) -> None:
    first, second = query_of(space), query_of(space)
    for vector, parts in (
        (first, [(first, 1.0)]),
        (Mix(((first, 1.0), (second, -0.5))), [(first, 1.0), (second, -0.5)]),
    ):
        with leg(collection, "shape", vector, pool=pool) as (found, editions):
            assert isinstance(found, SearchLeg)
            raw = found.scores(editions)
            best = found.candidates(8, None)
        for item, own in zip(ITEMS, raw, strict=True):
            if lacks(item):
                assert np.isnan(own[SCORE])
            else:
                pooled, *each = (score(space, parts, one) for one in vectors_of(space, item, "shape"))
                assert own[SCORE] == pytest.approx(pooled if pool == "mean" else max(each), abs=1e-5)
        assert not raw[:, SAME].any()
        ranked = editions[np.argsort(-np.nan_to_num(raw[:, SCORE], nan=-np.inf))]
        assert best.tolist() == ranked[:8].tolist()


def test_like_is_compared_with_like_by_the_cosine(collection: Collection, space: Space) -> None:
    vector = query_of(space)
    with leg(collection, "shape", vector, own={"shape": vector}) as (found, editions):
        raw = found.scores(editions)
        things = [Thing({"shape": vectors_of(space, item, "shape")[0]}) for item in ITEMS if not lacks(item)]
        outside = found.scores_of(things)
    pooled = np.stack([one.vectors["shape"] for one in things])
    wanted = pooled @ vector / np.linalg.norm(pooled, axis=1) / np.linalg.norm(vector)
    known = ~np.array([lacks(item) for item in ITEMS])
    assert raw[known, SCORE] == pytest.approx(wanted, abs=1e-5)
    assert outside[:, SCORE] == pytest.approx(wanted, abs=1e-5)
    assert np.isnan(raw[~known, SCORE]).all()


def test_what_has_the_very_thing_that_asks_is_known_as_the_same(collection: Collection, space: Space) -> None:
    """By one of its observations, or by all of them together; a text finds its caption by words."""
    for place in (7, 10, 14):
        for vector in vectors_of(space, ITEMS[place], "shape"):
            with leg(collection, "shape", vector, own={"shape": vector}) as (found, editions):
                assert found.scores(editions)[:, SAME].nonzero()[0].tolist() == [place]
                assert editions[place] in found.candidates(1, None)
                things = [Thing({"shape": vector}), Thing({"shape": -vector}), Thing({"text": vector})]
                assert found.scores_of(things)[:, SAME].tolist() == pytest.approx([1, 0, np.nan], nan_ok=True)
            with leg(collection, "shape", vector) as (found, editions):  # across sides nothing is the same
                assert not found.scores(editions)[:, SAME].any()


def test_a_thing_scores_as_an_item_of_the_same_vectors_does(collection: Collection, space: Space) -> None:
    vector = query_of(space)
    with leg(collection, "text", Mix(((vector, 1.0), (query_of(space), 0.5)))) as (found, editions):
        raw = found.scores(editions)
        things = [Thing({"text": vectors_of(space, item, "text")[0]}) for item in ITEMS]
        assert found.scores_of([*things, Thing()])[:, SCORE] == pytest.approx(
            [*raw[:, SCORE], np.nan], abs=1e-5, nan_ok=True
        )
        assert found.scores_of([]).shape == (0, 2)


def test_columns_are_standard_and_a_missing_leg_says_nothing(collection: Collection, space: Space) -> None:
    with leg(collection, "shape", query_of(space), text="a red chair") as (found, editions):
        raw = found.scores(editions)
        columns = found.columns(raw, np.ones(len(editions), np.bool_))
        legs = make_legs(found.asked, ["shape", "words", "reader"])
    assert [one.name for one in legs] == ["shape", "words"]  # there is no reader
    assert columns.shape == (len(ITEMS), 4)
    assert not columns[:, 3].any()  # no bundle says that it sees
    assert not columns[np.isnan(raw[:, SCORE])].any()
    known = columns[~np.isnan(raw[:, SCORE])]
    assert np.median(known[:, 0]) == pytest.approx(0, abs=1e-5)
    assert known[:, 1] == pytest.approx(known[:, 0] * 3 / 12)  # three words of a sentence


def test_what_an_encoder_sees_is_worth_so_many_nats(
    collection: Collection, space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(space), "sees", {"shape": 0.5, "image": 3.0})
    with leg(collection, "shape", query_of(space), text="a red chair") as (found, editions):
        columns = found.columns(found.scores(editions), np.ones(len(editions), np.bool_))
    assert np.abs(columns[:, 3]).max() > 0.1
    assert columns[:, 3] == pytest.approx(columns[:, 0] * 0.5)


def test_pictures_count_alone_where_an_item_has_no_text(collection: Collection, space: Space) -> None:
    collection.upsert([without(item, "caption") for item in ITEMS[1::3]])
    with collection.scoring() as (searcher, now):
        editions = np.sort(np.array([*editions_of(now, [item.id for item in ITEMS]).values()]))
        asked = searcher.asked(Query(query_of(space), text="a red chair"), now)
        scores = score_editions(asked, editions, legs_of(asked))
        lacking = np.isnan(scores.raw["text"][:, SCORE])
        given = weigh(asked, scores.editions, scores.raw, scores.background, legs_of(asked), ~lacking)
    assert 0 < lacking.sum() < len(lacking)
    assert np.array_equal(scores.bare, lacking)
    assert np.array_equal(given.bare, ~lacking)
