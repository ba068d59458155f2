"""What texts say of measured facts and payloads."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.collections.vocabulary import PayloadVocabulary
from app.search.phrases import words
from app.search.reading import Reading, may_have_conditions, read_text
from index.store.filters import parse_filter
from index.store.keys import KeyValues

WORDS = words(
    "under over between and a 80 1.5 2020 cm m in wide high from by kenney CC0 not animated with textures "
    "triangles seats price € k about max ."
)
SENTENCES = Path(__file__).with_name("understood.tsv")
NUMBERS = KeyValues(numbers=True, truths=False, texts=None)
TRUTHS = KeyValues(numbers=False, truths=True, texts=None)
TEXTS = KeyValues(numbers=False, truths=False, texts=("Ann", "Zoe"))
DATES = KeyValues(numbers=False, truths=False, texts=("2017-05-01", "2024-11-30"))
MEASURES = ("width", "height", "depth", "triangles", "materials", "textures", "bytes")
VALUES = {
    "creator": ["Kenney", "KayKit", "Quaternius"],
    "kit": ["Castle Kit", "Space Kit", "Furniture Kit"],
    "licence": ["CC0", "MIT"],
    "colour": ["red", "black", "white", "blue"],
    "material": ["oak", "wood", "steel"],
    "tags": ["TV", "chair"],
}
KEYS = {
    **{f"measured.{name}": NUMBERS for name in MEASURES},
    **dict.fromkeys(("size", "price", "seats", "drawers"), NUMBERS),
    **dict.fromkeys(("measured.animated", "rigged", "new"), TRUTHS),
    **dict.fromkeys(VALUES, TEXTS),
    "created": DATES,
}
IN_CAPTIONS = {"wood", "oak", "red", "blue", "snow", "steel", "new"}


def texts_of(keys: Sequence[str]) -> dict[str, list[str]]:
    return {key: texts for key, texts in VALUES.items() if key in keys}


WORLD = PayloadVocabulary(KEYS, texts_of)


def read(text: str, vocabulary: PayloadVocabulary = WORLD, as_text: Sequence[str] = ()) -> Reading:
    return read_text(text, vocabulary, IN_CAPTIONS.__contains__, as_text)


def filters(text: str) -> list[dict[str, Any]]:
    return [one.filter for one in read(text).conditions]


def sentences(of: str) -> list[tuple[str, list[dict[str, Any]]]]:
    """Texts of a set, and the filters that people mean by them."""
    with open(SENTENCES, encoding="utf-8", newline="") as table:
        rows = csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [(row["text"], json.loads(row["filters"])) for row in rows if row["set"] == of]


@pytest.mark.parametrize(("of", "count"), [("first", 150), ("second", 60)])
def test_conditions_of_sentences_are_found_and_none_is_invented(of: str, count: int) -> None:
    asked = sentences(of)
    assert len(asked) == count
    found = [(text, one) for text, wanted in asked for one in wanted if one in filters(text)]
    invented = [(text, one) for text, wanted in asked for one in filters(text) if one not in wanted]
    assert len(found) >= 0.95 * sum(len(wanted) for _, wanted in asked)
    assert len(invented) <= 0.01 * count


def test_words_of_a_condition_leave_the_text() -> None:
    reading = read("a wooden chair, under 80 cm, made by kenney")
    assert reading.text == "a wooden chair"
    assert [one.words for one in reading.conditions] == ["under 80 cm", "by kenney"]
    assert reading.conditions[1].filter == {"creator": "Kenney"}
    assert read("CC0, animated, a dragon").text == "a dragon"


def test_a_text_never_becomes_empty() -> None:
    assert read("under 80 cm").text == "under 80 cm"
    assert filters("under 80 cm")


def test_words_that_are_text_are_no_condition() -> None:
    reading = read("a table at most 75 cm high, by Kenney", as_text=["at most 75 cm high"])
    assert reading.text == "a table at most 75 cm high"
    assert [one.words for one in reading.conditions] == ["by Kenney"]


def test_a_phrase_in_quotes_is_no_condition() -> None:
    assert not read('a sign "under 3 m"').conditions


def test_what_a_collection_has_not_is_text() -> None:
    nothing = PayloadVocabulary({}, texts_of)
    asked = [text for text, _ in sentences("first") + sentences("second")]
    assert all(read(text, nothing) == Reading(text, text) for text in asked)


def test_a_size_is_that_of_the_longest_side() -> None:
    sides = ("measured.width", "measured.height", "measured.depth")
    assert filters("below 2 m") == [{side: {"lt": 2.0} for side in sides}]
    assert filters("over 2 m") == [{"or": [{side: {"gt": 2.0}} for side in sides]}]
    (both,) = filters("between 50 cm and 1 m")
    assert both == {side: {"lte": 1.0} for side in sides} | {"or": [{side: {"gte": 0.5}} for side in sides]}


def test_a_size_without_a_comparison_needs_a_dimension() -> None:
    assert filters("a 2 m table") == []
    assert filters("a table 2 m wide") == [{"measured.width": {"gte": 1.7, "lte": 2.3}}]


def test_bytes_are_those_of_a_mesh_or_else_of_a_file() -> None:
    files = PayloadVocabulary({"size": NUMBERS}, texts_of)
    assert [one.filter for one in read("photos over 2 MB", files).conditions] == [{"size": {"gt": 2e6}}]


def test_years_are_those_of_every_key_with_dates() -> None:
    known = PayloadVocabulary({"made": DATES, "year": NUMBERS}, texts_of)
    (one,) = read("a vase after 2019", known).conditions
    assert one.filter == {"or": [{"made": {"gte": "2020"}}, {"year": {"gte": 2020}}]}
    assert one.keys == ("made", "year")


def test_what_captions_say_is_a_thing_and_no_value() -> None:
    assert filters("a table from oak") == []
    assert filters("material oak") == [{"material": "oak"}]
    assert filters("new york") == []  # "new" is a key too
    assert filters("not new") == [{"new": False}]
    assert filters("a TV stand") == []
    assert filters("a stool with one seat") == []  # as "a seat"
    assert filters("a stool with two seats") == [{"seats": 2.0}]


def test_most_texts_are_known_to_have_no_condition() -> None:
    assert not may_have_conditions("a red wooden chair", WORLD)
    assert may_have_conditions("a chair of 1837", WORLD)
    assert may_have_conditions("a rigged knight", WORLD)


@given(st.text(max_size=60) | st.lists(st.sampled_from(sorted(WORDS)), max_size=12).map(" ".join))
def test_every_text_is_read_and_every_filter_can_be_asked(text: str) -> None:
    reading = read(text)
    assert reading.whole == text
    assert reading.text.strip() or not text.strip()
    for one in reading.conditions:
        assert one.words in text
        parse_filter(one.filter)
        assert {*one.keys} <= {*KEYS}
