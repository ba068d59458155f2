"""Weights are learned from the items themselves; a stored model belongs to what gave its scores."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection, CollectionError
from index.fit import fit
from index.fit.trials import Trial
from index.legs.table import COLUMNS, COLUMNS_OF, LEGS
from index.search.confidence import CONFIDENCE_PRIOR
from index.search.model import EvidenceModel, SideModel, by_name, prior_model
from multifold.bundle.text_reader import open_text_reader
from multifold.types import Item, Side
from tests import reading
from tests.index.coloured import coloured, find, without
from tests.index.spaces import SPACE


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with Collection.open(tmp_path / "things", SPACE) as opened:
        yield opened


def test_a_fit_repeats_and_is_kept(collection: Collection) -> None:
    """Also where views know nothing: no leg falls below its prior weight."""
    collection.upsert(coloured(views=50.0))
    assert collection.evidence() is None
    model, again = collection.fit_evidence(), collection.fit_evidence()
    stored = collection.evidence()
    assert stored is not None
    assert model.to_json() == again.to_json() == stored.to_json()
    assert set(model.sides) == {"text", "image", "shape"}  # a view asks as a picture
    others = [name for name in COLUMNS if not name.startswith("words")]
    for side, fitted in model.sides.items():
        prior = prior_model(side)
        for weights, least in ((fitted.weights, prior.weights), (fitted.wordless, prior.wordless)):
            assert all(by_name(weights)[name] >= by_name(least)[name] for name in others)


def test_a_leg_that_no_question_hears_keeps_its_prior_weight(collection: Collection) -> None:
    collection.upsert([without(item, "view") for item in coloured()])
    fitted, prior = collection.fit_evidence().of("text"), prior_model("text")
    unheard: tuple[slice, ...] = tuple(
        COLUMNS_OF[leg] for leg in LEGS if leg in ("image", "shape", "points", "reader")
    )
    for place in unheard:
        assert fitted.weights[place].tolist() == prior.weights[place].tolist()
        assert fitted.wordless[place].tolist() == prior.wordless[place].tolist()


def test_a_model_belongs_to_its_reader_and_its_space(tmp_path: Path, database: str | None) -> None:
    with Collection.open(tmp_path / "things", SPACE, database=database) as collection:
        collection.upsert(coloured()[:20])
        collection.fit_evidence()
        assert collection.evidence() is not None
    reader = open_text_reader(reading.write_table_reader(tmp_path / "reader"))
    with Collection.open(tmp_path / "things", SPACE, database=database, reader=reader) as collection:
        assert collection.evidence() is None


def test_a_model_of_other_rules_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    note = EvidenceModel({"text": SideModel(prior_model("text").weights)}).to_json()
    assert EvidenceModel.from_json(note) is not None
    monkeypatch.setattr("index.search.model.RULES", 0)
    assert EvidenceModel.from_json(note) is None


def test_a_model_with_a_flipped_bit_is_none_and_told(caplog: pytest.LogCaptureFixture) -> None:
    note = EvidenceModel({"text": SideModel(prior_model("text").weights)}).to_json().encode()
    for place in range(0, len(note), 7):
        flipped = note[:place] + bytes([note[place] ^ 1]) + note[place + 1 :]
        assert EvidenceModel.from_json(flipped.decode()) is None
        assert "fitted anew" in caplog.messages.pop()


def test_too_few_items_leave_what_holds_without_a_fit(collection: Collection) -> None:
    collection.upsert(coloured()[:2])
    assert collection.fit_evidence().sides == {}


def test_confidence_is_about_right(collection: Collection) -> None:
    items = coloured(views=2.0)
    collection.upsert(items)
    model, chances, right = collection.fit_evidence(), [], []
    for item in items:
        vector = SPACE.vectors(item.observations[3].feature[None])[0]
        hit = find(collection, vector, model=model, limit=1)[0]
        chances.append(hit.confidence or 0.0)
        right.append(hit.id == item.id)
    assert np.mean(chances) == pytest.approx(np.mean(right), abs=0.35)


def test_pictures_that_are_alone_make_no_search_unsure(collection: Collection) -> None:
    """Hidden they leave nothing that is like them, while a picture that is there finds itself."""
    items = [Item(one.id, one.observations[:-1], one.payload) for one in coloured()]  # with one view
    collection.upsert(items)
    model = collection.fit_evidence()
    assert model.of("image").queries > 0
    assert np.array(model.of("image").confidence) == pytest.approx(np.array(CONFIDENCE_PRIOR))
    vector = SPACE.vectors(items[7].observations[-1].feature[None])[0]
    hit = find(collection, vector, side="image", own={"image": vector, "shape": vector}, model=model)[0]
    assert hit.id == items[7].id
    assert hit.confidence == pytest.approx(1, abs=0.05)


def test_a_fit_that_ends_after_its_collection_was_closed_stores_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit_evidence = fit.fit_evidence
    with Collection.open(tmp_path, SPACE) as collection:
        collection.upsert(coloured()[:20])

        def close_and_fit(trials: Mapping[Side, Sequence[Trial]], items: int, version: int) -> EvidenceModel:
            collection.close()
            return fit_evidence(trials, items, version)

        monkeypatch.setattr(fit, "fit_evidence", close_and_fit)
        with pytest.raises(CollectionError, match="closed"):
            collection.fit_evidence()
    with Collection.open(tmp_path, SPACE) as collection:
        assert collection.evidence() is None
