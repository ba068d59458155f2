"""An encoder is trusted with pictures as far as texts find the pictures of their items."""

from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection
from index.fit.questions import questions, read_known_items
from index.fit.sight import measure_sight
from index.fit.trials import TrialMaker
from multifold.types import Hit, Item, pool_mean
from tests.index.coloured import coloured, find, without
from tests.index.spaces import SPACE


def sight(path: Path, items: list[Item]) -> float | None:
    with Collection.open(path, SPACE) as collection:
        collection.upsert(items)
        asked = questions(collection.read(read_known_items, 200), None)
        return measure_sight(TrialMaker(SPACE, collection.scoring).trials(asked)["text"])


def test_views_that_captions_find_are_seen_and_others_are_not(tmp_path: Path) -> None:
    assert sight(tmp_path / "clear", coloured(views=0.5)[:30]) == 1.0
    blind = sight(tmp_path / "blind", coloured(views=50.0)[:50])
    assert blind is not None
    assert blind < 0.2


def test_nothing_is_known_without_texts_or_without_pictures(tmp_path: Path) -> None:
    assert sight(tmp_path / "no texts", [without(item, "caption") for item in coloured()[:20]]) is None
    assert sight(tmp_path / "no pictures", [without(item, "view") for item in coloured()[:20]]) is None
    assert sight(tmp_path / "few", coloured()[:7]) is None


@pytest.mark.parametrize("captions", [True, False])
def test_a_picture_of_a_blind_encoder_is_unsure_unless_it_is_the_same(tmp_path: Path, captions: bool) -> None:
    """Also where no text measures what it sees, as its bundle does not say that it does."""
    items = coloured(views=50.0)[:40]
    for item in items:  # views of one thing are alike, whatever they show
        first, second = (one.feature for one in item.observations[-2:])
        second[:] = first + np.random.default_rng(len(item.id)).standard_normal(len(first)).astype(np.float32)
    with Collection.open(tmp_path, SPACE) as collection:
        collection.upsert(items if captions else [without(item, "caption") for item in items])
        model = collection.fit_evidence()

        def ask(feature: np.ndarray) -> Hit:
            vector = SPACE.vectors(feature[None])[0]
            own = {"image": vector, "shape": vector}
            return find(collection, vector, side="image", own=own, model=model)[0]

        views = [one.feature for one in items[7].observations[-2:]]
        mean = ask(pool_mean(np.stack([*views, items[8].observations[-1].feature])))
        assert (mean.confidence or 0.0) < 0.3
        same = ask(views[0])
        assert same.id == items[7].id
        assert (same.confidence or 0.0) > 0.9
