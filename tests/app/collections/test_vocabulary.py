"""Words that name the keys of a collection."""

from collections.abc import Sequence

from app.collections.vocabulary import PayloadVocabulary
from index.store.keys import KeyValues

NUMBERS = KeyValues(numbers=True, truths=False, texts=None)
TRUTHS = KeyValues(numbers=False, truths=True, texts=None)


def texts(least: str, greatest: str) -> KeyValues:
    return KeyValues(numbers=False, truths=False, texts=(least, greatest))


def vocabulary(**keys: KeyValues) -> PayloadVocabulary:
    asked: list[Sequence[str]] = []

    def read(wanted: Sequence[str]) -> dict[str, list[str]]:
        assert not asked  # they are read once, when they are needed
        asked.append(wanted)
        return {key: ["Oak", "oak"] for key in wanted}

    return PayloadVocabulary({key.replace("__", "."): has for key, has in keys.items()}, read)


def test_a_word_names_a_key_in_one_and_in_many() -> None:
    known = vocabulary(size__seats=NUMBERS, licence=texts("CC0", "MIT"), rigged=TRUTHS)
    assert (known.named("seat"), known.named("seats"), known.named("size")) == (
        "size.seats",
        "size.seats",
        None,
    )
    assert known.named("license", "texts") == known.named("licence", "texts") == "licence"
    assert (known.named("rigged", "truths"), known.named("rigged")) == ("rigged", None)


def test_a_word_of_two_keys_names_none() -> None:
    known = vocabulary(a__width=NUMBERS, b__width=NUMBERS)
    assert known.named("width") is None
    assert known.names("width")


def test_keys_that_an_ingest_writes_are_not_named() -> None:
    known = vocabulary(size=NUMBERS, path=texts("a", "b"))
    assert (known.named("size"), known.named("path", "texts")) == (None, None)


def test_dates_are_texts_that_begin_with_years_and_numbers_that_are_called_years() -> None:
    known = vocabulary(made=texts("1999-01-01", "2024"), year=NUMBERS, by=texts("2 men", "Zoe"), n=NUMBERS)
    assert known.dates == ("made", "year")
    assert known.texts == ("by",)


def test_values_are_known_in_lower_case() -> None:
    known = vocabulary(wood=texts("Oak", "oak"), made=texts("2001", "2002"))
    assert known.values == {"oak": {"wood": ["Oak", "oak"]}}
    assert known.values is known.values
