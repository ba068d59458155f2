"""Words, numbers and phrases of a text."""

import pytest

from app.search import phrases
from app.search.phrases import number_of, tokens_of


def test_a_text_is_cut_into_words_numbers_and_signs() -> None:
    text = 'A CC-BY-4.0 lamp, 1.5m (max. 3,000 €) "under 2 m" it\'s'
    written = [one.written for one in tokens_of(text)]
    assert written[:6] == ["A", "CC-BY-4.0", "lamp", ",", "1.5", "m"]
    assert written[6:] == ["(", "max", ".", "3,000", "€", ")", '"under 2 m"', "it's"]
    assert all(text[one.start : one.end] == one.written for one in tokens_of(text))


@pytest.mark.parametrize(
    ("written", "number"),
    [
        ("80", 80),
        ("1.5", 1.5),
        ("1,5", 1.5),
        ("1,000", 1000),
        ("12,345.5", 12345.5),
        ("1.2.3", None),
        ("x", None),
    ],
)
def test_digits_are_numbers_with_a_comma_or_a_point(written: str, number: float | None) -> None:
    assert number_of(written) == number


def test_the_longest_phrase_counts() -> None:
    tokens = tokens_of("not more than 3")
    assert phrases.COMPARISONS.find(tokens, 0) == ("lte", 3)
    assert phrases.COMPARISONS.find(tokens, 1) == ("gt", 3)
    assert phrases.COMPARISONS.find(tokens, 3) == (None, 3)
    assert phrases.COMPARISONS.skip(tokens, 9) == 9
