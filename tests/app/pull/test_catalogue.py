"""The list of published models."""

import re

import pytest

from app.pull.catalogue import (
    ENCODERS,
    FLORES_CODES,
    POINTS,
    READERS,
    RECOMMENDED,
    PublishedModel,
    candidates,
    find_published,
    flores_code,
    format_catalogue,
)
from app.pull.published_files import PullError

EVERY: tuple[PublishedModel, ...] = (*ENCODERS, *READERS, *POINTS)


@pytest.mark.parametrize("model", EVERY, ids=lambda model: model.name)
def test_what_is_listed_is_well_formed(model: PublishedModel) -> None:
    assert find_published(model.name.upper()) is model
    assert model.repository.count("/") == 1
    assert model.licence
    assert model.revision is None or re.fullmatch("[0-9a-f]{40}", model.revision)
    assert all(re.fullmatch("[0-9a-f]{64}", sha256) for sha256 in model.sha256.values())
    assert model.revision is not None or not model.sha256
    line = next(line for line in format_catalogue().splitlines() if line.startswith(f"{model.name} "))
    assert model.licence in line
    assert model.repository in line


def test_recall_is_in_percent_by_known_languages() -> None:
    for one in ENCODERS:
        assert {*one.recall} <= {*FLORES_CODES}
        assert all(0 < recall < 100 for recall in one.recall.values())
    assert f"For a laptop: {RECOMMENDED}" in format_catalogue()


@pytest.mark.parametrize("language", ["en", "cs", "fr"])
def test_candidates_are_the_best_that_are_known_in_a_language(language: str) -> None:
    names = [one.name for one in candidates(language)]
    known = sorted((one.recall[language], one.name) for one in ENCODERS if language in one.recall)
    assert {*names} == {RECOMMENDED, *(name for _, name in known[-2:])}


def test_languages_have_the_names_of_nllb() -> None:
    assert (flores_code("cs"), flores_code("ces_Latn")) == ("ces_Latn", "ces_Latn")
    with pytest.raises(PullError, match="'xx' is no language that we know"):
        flores_code("xx")
