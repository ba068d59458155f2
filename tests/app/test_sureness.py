"""A bundle without a calibration gets its confidence from the collection, or none, and says which."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from app.collections import confidence
from app.collections.confidence import fit_confidence, sample_items
from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import Encoder, captions_of, pictures_of
from multifold.bundle.preprocess import pixels
from multifold.types import Item
from tests import tiny
from tests.app.house import House, house

SHADES = list(tiny.COLOURS)


@pytest.fixture(scope="module")
def encoder(bundle: Path) -> Encoder:
    return open_encoder(bundle, threads=1)


def items(encoder: Encoder, count: int, *, said: bool) -> list[Item]:
    """Photos of a colour, whose captions name it if they are said."""
    made = []
    for number in range(count):
        colour = SHADES[number % len(SHADES)]
        photo = encoder.pixels(
            np.stack([pixels(Image.fromarray(tiny.picture(colour)), encoder.bundle.image)])
        )
        texts = (f"a {colour} box",) if said else ()
        words = captions_of(texts, encoder.texts(texts).features) if said else ()
        made.append(Item(f"i{number:03}", (*words, *pictures_of("photo", photo, ["a" * 64]))))
    return made


def test_captions_give_curves(encoder: Encoder) -> None:
    found = fit_confidence(encoder, items(encoder, 40, said=True))
    assert (found.basis, found.items) == ("collection", 40)
    assert set(found.curves) == {
        f"{a}/{b}/{p}" for a, b in (("text", "image"), ("image", "text")) for p in ("mean", "max")
    }
    assert not found.unrelated


def test_without_words_only_chance_is_known(encoder: Encoder) -> None:
    found = fit_confidence(encoder, items(encoder, 40, said=False))
    assert (found.basis, dict(found.curves)) == ("chance", {})
    assert "text/image/mean" in found.unrelated
    scores = found.unrelated["text/image/mean"]
    assert list(scores) == sorted(scores)


def test_of_few_items_nothing_is_said(encoder: Encoder) -> None:
    for said in (True, False):
        found = fit_confidence(encoder, items(encoder, confidence.FEWEST_ITEMS - 1, said=said))
        assert (found.basis, dict(found.curves), dict(found.unrelated)) == (None, {}, {})


@pytest.fixture
def crowd(tmp_path: Path, bundle: Path, encoder: Encoder) -> Iterator[House]:
    with house(tmp_path, bundle) as opened:
        yield opened


def test_it_is_fitted_anew_when_the_collection_has_grown(crowd: House, encoder: Encoder) -> None:
    collection, sure = crowd.service.collection, crowd.service.confidence
    sure.fit()
    assert sure.now().basis is None
    collection.upsert(items(encoder, 40, said=True))
    assert len(sample_items(collection)) == 40
    sure.fit()
    assert sure.now().basis == "collection"


@pytest.mark.parametrize("said", [True, False])
def test_hits_say_what_their_confidence_is_of(crowd: House, encoder: Encoder, said: bool) -> None:
    crowd.service.collection.upsert(items(encoder, 40, said=said))
    crowd.service.confidence.fit()
    answer = crowd.search(text="a red box", target="image").json()
    known = crowd.client.get("/v1/info").json()["bundle"]
    assert answer["calibrated_by"] == known["calibrated_by"] == ("collection" if said else "chance")
    assert known["calibrated_on"] == 40
    for hit in answer["hits"]:
        assert (hit["confidence"] is None) == (not said)
        assert (hit["chance"] is None) == said
    if not said:
        chances = [hit["chance"] for hit in answer["hits"]]
        assert all(0 < one <= 1 for one in chances)
        assert chances == sorted(chances)
