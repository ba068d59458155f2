"""Pages are read from the store together; what matched is named, and what has gone makes a page none."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection
from index.engine_set.engine_queries import engine_query
from index.legs.table import LEGS
from index.search.page import PageReader, match_texts
from index.search.query import Query
from index.search.ranking import Ranking
from index.store.browse import editions_of
from multifold.types import ASPECTS, Hit, Item, Leg, Observation, Presence, Side
from tests.index.coloured import find
from tests.index.spaces import SPACE
from tests.index.things import caption, feature, view

PRESENCE = Presence(3.0, well=True)


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with Collection.open(tmp_path, SPACE) as opened:
        opened.upsert(
            [
                Item(
                    "lamp",
                    (view(0, feature(1)), view(1, feature(0, 1)), caption(2, feature(1), "a lamp")),
                    {"n": 1},
                ),
                Item(
                    "sofa", (caption(1, feature(0, 1), "a red sofa"), caption(4, feature(1), "a blue sofa"))
                ),
                Item("form", (Observation("points", 0, feature(1)), caption(0, feature(1), "a form"))),
            ]
        )
        yield opened


def ranked(*items: tuple[int, Side, dict[str, float]]) -> Ranking:
    """Editions, with the side that each shows and what its legs say."""
    nothing = np.zeros(len(items))
    none = np.zeros(len(items), np.bool_)
    return Ranking(
        editions=np.array([edition for edition, _, _ in items], np.int64),
        evidence=nothing,
        score=np.full(len(items), 2.0),
        shown=np.array([ASPECTS.index(side) for _, side, _ in items], np.int64),
        ratios=np.array([[legs.get(leg, 0.0) for leg in LEGS] for _, _, legs in items]),
        learned=nothing,
        judged=none,
        stated=nothing,
        bare=none,
        same=none,
        alike=nothing,
        confidence=np.full(len(items), 0.5),
        presence=PRESENCE,
    )


def read(
    collection: Collection, *pages: list[tuple[str, Side, dict[str, float], dict[Leg, int | str]]]
) -> list[list[Hit] | None]:
    """What is read of pages that were ranked so; of items that are not there, editions that are not."""
    with collection.scoring() as (searcher, now):
        editions = editions_of(now, ["lamp", "sofa", "form"])
        queries = {leg: engine_query(SPACE, feature(0.2, 1)) for leg in ASPECTS}
        made = [
            replace(
                ranked(*((editions.get(name, 99), side, legs) for name, side, legs, _ in page)),
                queries=queries,
                words=[("blue",)] * len(page),
                texts=[texts for *_, texts in page],
            )
            for page in pages
        ]
        return PageReader(searcher.engines, searcher.cache, now).read([*made, None])


def test_the_observation_that_matches_best_is_named(collection: Collection) -> None:
    found = read(
        collection,
        [("lamp", "shape", {"shape": 1.0, "text": 0.5}, {})],
        [("sofa", "text", {"text": 1.0, "words": 2.0}, {"words": 1})],
        [("form", "shape", {"points": 1.0}, {}), ("sofa", "text", {"words": 2.0}, {"words": "name"})],
    )
    assert found[-1] is None
    (lamp,), (sofa,), (form, named) = (page or [] for page in found[:-1])
    assert (lamp.id, lamp.score, lamp.confidence, lamp.presence, lamp.payload) == (
        "lamp",
        2.0,
        0.5,
        PRESENCE,
        {"n": 1},
    )
    assert (lamp.matched.kind, lamp.matched.index, lamp.words) == ("view", 1, ("blue",))
    assert [(leg.leg, leg.matched and leg.matched.index) for leg in lamp.evidence] == [
        ("shape", 1),
        ("text", 2),
    ]
    assert sofa.matched.text == "a red sofa"
    assert [leg.matched and leg.matched.text for leg in sofa.evidence] == ["a blue sofa", "a red sofa"]
    assert (form.side, form.matched.kind) == ("shape", "points")  # it has no views
    assert [(leg.matched, leg.field) for leg in named.evidence] == [(None, "name")]


def test_a_page_with_an_item_that_is_there_no_more_is_none(collection: Collection) -> None:
    lamp: tuple[str, Side, dict[str, float], dict[Leg, int | str]] = ("lamp", "shape", {"shape": 1.0}, {})
    gone = ("gone", *lamp[1:])
    there, without, none = read(collection, [lamp], [lamp, gone])
    assert [hit.id for hit in there or []] == ["lamp"]
    assert without is none is None


def test_captions_are_known_by_their_place_though_their_numbers_have_gaps(collection: Collection) -> None:
    (hit,) = find(collection, feature(1), "blue", words="only")
    (evidence,) = hit.evidence
    assert evidence.matched is not None
    assert (evidence.matched.index, evidence.matched.text, hit.words) == (4, "a blue sofa", ("blue",))


def test_texts_are_matched_for_the_legs_that_heard_them(collection: Collection) -> None:
    with collection.scoring() as (searcher, now):
        editions = editions_of(now, ["sofa", "form"])
        page = ranked(
            (editions["sofa"], "text", {"words": 1.0}),
            (editions["form"], "text", {"words": 1.0}),
            (editions["sofa"], "text", {"text": 1.0}),
        )
        for text, wanted in (
            ("blue sofas", ([("blue", "sofas"), (), ()], [{"words": 1}, {}, {}])),
            ("form", ([(), ("form",), ()], [{}, {"words": "name"}, {}])),
            (None, ([()] * 3, [{}] * 3)),
        ):
            asked = searcher.asked(Query(feature(1), text=text), now)
            matched = match_texts(asked, page)
            assert (matched.words, matched.texts) == wanted
            assert matched.queries == asked.engine_queries
