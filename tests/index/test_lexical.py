"""Items are found by words, on every database alike, and the words follow what becomes of the items."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from index.collection import Collection
from index.maintenance.restore import restore_snapshot
from index.search.side_rankings import FUSED_DEPTH, fuse_rankings
from index.store.filters import parse_filter
from multifold.types import Hit, Item, LexicalQuery, Pooling, Target
from tests.index.spaces import FEATURE, Sphere
from tests.index.things import answers, brute, caption, feature, query, view

SPACE = Sphere(FEATURE)
MANY = 40


@pytest.fixture
def collection(tmp_path: Path, database: str | None) -> Iterator[Collection]:
    with Collection.open(tmp_path / "things", SPACE, database=database) as opened:
        yield opened


def part(number: int, **payload: object) -> Item:
    """The further its number, the further its view is from the direction (1, 0, …)."""
    angle = number / MANY
    seen = feature(np.cos(angle), np.sin(angle))
    return Item(f"shelf/part{number}", (view(0, seen), caption(0, seen, "a red chair")), payload)


def fill(collection: Collection) -> None:
    collection.upsert([part(number, code=f"KX-{number}/7b") for number in range(MANY)])


def found(collection: Collection, text: str, *, only: bool = False, **changes: object) -> list[Hit]:
    return collection.search(query(feature(1), words=LexicalQuery(text, only=only), **changes))


@pytest.mark.parametrize("pool", ["mean", "max"])
@pytest.mark.parametrize("target", ["shape", "any"])
def test_a_part_number_finds_its_item(collection: Collection, pool: Pooling, target: Target) -> None:
    fill(collection)
    first = found(collection, "is there a KX-31/7B?", pool=pool, target=target)[0]
    assert (first.id, first.words) == ("shelf/part31", ("KX-31/7B",))
    ranked = collection.search(query(feature(1), limit=MANY, pool=pool, target=target))
    assert first.score == next(hit.score for hit in ranked if hit.id == first.id)
    assert all(hit.words == () for hit in ranked)


def test_words_that_many_items_have_are_left_to_the_vector(collection: Collection) -> None:
    fill(collection)
    asked = query(feature(0.3, 1), limit=MANY)
    assert answers(found(collection, "a red chair", limit=MANY)) == answers(
        collection.search(query(feature(1), limit=MANY))
    )
    assert collection.search(asked)[0].words == ()


def test_words_name_an_item_that_has_them_all(collection: Collection) -> None:
    fill(collection)
    collection.upsert([part(3, name="Arrow Bundle", code="QQ-1"), part(4, name="Arrow", code="QQ-2")])
    for text, name in (("arrow bundle", "part3"), ("any QQ-2?", "part4"), ("shelf/part17", "part17")):
        first = found(collection, text)[0]
        assert (first.id, bool(first.words)) == (f"shelf/{name}", True)
    for text in ("arrow bundles", "QQ-2 or QQ-1", "the arrow bundle", "KX-31/7b or KX-32/9"):
        assert not any(hit.words for hit in found(collection, text, limit=MANY))


def test_words_of_several_texts_name_nothing(collection: Collection) -> None:
    fill(collection)
    seen = (
        caption(0, feature(0, 1), "a brown chair"),
        caption(1, feature(0, 1), "red cushions, four black legs"),
    )
    collection.upsert(
        [Item("brown", (view(0, feature(0, 1)), *seen), {"for": "a sitting room with a table"})]
    )
    for text in ("a red chair with four black legs", "brown legs", "black red four"):
        assert not any(hit.words for hit in found(collection, text, limit=MANY))
    for text in ("a brown chair", "four black legs", "sitting room"):
        assert found(collection, text)[0].id == "brown"


def test_the_words_of_a_name_may_come_in_any_order(collection: Collection) -> None:
    fill(collection)
    collection.upsert([part(3, name="table_A_large"), part(4, name="stool_A_large")])
    for text in ("large table", "large A table", "table large"):
        assert [hit.id for hit in found(collection, text, limit=MANY) if hit.words] == ["shelf/part3"]
    assert not any(hit.words for hit in found(collection, "large round table", limit=MANY))
    collection.upsert([part(5, name="Large Table")])
    named = [hit.id for hit in found(collection, "large table", limit=MANY) if hit.words]
    assert named == ["shelf/part5"]


def test_what_is_called_so_comes_before_what_is_called_so_besides(collection: Collection) -> None:
    collection.upsert([part(number, name=f"crate {'abcdefghijkl'[number]}") for number in range(12)])
    assert not any(hit.words for hit in found(collection, "crate"))
    collection.upsert([part(number, name="Crate") for number in (9, 10)])
    named = [hit.id for hit in found(collection, "crate", limit=MANY) if hit.words]
    assert named == ["shelf/part9", "shelf/part10"]
    collection.delete([f"shelf/part{number}" for number in range(7)])
    asked = query(feature(1), words=LexicalQuery("crate", weight=9.0))
    named = [hit.id for hit in collection.search(asked) if hit.words]
    assert named == ["shelf/part9", "shelf/part10", "shelf/part7", "shelf/part8", "shelf/part11"]


def test_of_equals_by_words_the_vector_chooses(collection: Collection) -> None:
    fill(collection)
    collection.upsert([part(number, code="QQ-1") for number in (9, 30, 20)])
    named = [hit.id for hit in found(collection, "QQ-1", limit=MANY) if hit.words]
    assert named == ["shelf/part9", "shelf/part20", "shelf/part30"]


def test_words_alone_find_what_they_name_and_no_more(collection: Collection) -> None:
    fill(collection)
    assert found(collection, "part17", only=True)[0].id == "shelf/part17"
    assert found(collection, "sofa", only=True) == []
    assert len(found(collection, "chair", only=True, limit=MANY)) == MANY
    assert found(collection, "chair", only=True, target="image") == []


def test_words_follow_changes_and_filters(collection: Collection) -> None:
    fill(collection)
    collection.upsert([part(3, code="QQ")])
    collection.upsert([part(3, code="ZZ")])
    assert found(collection, "ZZ", only=True)[0].id == "shelf/part3"
    assert found(collection, "QQ", only=True) == []
    collection.delete(["shelf/part3"])
    assert found(collection, "ZZ", only=True) == []
    where = parse_filter({"code": "KX-5/7b"})
    asked = query(feature(1), words=LexicalQuery("part5"))
    assert [hit.id for hit in collection.search(asked, where)] == ["shelf/part5"]


def test_pages_of_an_answer_fit_together(collection: Collection) -> None:
    fill(collection)
    whole = answers(found(collection, "KX-31/7b and more", limit=MANY))
    pages = [found(collection, "KX-31/7b and more", limit=7, offset=start) for start in range(0, MANY, 7)]
    assert [one for page in pages for one in answers(page)] == whole
    assert len({one[0] for one in whole}) == MANY


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(alphabet=st.characters(codec="utf-8") | st.sampled_from("\"'*:^()-+&|! NEAR")))
def test_no_text_is_a_command(collection: Collection, text: str) -> None:
    if collection.count() == 0:
        fill(collection)
    assert len(found(collection, text, limit=MANY)) == MANY
    found(collection, text, only=True)


def test_whatever_is_stored_is_found(collection: Collection) -> None:
    names = ("mötley Crüe", "椅子", "a'b\"c", "x^2", "NEAR(a)", "हिन्दी")
    collection.upsert([Item(name, (view(0, feature(1)),), {}) for name in names])
    for name in names:
        assert found(collection, name, only=True)[0].id == name


def test_words_are_there_when_a_collection_is_opened_again(tmp_path: Path, database: str | None) -> None:
    with Collection.open(tmp_path, SPACE, database=database) as collection:
        fill(collection)
    for read_only in (True, False):
        with Collection.open(tmp_path, SPACE, database=database, read_only=read_only) as collection:
            assert found(collection, "part17", only=True)[0].id == "shelf/part17"


def test_a_snapshot_brings_its_words(collection: Collection, tmp_path: Path) -> None:
    fill(collection)
    collection.snapshot(tmp_path / "all.tar")
    restore_snapshot(tmp_path / "all.tar", tmp_path / "copy")
    with Collection.open(tmp_path / "copy", SPACE) as copy:
        assert found(copy, "part17", only=True)[0].id == "shelf/part17"


def hit(name: str) -> Hit:
    return Hit(name, 0.5, "shape", view(0, feature(1)), {})


def test_ranks_are_fused() -> None:
    near = [hit(f"n{rank}") for rank in range(FUSED_DEPTH + 5)]
    assert fuse_rankings(near, [], 1.0) == near
    deep = f"n{FUSED_DEPTH + 2}"
    both = fuse_rankings(near, [hit("n3"), hit("new"), hit(deep)], 1.0)
    assert [one.id for one in both[:4]] == ["n3", "n0", "new", "n1"]
    assert len(both) == len(near) + 1
    assert [one.id for one in fuse_rankings(near, [hit("n3")], 0.0)] == [one.id for one in near]
    assert fuse_rankings(near, [hit("new")], 1.0)[0].id == "new"


def test_the_vector_alone_is_as_it_was(collection: Collection) -> None:
    fill(collection)
    asked = query(feature(1, 0.2), limit=5, offset=2)
    items = [part(number, code=f"KX-{number}/7b") for number in range(MANY)]
    assert answers(collection.search(asked)) == brute(items, SPACE, asked)
