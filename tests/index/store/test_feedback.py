"""Verdicts are kept in either database: one for each name, in pages, and no change of the items."""

import numpy as np
import pytest

from index.collection import Collection
from index.store import feedback
from index.store.feedback import FeedbackError, FeedbackFilter, FeedbackQueryPart, Judgement
from multifold.types import Verdict
from tests.index.things import thing

BLOB = f"{'a' * 64}.png"
QUERY = (
    FeedbackQueryPart("text", 1.0, text='a "blob" ☃'),
    FeedbackQueryPart("image", -0.5, blob=BLOB),
    FeedbackQueryPart("vector"),
)


@pytest.fixture
def kept(collection: Collection) -> Collection:
    collection.upsert([thing("a", np.random.default_rng(0))])
    return collection


def judgement(number: int, verdict: Verdict = "good", item: str = "a") -> Judgement:
    return Judgement(f"{number:032x}", item, verdict, "shape", QUERY, "ann", ("view", 1), 1.5)


def test_what_is_written_is_read(kept: Collection) -> None:
    version = kept.version
    kept.judge(judgement(1))
    assert kept.read(feedback.page_of_judgements) == [judgement(1)]
    assert kept.read(feedback.get_judgement, f"{1:032x}") == judgement(1)
    assert kept.read(feedback.get_judgement, "a\0") is None
    assert kept.version == version
    kept.delete(["a"])
    assert kept.read(feedback.page_of_judgements) == [judgement(1)]


def test_one_verdict_a_name(kept: Collection) -> None:
    kept.judge(judgement(1))
    kept.judge(judgement(1, "bad"))
    assert kept.read(feedback.page_of_judgements) == [judgement(1, "bad")]
    assert [kept.withdraw(f"{1:032x}"), kept.withdraw(f"{1:032x}"), kept.withdraw("\0")] == [1, 0, 0]


def test_pages_and_choices(kept: Collection) -> None:
    for number in range(5):
        kept.judge(judgement(number, "good" if number % 2 else "bad", f"i{number}"))
    first = kept.read(feedback.page_of_judgements, limit=2)
    assert [one.item for one in first] == ["i0", "i1"]
    following = kept.read(feedback.page_of_judgements, first[-1].id, 9)
    assert [one.item for one in following] == ["i2", "i3", "i4"]
    for chosen, wanted in (
        (FeedbackFilter(verdict="good"), ["i1", "i3"]),
        (FeedbackFilter("i2", "bad"), ["i2"]),
    ):
        found = kept.read(feedback.page_of_judgements, chosen=chosen)
        assert [one.item for one in found] == wanted


def test_pictures_that_were_asked_with_are_not_cleared_away(kept: Collection) -> None:
    kept.judge(judgement(1))
    assert kept.read(lambda now: set(feedback.blob_keys(now))) == {BLOB}


def test_there_is_an_end(kept: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feedback, "MAX_JUDGEMENTS", 2)
    for number in (1, 2, 2):
        kept.judge(judgement(number))
    with pytest.raises(FeedbackError, match="2 verdicts are kept"):
        kept.judge(judgement(3))
    assert len(kept.read(feedback.page_of_judgements)) == 2
