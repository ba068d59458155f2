"""Which words are correct, so that nothing else is meant by them."""

import pytest

from index.texts.dictionaries import LISTS, is_correct
from index.texts.languages import STOP_WORDS


@pytest.mark.parametrize("word", ["stairs", "couch", "umbrella", "armchair", "bookshelves"])
def test_english_words_are_correct_in_every_collection(word: str) -> None:
    assert is_correct(word, ["english"])
    assert is_correct(word, ["swedish"])


@pytest.mark.parametrize("word", ["chiar", "umbrela", "wadrobe", "kx42", ""])
def test_misspellings_are_not(word: str) -> None:
    assert not is_correct(word, ["english"])


def test_other_words_are_correct_where_their_language_is_spoken() -> None:
    words = {
        "german": "schrank",
        "french": "fenetre",
        "dutch": "stoel",
        "spanish": "sillon",
        "italian": "sedia",
    }
    for language, word in words.items():
        assert is_correct(word, [language])
        assert not is_correct(word, ["english"])


def test_each_list_is_of_a_language_that_a_collection_may_have() -> None:
    assert LISTS.keys() <= STOP_WORDS.keys()
    for language in LISTS:
        assert any(is_correct(word, [language]) for word in STOP_WORDS[language].split())
