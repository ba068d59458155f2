"""Evidence adds up, what an item lacks says nothing, pages go on, and what is asked with itself is first."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from index.collection import Collection
from index.legs.table import TARGET_LEGS
from index.plain_space import PlainSpace
from index.search import candidates
from index.store.filters import parse_filter
from multifold.types import SIDES, Distance, Item, Target
from tests.index.coloured import coloured, direction, find, ids, without
from tests.index.spaces import FEATURE, SPACE
from tests.index.things import caption


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with Collection.open(tmp_path / "things", SPACE) as opened:
        yield opened


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
            assert hit.presence is not None
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
    monkeypatch.setattr(candidates, "RING", 8)
    items = coloured(points=0.7)
    collection.upsert(items)
    vector = direction(items[7])
    for target, text, pool in product(("item", "any", "shape"), ("a red desk", None), ("mean", "max")):
        how: dict[str, Any] = {"target": target, "pool": pool}
        whole = ids(find(collection, vector, text, limit=100, **how))
        pages = [find(collection, vector, text, limit=7, offset=start, **how) for start in range(0, 100, 7)]
        assert [hit.id for page in pages for hit in page] == whole
        assert sorted(whole) == [item.id for item in items]


def test_a_filter_holds_and_changes_no_scores(collection: Collection) -> None:
    items = coloured()
    collection.upsert(items)
    vector, where = direction(items[7]), parse_filter({"colour": "red"})
    some = find(collection, vector, "a red desk", where=where, limit=100)
    scores = {hit.id: hit.score for hit in find(collection, vector, "a red desk", limit=100)}
    assert {hit.id for hit in some} == {item.id for item in items if item.payload["colour"] == "red"}
    assert [hit.score for hit in some] == pytest.approx([scores[hit.id] for hit in some], abs=1e-4)


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
