"""Words find what they name, beside vectors or alone, and follow what becomes of the items."""

from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from index.collection import Collection
from multifold.types import Item
from tests.index.coloured import coloured, direction, find, ids
from tests.index.things import caption, feature, view

MANY = 40


@pytest.fixture
def parts(collection: Collection) -> Collection:
    collection.upsert([part(number, code=f"KX-{number}/7b") for number in range(MANY)])
    return collection


def part(number: int, **payload: object) -> Item:
    """The further its number, the further its view is from the direction (1, 0, …)."""
    seen = feature(np.cos(number / MANY), np.sin(number / MANY))
    return Item(f"shelf/part{number}", (view(0, seen), caption(0, seen, "a red chair")), payload)


def test_a_part_number_finds_its_item(parts: Collection) -> None:
    for target, text in product(("item", "any", "shape", "text"), ("is there a KX-31/7B?", "shelf/part31")):
        first = find(parts, feature(1), text, target=target)[0]
        assert first.id == "shelf/part31"
        assert first.words
        silent = find(parts, feature(1), text, target=target, words="off")
        assert all(hit.words == () for hit in silent)


def test_words_alone_find_what_they_name_and_no_more(parts: Collection) -> None:
    assert ids(find(parts, feature(1), "part17", words="only"))[0] == "shelf/part17"
    assert find(parts, feature(1), "sofa", words="only") == []
    assert len(find(parts, feature(1), "chair", words="only", limit=MANY)) == MANY
    assert find(parts, feature(1), "chair", words="only", target="image") == []


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(alphabet=st.characters(codec="utf-8") | st.sampled_from("\"'*:^()-+&|! NEAR")))
def test_no_text_is_a_command(parts: Collection, text: str) -> None:
    assert len(find(parts, feature(1), text, limit=MANY)) == MANY
    find(parts, feature(1), text, words="only")


def test_words_find_what_the_vector_does_not(parts: Collection) -> None:
    items = coloured()
    parts.upsert(items)
    hit = find(parts, direction(items[3]), "pink sofas")[0]
    assert hit.evidence[0].leg == "words"
    assert hit.evidence[0].matched is not None
    assert hit.evidence[0].matched.text == "a pink sofa"
    assert hit.words == ("pink", "sofas")
