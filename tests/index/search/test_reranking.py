"""Candidates that are named get the evidence that a search gives, and things that are no items likewise."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection
from index.search.model import prior_model
from index.search.query import Query
from index.search.reranking import (
    SAMPLE_ITEMS,
    OutsideThing,
    RankedCandidate,
    RerankCandidate,
    comparable,
    rerank,
    with_things,
)
from index.store.browse import editions_of
from multifold.types import Item
from tests.index.coloured import coloured, direction, find, ids, without
from tests.index.spaces import SPACE

ITEMS = [without(item, "view") if n % 2 else item for n, item in enumerate(coloured())]


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with Collection.open(tmp_path, SPACE) as opened:
        opened.upsert(ITEMS)
        yield opened


def reranked(
    collection: Collection, query: Query, *candidates: str | OutsideThing
) -> tuple[Sequence[RerankCandidate], list[RankedCandidate]]:
    with collection.scoring() as (searcher, now):
        editions = editions_of(now, [one for one in candidates if isinstance(one, str)])
        named = [editions[one] if isinstance(one, str) else one for one in candidates]
        return named, rerank(searcher.asked(query, now), prior_model(query.side), named)


def mean_of(item: Item) -> np.ndarray:
    """The vector of all captions together."""
    said = np.stack([one.feature for one in item.observations if one.kind == "caption"])
    return np.asarray(SPACE.vectors(said.mean(axis=0)[None])[0], np.float32)


def test_all_items_get_what_a_search_says_of_them(collection: Collection) -> None:
    vector, text = direction(ITEMS[7]), "a red desk"
    hits = find(collection, vector, text, limit=100)
    _, found = reranked(collection, Query(vector, text=text), *(item.id for item in ITEMS))
    assert [ITEMS[one.place].id for one in found] == ids(hits)
    for one, hit in zip(found, hits, strict=True):
        assert one.evidence == pytest.approx(hit.score, abs=1e-4)
        assert one.legs == pytest.approx({leg.leg: leg.value for leg in hit.evidence}, abs=1e-4)
    chances = [one.confidence for one in found]
    assert chances == sorted(chances, reverse=True)


def test_the_fewer_rivals_the_surer_and_ties_stay_in_their_order(collection: Collection) -> None:
    query = Query(direction(ITEMS[7]), text="a red desk")
    _, (best, *_) = reranked(collection, query, "n007", "n012")
    _, (rivalled, *others) = reranked(collection, query, "n007", "n012", "n007", "n007")
    assert (best.place, rivalled.place) == (0, 0)
    assert [one.place for one in others] == [2, 3, 1]
    assert best.confidence > rivalled.confidence
    assert reranked(collection, query)[1] == []


def test_a_thing_is_scored_as_an_item_of_the_same_vector_is(collection: Collection) -> None:
    item, query = ITEMS[31], Query(direction(ITEMS[7]), "text")
    same = OutsideThing("text", mean_of(item))
    _, found = reranked(collection, query, item.id, same, OutsideThing("text", -mean_of(item)))
    legs = {one.place: one.legs for one in found}
    assert legs[0] == pytest.approx(legs[1], abs=1e-4)
    assert legs[2] != pytest.approx(legs[0], abs=0.1)


def test_things_of_a_side_that_the_collection_lacks_stand_for_its_background(collection: Collection) -> None:
    asked = direction(ITEMS[7])
    pictures = [OutsideThing("image", np.asarray(SPACE.vectors(one[None])[0])) for one in _fan(asked)]
    _, found = reranked(collection, Query(asked), *pictures)
    assert [one.place for one in found] == list(range(len(pictures)))
    assert all(set(one.legs) == {"image"} for one in found)
    assert found[0].evidence > 0 > found[-1].evidence


def _fan(vector: np.ndarray) -> list[np.ndarray]:
    """Vectors that lie further and further from one."""
    aside = np.roll(vector, 1) * np.array([1, -1] * (len(vector) // 2), np.float32)
    return [np.asarray(vector + n * aside, np.float32) for n in range(9)]


def test_candidates_are_compared_with_each_other_where_few_others_have_their_side() -> None:
    """Plain arrays: 20 rows, of which ten are the background and two are asked for."""
    background, rows = np.arange(20) < 10, np.array([15, 16])
    for having, both in ((SAMPLE_ITEMS, False), (SAMPLE_ITEMS - 1, True)):
        raw = np.full((20, 2), np.nan, np.float32)
        raw[:having], raw[rows] = 0.0, 0.0
        wanted = background | (both & np.isin(np.arange(20), rows))
        assert comparable({"image": raw}, background, rows).tolist() == wanted.tolist()
        raw[rows] = np.nan  # a side that no candidate has does not count
        assert comparable({"image": raw}, background, rows).tolist() == background.tolist()


def test_things_stand_behind_the_editions_with_numbers_of_their_own() -> None:
    raw, of_things = np.zeros((3, 2), np.float32), np.ones((2, 2), np.float32)
    editions, joined = with_things(np.array([4, 6, 9]), {"text": raw}, {"text": of_things})
    assert editions.tolist() == [4, 6, 9, 10, 11]
    assert joined["text"].tolist() == [[0, 0]] * 3 + [[1, 1]] * 2
