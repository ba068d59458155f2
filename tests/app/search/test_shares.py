"""Which of several collections has what is meant."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from app.search.shares import EVIDENCE, FIRST_HITS, MATCH, MOST_BY_WORDS, WORDS, log_chances, word_ratios
from multifold.wire.items import ObservationInfo
from multifold.wire.search import SearchAnswer, SearchHit, SearchTimings

SHOWN = ObservationInfo("caption", 0, None, "a thing")


def answer(
    sure: float | None = 0.5,
    *,
    well: bool = False,
    items: int | None = None,
    words: Mapping[str, int] | None = None,
    everything: float | None = 2.0,
    hits: int = 1,
) -> SearchAnswer:
    hit = SearchHit(id="a", score=1.0, confidence=sure, modality="text", matched=SHOWN, payload={})
    return SearchAnswer(
        hits=(hit,) * hits,
        took_ms=SearchTimings(0, 0, 0),
        version=1,
        bundle="b",
        everything=everything,
        chance=sure,
        matches_well=well,
        items_with_texts=items,
        items_with_words=None if words is None else {**words},
    )


def test_it_is_where_the_first_hits_are_sure_and_where_one_stands_out() -> None:
    said = {"items": 10, "words": dict[str, int]()}
    chances = log_chances(
        {"half": answer(0.5, **said), "sure": answer(0.9, **said), "well": answer(0.5, well=True, **said)}  # type: ignore[arg-type]
    )
    usual = EVIDENCE * 2.0
    odds = FIRST_HITS * np.log(9)
    assert chances == pytest.approx({"half": usual, "sure": usual + odds, "well": usual + MATCH})
    assert log_chances({"half": answer(0.5, everything=4.0, **said)}) == {"half": 2 * usual}  # type: ignore[arg-type]


def test_many_right_hits_are_no_sign_of_doubt() -> None:
    """Of twenty red chairs each is hardly the one; a red sea in a collection of its own is no chair."""
    words = {"chairs": {"red": 20, "chair": 60}, "seas": {"red": 1, "chair": 0}}
    many = replace(answer(0.1, items=300, words=words["chairs"]), chance=1 - 0.9**20)
    chances = log_chances({"chairs": many, "seas": answer(0.4, items=1, words=words["seas"])})
    assert chances["chairs"] > chances["seas"] + 0.5


def test_it_is_where_more_items_have_the_words_than_is_usual() -> None:
    answers = {
        "chairs": answer(items=100, words={"oak": 40, "leg": 20}),
        "faces": answer(items=300, words={"oak": 0, "leg": 0, "the": 50}),
    }
    # all 400 have 40 and 20: 10 and 5 of a hundred are usual, 30 and 15 of three hundred
    ratios = {"chairs": np.log(41 / 11) + np.log(21 / 6), "faces": np.log(1 / 31) + np.log(1 / 16)}
    assert word_ratios(answers) == pytest.approx(ratios)
    assert log_chances(answers) == pytest.approx(
        {name: WORDS * one + EVIDENCE * 2.0 for name, one in ratios.items()}
    )


def test_words_say_nothing_of_photos_without_texts_and_of_what_nobody_has() -> None:
    photos = answer(items=0, words={"oak": 0})
    chairs = answer(items=100, words={"oak": 50})
    assert word_ratios({"photos": photos, "chairs": chairs}) == {"photos": 0.0, "chairs": 0.0}
    unheard = {name: answer(items=items, words={"zebra": 0}) for name, items in (("a", 3), ("b", 10_000))}
    assert word_ratios(unheard) == {"a": 0.0, "b": 0.0}
    assert word_ratios({}) == {}


def test_no_collection_is_out_of_the_question() -> None:
    words = [f"w{number}" for number in range(30)]
    ratios = word_ratios(
        {
            "all": answer(items=9000, words=dict.fromkeys(words, 9000)),
            "none": answer(items=9000, words=dict.fromkeys(words, 0)),
        }
    )
    assert ratios == {"all": MOST_BY_WORDS, "none": -MOST_BY_WORDS}
    assert np.isfinite([*log_chances({"a": answer(0.0), "b": answer(1.0)}).values()]).all()


def test_pictures_and_older_services_are_compared_by_their_evidence() -> None:
    picture = {"a": answer(0.9, everything=3.0), "b": answer(0.1, everything=5.0)}
    assert log_chances(picture) == {"a": 3.0, "b": 5.0}
    older = {"new": answer(0.9, items=1, words={}, everything=3.0), "old": answer(0.1, everything=5.0)}
    assert log_chances(older) == {"new": 3.0, "old": 5.0}
    mixed = {"new": answer(0.9, items=1, words={}, everything=3.0), "mix": answer(None, items=1, words={})}
    assert log_chances(mixed) == {"new": 3.0, "mix": 2.0}


def test_what_has_no_hits_has_no_chance() -> None:
    nothing = answer(items=5, words={"oak": 0}, hits=0, everything=None)
    assert [*log_chances({"none": nothing, "some": answer(items=5, words={"oak": 1})})] == ["some"]
