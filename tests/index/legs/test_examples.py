"""Examples order a search anew, diversity spreads look-alikes; pages go on, hits keep their confidence."""

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index.collection import Collection
from index.search import candidates
from index.search.query import Query
from index.store.filters import parse_filter
from multifold.errors import MultifoldError
from multifold.types import Examples, Hit, Item, Vector
from tests.index.coloured import ids
from tests.index.spaces import FEATURE, SPACE, SPACES, Space
from tests.index.things import caption, view

GROUPS = 8
RANDOM = np.random.default_rng(0)
CENTRES = RANDOM.standard_normal((GROUPS, FEATURE))
QUERY: Vector = (CENTRES[0] + 0.9 * CENTRES[1] + 0.8 * CENTRES[2]).astype(np.float32)


def items(each: int = 12) -> list[Item]:
    """Groups of look-alikes; the last group has captions only."""
    random = np.random.default_rng(1)
    made: list[Item] = []
    for group, centre in enumerate(CENTRES):
        for number in range(each):
            seen = (centre + 0.4 * random.standard_normal(FEATURE)).astype(np.float32)
            one = caption(0, seen, f"thing {group}") if group == GROUPS - 1 else view(0, seen)
            made.append(Item(f"g{group}-{number:02}", (one,), {"group": group}))
    return made


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with Collection.open(tmp_path / "things", SPACE) as opened:
        opened.upsert(items())
        yield opened


@pytest.fixture
def vector() -> Vector:
    return np.asarray(SPACE.vectors(QUERY[None])[0], np.float32)


def find(collection: Collection, vector: Vector, limit: int = 96, offset: int = 0, **how: Any) -> list[Hit]:  # noqa: ANN401
    return collection.search(Query(vector, limit=limit, offset=offset, **how))


def told(hits: Sequence[Hit]) -> list[tuple[str, float, float | None]]:
    """What is said of each hit."""
    return [(hit.id, hit.score, hit.confidence) for hit in hits]


def mean_place(hits: Sequence[Hit], group: int, but: Sequence[str] = ()) -> float:
    """Where the items of a group stand on average."""
    left = [hit.id for hit in hits if hit.id not in but]
    return float(np.mean([place for place, name in enumerate(left) if name.startswith(f"g{group}")]))


def mean_gap(hits: Sequence[Hit]) -> float:
    """How far each is from the one above that is nearest, on average."""
    seen = np.stack([hit.matched.feature for hit in hits])
    return float(np.mean([np.linalg.norm(seen[:n] - seen[n], axis=1).min() for n in range(1, len(seen))]))


@pytest.mark.parametrize("space", SPACES, ids=lambda one: one.vector_id)
def test_what_is_like_a_good_hit_rises_and_what_is_like_a_bad_one_falls(tmp_path: Path, space: Space) -> None:
    vector, collection = space.vectors(QUERY[None])[0], Collection.open(tmp_path, space)
    collection.upsert(items())
    before = find(collection, vector)
    good = find(collection, vector, examples=Examples(good=["g3-00"]))
    assert mean_place(good, 3, ["g3-00"]) < mean_place(before, 3, ["g3-00"]) - 5
    assert good[0].id == "g3-00"
    bad = find(collection, vector, examples=Examples(bad=["g0-00"]))
    assert mean_place(bad, 0, ["g0-00"]) > mean_place(before, 0, ["g0-00"]) + 1
    assert bad[-1].id == "g0-00"
    assert (bad[-1].confidence or 0.0) < 2e-3
    assert sorted(ids(good)) == sorted(ids(bad)) == sorted(ids(before))
    both = find(collection, vector, examples=Examples(["g3-00", "g3-01"], ["g0-00", "g0-01"]))
    assert {hit.id for hit in both[:2]} == {"g3-00", "g3-01"}
    assert {hit.id for hit in both[-2:]} == {"g0-00", "g0-01"}
    assert mean_place(both, 0, ["g0-00", "g0-01"]) > mean_place(good, 0, ["g0-00", "g0-01"])
    collection.close()


def test_the_evidence_of_examples_is_a_leg_of_its_own(collection: Collection, vector: Vector) -> None:
    plain = {hit.id: hit for hit in find(collection, vector)}
    hits = find(collection, vector, examples=Examples(["g3-00"], ["g0-00"]))
    for hit in hits:
        legs = {leg.leg: leg.value for leg in hit.evidence}
        assert hit.score == pytest.approx(sum(legs.values()), abs=1e-4)
        assert hit.score - legs["examples"] == pytest.approx(plain[hit.id].score, abs=1e-4)
    chances = [hit.confidence for hit in hits]
    assert chances == sorted(chances, reverse=True)  # type: ignore[type-var]
    learned = [next(leg.value for leg in hit.evidence if leg.leg == "examples") for hit in hits[1:-1]]
    assert np.exp(learned).mean() < 2  # the background gains nothing on average


def test_a_marked_hit_takes_no_confidence_from_the_others(collection: Collection, vector: Vector) -> None:
    hits = find(collection, vector, examples=Examples(good=["g1-00"]))
    like_it = [hit for hit in hits if hit.id.startswith("g1") and hit.id != "g1-00"]
    plain = {hit.id: hit.confidence or 0.0 for hit in find(collection, vector)}
    assert np.mean([hit.confidence or 0.0 for hit in like_it]) > np.mean([plain[hit.id] for hit in like_it])


def test_an_example_of_another_side_speaks_by_the_one_it_has(collection: Collection, vector: Vector) -> None:
    good = f"g{GROUPS - 1}-00"  # it has a caption only
    seen = CENTRES[GROUPS - 1].astype(np.float32)
    collection.upsert([Item("pictured", (view(0, seen),))])
    after = find(collection, vector, limit=97, examples=Examples([good]))
    place = ids(find(collection, vector, limit=97)).index("pictured")
    assert ids(after).index("pictured") < place


def test_those_that_are_not_there_say_nothing(collection: Collection, vector: Vector) -> None:
    unknown = Examples(["nobody", "no\x00name"], ["none"])
    assert told(find(collection, vector, examples=unknown)) == told(find(collection, vector))
    collection.delete(["g3-00"])
    assert "g3-00" not in ids(find(collection, vector, examples=Examples(["g3-00"])))


def test_a_filter_holds_for_examples_too(collection: Collection, vector: Vector) -> None:
    where = parse_filter({"group": 2})
    hits = find(collection, vector, where=where, examples=Examples(["g3-00", "g2-05"], ["g2-00"]))
    assert {hit.id[:2] for hit in hits} == {"g2"}
    assert (hits[0].id, hits[-1].id) == ("g2-05", "g2-00")


def test_pages_continue_one_another(
    collection: Collection, vector: Vector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "RING", 20)
    monkeypatch.setattr("index.search.search.MOVED", 20)
    for diversity, examples in product((0.0, 0.5, 1.0), (Examples(), Examples(["g3-00"], ["g0-00"]))):
        how: dict[str, Any] = {"diversity": diversity, "examples": examples}
        whole = find(collection, vector, **how)
        pages = [find(collection, vector, 7, start, **how) for start in range(0, 96, 7)]
        assert [hit.id for page in pages for hit in page] == ids(whole)
        assert sorted(ids(whole)) == sorted(item.id for item in items())


def test_look_alikes_give_way_and_hits_keep_their_confidence(collection: Collection, vector: Vector) -> None:
    plain = find(collection, vector)
    diverse = find(collection, vector, diversity=0.6)
    assert diverse[0].id == plain[0].id
    assert mean_gap(diverse[:8]) > mean_gap(plain[:8])
    assert sorted(told(diverse)) == sorted(told(plain))
    assert told(find(collection, vector, diversity=0.0)) == told(plain)


def test_the_same_thing_twice_is_seen_once_at_first(collection: Collection, vector: Vector) -> None:
    first = find(collection, vector, limit=1)[0]
    item = collection.get(first.id)
    assert item is not None
    collection.upsert([Item("twin", item.observations)])
    assert {hit.id for hit in find(collection, vector, limit=2)} == {first.id, "twin"}
    spread = ids(find(collection, vector, limit=3, diversity=0.9))
    assert not {first.id, "twin"} <= set(spread)


def test_bad_examples_stay_last_however_diverse(collection: Collection, vector: Vector) -> None:
    hits = find(collection, vector, diversity=1.0, examples=Examples(bad=["g0-00", "g1-00"]))
    assert {hit.id for hit in hits[-2:]} == {"g0-00", "g1-00"}


def test_an_empty_collection_and_a_single_item(tmp_path: Path, vector: Vector) -> None:
    with Collection.open(tmp_path / "few", SPACE) as few:
        how: dict[str, Any] = {"diversity": 0.5, "examples": Examples(["g0-00"])}
        assert find(few, vector, **how) == []
        few.upsert(items()[:1])
        assert ids(find(few, vector, **how)) == ["g0-00"]


def test_a_single_id_is_no_list() -> None:
    with pytest.raises(MultifoldError, match=r"\['chair-7'\]"):
        Examples(good="chair-7")
