"""Texts as words and terms: pieces, wholes, folded letters, stems, and the languages that they are of."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.texts.analysis import (
    MAX_WORD_LENGTH,
    Analyzer,
    chunks,
    pieces,
    spoken_languages,
    voting_words,
    words_of_name,
)
from index.texts.contracts import ItemTexts
from index.texts.text_indexes import item_texts


def words(text: str) -> set[str]:
    return {word for chunk in chunks(text) for word in (*chunk.pieces, *chunk.wholes)}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("KX-42/7b", {"kx", "42", "kx42", "7", "b", "7b", "kx427b"}),
        (
            "kitchenTable_A",
            {"kitchen", "table", "a", "kitchentable", "kitchentablea"},
        ),
        (
            "Food-Bits/IMG_2034.jpg",
            {"food", "bits", "foodbits", "img", "2034", "jpg", "img2034jpg", "foodbitsimg2034jpg"},
        ),
        ("Stühle, Sofas", {"stuhle", "sofas"}),
        ("ＡＢＣ ﬁn Straße", {"abc", "fin", "strasse"}),
        ("Café CAFE cafe\u0301", {"cafe"}),
        ("Ærø Łódź", {"aero", "lodz"}),
        ("йод हिन्दी", {"йод", "हिन्दी"}),
        ("... -- \"'()*^:", set()),
    ],
)
def test_a_text_is_known_by_pieces_and_wholes(text: str, found: set[str]) -> None:
    assert words(text) == found


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("kits/kitchenTable_A2.01", "kits kitchen Table"),
        ("old\\Stühle (3)", "old Stühle"),
        ("TV_01", "TV"),
        ("椅子-1", "椅子"),
        ("0017", ""),
        ("holiday/IMG_0017", "holiday IMG"),
        ("IMG_0017", ""),
        ("", ""),
    ],
)
def test_a_name_is_written_as_people_write_its_words(name: str, words: str) -> None:
    assert words_of_name(name) == words


@given(st.text())
def test_words_hold_letters_and_digits_alone(text: str) -> None:
    for word in words(text):
        assert word == "".join(word.split())
        assert {unicodedata.category(letter)[0] for letter in word} <= set("LNM")
        assert 0 < len(word) <= MAX_WORD_LENGTH


@given(st.text())
def test_folding_again_changes_nothing(text: str) -> None:
    assert pieces(" ".join(pieces(text))) == tuple(one for piece in pieces(text) for one in pieces(piece))


@pytest.mark.parametrize(
    ("language", "forms"),
    [
        ("english", "pizza pizzas"),
        ("english", "guitar guitars"),
        ("english", "shelf shelves"),
        ("english", "child children"),
        ("english", "running runs run"),
        ("german", "stuhl stuhle stuhlen"),
        ("german", "haus hauser hausern"),
        ("french", "cheval chevaux"),
        ("spanish", "silla sillas"),
    ],
)
def test_forms_of_a_word_have_one_term(language: str, forms: str) -> None:
    analyzer = Analyzer((language, "english"))
    assert len(set(map(analyzer.term, forms.split()))) == 1


def test_codes_and_stop_words_are_their_own_terms() -> None:
    analyzer = Analyzer(("english",))
    for word in ("kx42", "2034s", "as", "does", "his"):
        assert analyzer.term(word) == word


SENTENCES = {
    "english": "the red chair stands on the floor and it is not for the garden",
    "german": "der rote stuhl steht auf dem boden und ist nicht fur den garten",
    "french": "la chaise rouge est dans le jardin et elle a une table avec des fleurs",
    "spanish": "la silla roja esta en el jardin con una mesa y no es para los perros",
    "italian": "la sedia rossa della casa nel giardino non sono per il tavolo",
    "dutch": "de rode stoel staat op de vloer en is niet voor het huis van een vriend",
    "swedish": "den röda stolen står på golvet och är inte för en trädgård",
    "russian": "красный стул стоит на полу и не для сада",
}


@pytest.mark.parametrize("language", SENTENCES)
def test_stop_words_tell_a_language(language: str) -> None:
    said = set(pieces(SENTENCES[language]))
    assert spoken_languages({word: 10 * (word in said) for word in voting_words()}, 10)[0] == language


def test_two_languages_are_both_spoken_and_names_are_of_none() -> None:
    english, german = (set(pieces(SENTENCES[one])) for one in ("english", "german"))
    having = {word: 10 * (word in english) + 10 * (word in german) for word in voting_words()}
    assert set(spoken_languages(having, 20)) == {"english", "german"}
    assert spoken_languages({}, 0) == spoken_languages({"der": 1}, 100) == ("english",)


def test_what_machines_made_is_no_text() -> None:
    noted = {"source": "shop", "path": "a/b.glb", "folder": "a", "format": "glb", "content": "0f" * 32}
    own = {"colour": "red", "hash": "0f" * 16, "id": "123e4567-e89b-12d3-a456-426614174000"}
    assert item_texts(1, "b", ["c"], {**noted, **own, "size": 1234}) == ItemTexts(
        1, "b", "a/b.glb", ("c",), ("red",)
    )
    assert item_texts(1, "b", [], {"source": "shop", "size": 3, "path": "x"}).values == ("shop", "3", "x")
    assert item_texts(1, "b", [], {**noted, "part_names": "wheel door"}).values == ("wheel door",)


def test_values_of_a_payload_are_texts_and_its_keys_are_not() -> None:
    payload = {"part": {"number": "Q7"}, "mm": [1.5, 20], "sold": True, "gone": None}
    assert item_texts(1, "a/b", ["red"], payload).values == ("Q7", "1.5", "20")
