"""Which legs give candidates, and what of a query no candidate has."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection
from index.legs.table import COLUMNS
from index.search import candidates
from index.search.model import EvidenceModel, SideModel
from index.store.filters import parse_filter
from multifold.bundle.text_reader import TextReader, open_text_reader
from multifold.types import Item, Vectors
from tests import reading
from tests.index.coloured import coloured, direction, find, ids, without
from tests.index.spaces import SPACE


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with Collection.open(tmp_path / "things", SPACE) as opened:
        yield opened


def test_a_reader_is_asked_where_words_are_unheard_or_may_mean_others(
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
        for text, asked in (
            ("the red chair", False),
            ("chair", True),  # what is called something else may be one
            ("n055", False),  # a number is no kind of things
            ("the crimson chair", True),
        ):
            hits = find(collection, direction(items[55]), text)
            said = {share.leg for hit in hits for share in hit.evidence}
            assert (text in read, "reader" in said) == (asked, asked)
        assert "n000" in ids(hits)  # the red chair


def test_legs_that_weigh_nothing_give_no_candidates(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "RING", 8)
    items = coloured()
    collection.upsert([*items, Item("bare", without(items[7], "view").observations)])
    weights = np.isin(COLUMNS, ["shape"]).astype(np.float64)
    model = EvidenceModel({"text": SideModel(weights, wordless=weights)})
    hits = find(collection, direction(items[7]), "a red desk", model=model, limit=101)
    shapes = [hit.score for hit in hits if hit.id != "bare"]
    assert len(shapes) == 100
    assert shapes == sorted(shapes, reverse=True)  # no ring held an item that the shape ranks behind the next


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
        presence = find(collection, direction(items[7]), text, where=where)[0].presence
        assert presence is not None
        assert np.isfinite(presence.gain) == there, text
        assert there or not presence.well, text


def test_items_with_texts_and_with_words_are_counted(tmp_path: Path) -> None:
    reader = open_text_reader(reading.write_table_reader(tmp_path / "reader"))
    items = coloured()[:8]
    codes = [f"0{number}" for number in range(8)]  # names that say nothing
    bare = [without(one, "caption").observations for one in items]
    nameless = [Item(code, seen) for code, seen in zip(codes, bare, strict=True)]
    with Collection.open(tmp_path / "things", SPACE, reader=reader) as collection:
        for some, texts in ((items, 8), (nameless, 8)):
            collection.upsert(some)
            presence = find(collection, direction(items[7]), "a red chair, or a zebra")[0].presence
            assert presence is not None
            assert presence.counts is not None
            assert presence.counts.items == texts
            assert dict(presence.counts.having) == {"red": 8, "chair": 1, "zebra": 0}
        (hit, *_) = find(collection, direction(items[7]), None)
        assert hit.presence is None or hit.presence.counts is None


def test_the_chance_of_the_first_items_is_that_of_any_of_them(collection: Collection) -> None:
    items = coloured()
    collection.upsert(items)
    hits = find(collection, direction(items[7]), "a red thing", limit=40)
    presence, sure = hits[0].presence, [hit.confidence or 0.0 for hit in hits[:30]]
    assert presence is not None
    assert presence.chance == pytest.approx(1 - np.prod(1 - np.array(sure)))
    assert (presence.chance or 0.0) > sure[0]
