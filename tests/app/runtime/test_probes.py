"""Known queries are repeated; tests/app/collections/test_service.py repairs damage that a round meets."""

import pytest

from app.runtime.probes import probe_collection
from multifold.bundle import canary
from multifold.bundle.bundle import BundleError
from tests.app.house import BOXES, House


def test_known_captions_find_their_items(shop: House) -> None:
    found = probe_collection(shop.service)
    assert (found.sound, found.queries, found.hits) == (True, len(BOXES), len(BOXES))


def test_an_encoder_whose_answers_differ_is_not_sound(shop: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def differ(_: object) -> None:
        raise BundleError("it differs")

    monkeypatch.setattr(canary, "check", differ)
    assert not probe_collection(shop.service).sound
