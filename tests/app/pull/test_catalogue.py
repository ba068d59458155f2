"""The list of published encoders."""

import re

import pytest

from app.pull.catalogue import PUBLISHED_ENCODERS, RECOMMENDED, candidates, find_published_encoder
from app.pull.languages import FLORES_CODES


def test_what_is_listed_is_well_formed() -> None:
    assert find_published_encoder(RECOMMENDED) is not None
    assert len({one.name for one in PUBLISHED_ENCODERS}) == len(PUBLISHED_ENCODERS)
    for one in PUBLISHED_ENCODERS:
        assert one.repository.count("/") == 1
        assert one.revision is None or re.fullmatch("[0-9a-f]{40}", one.revision)
        assert all(re.fullmatch("[0-9a-f]{64}", sha256) for sha256 in one.sha256.values())
        assert one.revision is not None or not one.sha256
        assert {*one.recall} <= {*FLORES_CODES}
        assert all(0 < recall < 100 for recall in one.recall.values())


@pytest.mark.parametrize("language", ["en", "cs", "fr"])
def test_candidates_are_the_best_that_are_known_in_a_language(language: str) -> None:
    names = [one.name for one in candidates(language)]
    known = sorted((one.recall[language], one.name) for one in PUBLISHED_ENCODERS if language in one.recall)
    assert {*names} == {RECOMMENDED, *(name for _, name in known[-2:])}
