"""Words as they are looked for: pieces, wholes, and nothing that a database could take for a command."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.store.lexical_index import (
    MAX_QUERY_WORDS,
    MAX_WORD_LENGTH,
    query_words,
    required_words,
    words,
    words_of_texts,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("KX-42/7b", {"kx", "42", "kx42", "7", "b", "7b", "kx427b"}),
        ("kitchenTable_A", {"kitchen", "table", "a", "kitchentable", "kitchentablea"}),
        ("Food-Bits/IMG_2034.jpg", {"food", "bits", "foodbits", "img", "2034", "jpg", "img2034jpg"}),
        ("Stühle, Sofas", {"stühle", "sofas"}),
        ("ＡＢＣ ﬁn", {"abc", "fin"}),
        ("... -- \"'()*^:", set()),
    ],
)
def test_a_text_is_known_by_pieces_and_wholes(text: str, found: set[str]) -> None:
    assert found <= set(words(text))
    assert found or not list(words(text))


@given(st.text())
def test_words_hold_letters_and_digits_alone(text: str) -> None:
    for word in words(text):
        assert word == "".join(word.split())
        assert {unicodedata.category(letter)[0] for letter in word} <= set("LNM")
        assert not re.search(r"[\"'\\:*^]", word)
        assert 0 < len(word) <= MAX_WORD_LENGTH


@given(st.text())
def test_a_text_finds_itself(text: str) -> None:
    assert {one.word for one in query_words(text)} <= set(words_of_texts(text, (), {}))
    assert len(query_words(text)) <= MAX_QUERY_WORDS


def test_a_word_knows_its_chunk() -> None:
    assert {one.word: one.chunk for one in query_words('the "KX-42".')} == {
        "the": "the",
        "kx": "KX-42",
        "42": "KX-42",
        "kx42": "KX-42",
    }


@pytest.mark.parametrize(
    ("text", "found", "quote"),
    [
        ("Is there a KX-42/7b?", "kx42 7b", ""),
        ("part 10482213, please", "10482213", ""),
        ("show me Assets/arrow_bundle.gltf", "assets arrowbundlegltf", ""),
        ("my kitchenTable", "kitchentable", ""),
        ("a Three-legged stool", "a threelegged stool", "a three legged stool"),
        ("a shelf with 3 boards, 1.5 m", "a shelf with 3 boards 15 m", "a shelf with 3 boards 1 5 m"),
        ("!?", "", ""),
    ],
)
def test_codes_tell_and_without_them_the_whole_question(text: str, found: str, quote: str) -> None:
    assert [one.word for one in required_words(text).words] == found.split()
    assert required_words(text).quote == tuple(quote.split())


@pytest.mark.parametrize(
    ("text", "quoted", "whole"),
    [
        ("kitchen table", True, True),
        ("kitchenTable_A.glb", True, False),
        ("Food-Bits/gltf/kitchenTable_A", True, False),
        ("a large kitchen table.", True, False),
        ("a table for the kitchen", False, False),
        ("kitchen tables", False, False),
        ("a white kitchen, a red table", False, False),
        ("", False, False),
    ],
)
def test_a_text_quotes_what_stands_in_it_word_for_word(text: str, quoted: bool, whole: bool) -> None:
    question = required_words("Kitchen table?")
    assert (question.is_in_text(text), question.is_all_of(text)) == (quoted, whole)


def test_what_machines_made_is_no_word() -> None:
    noted = {"source": "shop", "path": "a.glb", "content": "0f" * 32, "size": 1234}
    assert words_of_texts("a", [], noted) == ["a", "glb", "aglb"]
    assert words_of_texts("a", [], {"id": "123e4567-e89b-12d3-a456-426614174000"}) == ["a"]
    assert words_of_texts("a", [], {"source": "shop", "size": 3}) == ["a", "shop", "3"]


def test_values_of_a_payload_are_words_and_its_keys_are_not() -> None:
    payload = {"part": {"number": "Q7"}, "mm": [1.5, 20], "sold": True, "gone": None}
    assert words_of_texts("a/b", ["red"], payload) == [
        "a", "b", "ab", "q", "7", "q7", "1", "5", "15", "20", "red",
    ]  # fmt: skip
