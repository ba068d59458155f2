"""The shape side ranked by all that is known of shapes: sums, filters, pages, words and fits."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection
from index.search import evidence
from index.search.evidence_model import (
    NAMES,
    SHAPE_LEGS,
    EvidenceModel,
    SideModel,
    prior_weights,
    standardise,
)
from index.search.search import SearchRequest
from index.store.filters import parse_filter
from multifold.types import (
    Feature,
    Hit,
    Item,
    Leg,
    LexicalQuery,
    Observation,
    Query,
    Target,
    Vector,
    pool_mean,
)
from tests.index.clusters import embedded
from tests.index.spaces import Sphere
from tests.index.stores import one_store
from tests.index.things import caption, view

LONG = 16  # numbers of a feature
SPACE = Sphere(LONG)
COUNT = 120
PRIOR = EvidenceModel().of_shapes("text")


@pytest.fixture
def collection(tmp_path: Path, database: str | None) -> Iterator[Collection]:
    with Collection.open(tmp_path / "things", SPACE, database=database) as opened:
        yield opened


def noisy(centre: Feature, amount: float, random: np.random.Generator) -> Feature:
    return (centre + amount * random.standard_normal(LONG)).astype(np.float32)


def things(count: int = COUNT, *, views: float = 1.2, points: float | None = 0.7) -> list[Item]:
    """Things whose two views and points lie this far from what their two captions say."""
    random = np.random.default_rng(0)
    items = []
    for number in range(count):
        centre = random.standard_normal(LONG).astype(np.float32)
        seen = [view(place, noisy(centre, views, random)) for place in range(2)]
        told = [caption(place, noisy(centre, 0.1, random), f"thing {number} {place}") for place in range(2)]
        form = [] if points is None else [Observation("points", 0, noisy(centre, points, random))]
        payload = {"half": "first" if number < count // 2 else "second"}
        items.append(Item(f"n{number:03}", (*told, *seen, *form), payload))
    return items


def direction(item: Item) -> Vector:
    return np.asarray(SPACE.vectors(item.observations[0].feature[None])[0], np.float32)


def ask(
    collection: Collection,
    vector: Vector,
    model: SideModel | None = PRIOR,
    where: dict[str, str] | None = None,
    target: Target = "shape",
    words: LexicalQuery | None = None,
    **options: int,
) -> list[Hit]:
    query = Query(vector, target, words=words, **options)  # type: ignore[arg-type]
    chosen = None if where is None else parse_filter(where)
    return collection.search_many([SearchRequest(query, chosen, shapes=model)])[0]


def plain_order(items: Sequence[Item], vector: Vector, shares: dict[str, float]) -> list[str]:
    """The order by the weighted standard scores of the mean of the views and of the points."""
    total = np.zeros(len(items))
    for kind, share in shares.items():
        features = [
            pool_mean(np.stack([o.feature for o in one.observations if o.kind == kind])) for one in items
        ]
        scores = (SPACE.vectors(np.stack(features)) @ vector).astype(np.float32)
        total += share * standardise(scores, np.ones(len(items), np.bool_))
    return [items[place].id for place in np.argsort(-total, kind="stable")]


def found_at_once(collection: Collection, items: Sequence[Item], model: SideModel | None) -> int:
    return sum(ask(collection, direction(item), model, limit=1)[0].id == item.id for item in items)


def test_a_shape_is_ranked_by_the_sum_of_its_legs(collection: Collection) -> None:
    items = things()
    collection.upsert(items)
    weights = dict(zip(NAMES, PRIOR.weights, strict=True))
    for item in items[:5]:
        hits = ask(collection, direction(item), limit=COUNT)
        shares = {"view": weights["shape"], "points": weights["points"]}
        assert [hit.id for hit in hits] == plain_order(items, direction(item), shares)
        assert {hit.side for hit in hits} == {"shape"}
        assert {hit.matched.kind for hit in hits} == {"view"}
        for hit in hits:
            assert hit.score == pytest.approx(sum(leg.value for leg in hit.evidence), abs=1e-4)
            assert {leg.leg for leg in hit.evidence} <= {"shape", "points"}
        chances = [hit.confidence for hit in hits]
        assert chances == sorted(chances, reverse=True)  # type: ignore[type-var]


def test_without_points_nothing_changes(collection: Collection) -> None:
    items = things(40, points=None)
    collection.upsert(items)
    hits = ask(collection, direction(items[3]), limit=COUNT)
    views = ask(collection, direction(items[3]), None, limit=COUNT)
    assert [(hit.id, hit.score) for hit in hits] == [(hit.id, hit.score) for hit in views]
    assert [hit.id for hit in hits] == plain_order(items, direction(items[3]), {"view": 1.0})
    assert {hit.evidence for hit in hits} == {()}
    assert {hit.confidence for hit in hits} == {None}
    collection.fit_evidence()
    stored = collection.evidence()
    assert stored is not None
    assert stored.shapes == {}


def test_who_does_not_ask_for_the_sum_gets_the_mean_of_the_views(collection: Collection) -> None:
    items = things()
    collection.upsert(items)
    hits = ask(collection, direction(items[3]), None, limit=COUNT)
    assert [hit.id for hit in hits] == plain_order(items, direction(items[3]), {"view": 1.0})


def test_a_filter_holds_and_changes_no_scores(collection: Collection) -> None:
    items = things()
    collection.upsert(items)
    vector = direction(items[7])
    scores = {hit.id: hit.score for hit in ask(collection, vector, limit=COUNT)}
    some = ask(collection, vector, where={"half": "second"}, limit=COUNT)
    assert [hit.id for hit in some] == [name for name in scores if int(name[1:]) >= COUNT // 2]
    assert [hit.score for hit in some] == pytest.approx([scores[hit.id] for hit in some], abs=1e-4)


@pytest.mark.parametrize("pool", ["mean", "max"])
def test_pages_continue_one_another(
    collection: Collection, pool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "RING", 8)
    items = things()
    collection.upsert(items)
    vector, options = direction(items[7]), {"pool": pool}
    whole = [hit.id for hit in ask(collection, vector, limit=COUNT, **options)]  # type: ignore[arg-type]
    pages = [ask(collection, vector, limit=7, offset=start, **options) for start in range(0, COUNT, 7)]  # type: ignore[arg-type]
    assert [hit.id for page in pages for hit in page] == whole
    assert sorted(whole) == [item.id for item in items]


def test_shapes_without_points_are_found_too(collection: Collection) -> None:
    items = things()
    bare = [
        Item(one.id, tuple(o for o in one.observations if o.kind != "points"), one.payload)
        for one in items[:60]
    ]
    texts_alone = [
        Item(f"t{one.id}", tuple(o for o in one.observations if o.kind == "caption")) for one in items
    ]
    collection.upsert([*bare, *items[60:], *texts_alone])
    hits = ask(collection, direction(items[7]), limit=3 * COUNT)
    assert sorted(hit.id for hit in hits) == [item.id for item in items]
    for hit in hits:
        assert {leg.leg for leg in hit.evidence} == (
            {"shape"} if int(hit.id[1:]) < 60 else {"shape", "points"}
        )


def test_few_shapes_among_many_other_things_are_ranked_as_well(collection: Collection) -> None:
    """Where hardly a stranger is a shape, the best shapes are what scores are compared with."""
    items = things(10)
    others = [
        Item(
            f"t{number:04}",
            (caption(0, noisy(np.zeros(LONG, np.float32), 1.0, np.random.default_rng(number))),),
        )
        for number in range(700)
    ]
    collection.upsert([*items, *others])
    weights = dict(zip(NAMES, PRIOR.weights, strict=True))
    shares = {"view": weights["shape"], "points": weights["points"]}
    for item in items:
        hits = ask(collection, direction(item), limit=20)
        assert [hit.id for hit in hits] == plain_order(items, direction(item), shares)


def test_words_name_shapes_beside_the_sum(collection: Collection) -> None:
    items = things()
    collection.upsert(items)
    last = ask(collection, direction(items[3]), limit=COUNT)[-1]
    words = LexicalQuery(f"thing {int(last.id[1:])} 0", weight=2.0)
    hits = ask(collection, direction(items[3]), words=words, limit=5)
    named = next(hit for hit in hits if hit.id == last.id)
    assert named.words
    assert named.score == pytest.approx(last.score, abs=1e-4)
    assert named.confidence == pytest.approx(last.confidence, abs=1e-3)
    only = ask(collection, direction(items[3]), words=LexicalQuery(words.text, only=True), limit=5)
    assert only[0].id == last.id
    assert only[0].score == pytest.approx(last.score, abs=1e-4)


def test_any_side_takes_the_shape_by_its_sum(collection: Collection) -> None:
    items = [
        Item(one.id, tuple(o for o in one.observations if o.kind != "caption"), one.payload)
        for one in things()
    ]
    collection.upsert(items)
    vector = direction(things()[7])
    shapes = ask(collection, vector, limit=20)
    either = ask(collection, vector, target="any", limit=20)
    assert [(hit.id, hit.score, hit.confidence) for hit in either] == [
        (hit.id, hit.score, hit.confidence) for hit in shapes
    ]


@one_store
def test_the_fit_weighs_points_by_what_they_know(collection: Collection) -> None:
    items = things(views=3.0, points=0.3)
    collection.upsert(items)
    model = collection.fit_evidence(lambda texts: np.zeros((len(texts), LONG), np.float32))
    fitted, unfitted = model.of_shapes("text"), PRIOR
    weights = dict(zip(NAMES, fitted.weights, strict=True))
    assert weights["points"] + weights["points long"] > 3 * (weights["shape"] + weights["shape long"])
    outside = [name for name, weight in weights.items() if weight and name.split()[0] not in SHAPE_LEGS]
    assert outside == []
    counts = [found_at_once(collection, items, one) for one in (fitted, unfitted, None)]
    assert counts[0] >= counts[1] >= counts[2] + 10
    stored = collection.evidence()
    assert stored is not None
    assert stored.to_json() == model.to_json()
    assert set(stored.shapes) == {"text", "image", "shape"}


@one_store
def test_the_confidence_of_shapes_is_about_right(collection: Collection) -> None:
    items = things()
    collection.upsert(items)
    model = collection.fit_evidence(lambda texts: np.zeros((len(texts), LONG), np.float32)).of_shapes("text")
    hits = [ask(collection, direction(item), model, limit=1)[0] for item in items]
    right = [hit.id == item.id for hit, item in zip(hits, items, strict=True)]
    assert np.mean([hit.confidence or 0.0 for hit in hits]) == pytest.approx(np.mean(right), abs=0.2)


def test_too_few_things_keep_the_prior(collection: Collection) -> None:
    collection.upsert(things(2))
    model = collection.fit_evidence()
    assert model.shapes == {}
    assert model.of_shapes("text").weights.tolist() == prior_weights("text", SHAPE_LEGS).tolist()


def test_the_module_is_not_imported_without_points() -> None:
    code = "import sys, app.main; sys.exit('index.search.shape_ranking' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_shape_without_views_is_shown_by_its_points(collection: Collection) -> None:
    items = things()
    bare = [
        Item(one.id, tuple(o for o in one.observations if o.kind != "view"), one.payload) for one in items[:9]
    ]
    collection.upsert([*bare, *items[9:]])
    vector = direction(items[7])
    for target in ("shape", "item", "any"):
        hits = ask(collection, vector, target=target, limit=COUNT)
        assert {hit.id for hit in hits} == {item.id for item in items}
    found = next(hit for hit in ask(collection, vector, limit=COUNT) if hit.id == items[7].id)
    assert (found.side, found.matched.kind) == ("shape", "points")


def test_a_cluster_ranks_shapes_alike(tmp_path: Path) -> None:
    items = things()
    found = []
    for cluster in (None, embedded().cluster):
        with Collection.open(tmp_path / str(cluster is None), SPACE, cluster=cluster) as opened:
            opened.upsert(items)
            hits = ask(opened, direction(items[7]), where={"half": "first"}, limit=30)
            found.append([(hit.id, round(hit.score, 3)) for hit in hits])
    assert found[0] == found[1]
    assert len(found[0]) == 30


def test_each_leg_may_be_asked_something_of_its_own(collection: Collection) -> None:
    """A mesh asks views with its views, and points with its points."""
    items = things()
    collection.upsert(items)
    asked = {"shape": items[3], "points": items[8]}
    kinds = {"shape": "view", "points": "points"}
    vectors: dict[Leg, Vector] = {}
    for leg, item in asked.items():
        features = [one.feature for one in item.observations if one.kind == kinds[leg]]
        vectors[leg] = SPACE.vectors(pool_mean(np.stack(features))[None])[0]  # type: ignore[index]
    query = Query(direction(items[20]), "shape", COUNT)
    hits = collection.search_many([SearchRequest(query, shapes=PRIOR, legs=vectors)])[0]
    for leg, item in asked.items():
        said = {hit.id: one.value for hit in hits for one in hit.evidence if one.leg == leg}
        assert max(said, key=said.__getitem__) == item.id
