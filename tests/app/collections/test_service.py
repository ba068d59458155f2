"""What a service does when its disk gives back something else than was written."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from app.runtime.probes import check_readiness, probe_collection
from multifold.payload import owner_part
from multifold.types import Item
from tests.app.answers import refused
from tests.app.house import House

RED = "red-box"
FEATURES = "UPDATE observations SET feature = ? WHERE {}"
BLOBS = "UPDATE observations SET blob = ? WHERE {}"
TWO = "row = (SELECT max(row) FROM observations) OR (kind = 'caption' AND ordinal = 0)"


@pytest.fixture
def at(own: House) -> House:
    """A service with one item, that is whole."""
    assert own.put(RED, "red").status_code == 200
    return own


def damage(at: House, statement: str, *values: object) -> None:
    """Change columns, such as those of the last view and of the first caption."""
    with closing(sqlite3.connect(at.service.home / "store.sqlite")) as store, store:
        store.execute(statement.format(TWO), values)


def stored(at: House) -> Item:
    return at.service.item(RED)


def probed(at: House) -> tuple[int, int]:
    found = probe_collection(at.service)
    return found.damaged, found.repaired


def test_damage_is_left_out_and_made_anew_from_texts_and_pictures(at: House) -> None:
    before = stored(at)
    damage(at, FEATURES, np.full(len(before.observations[0].feature), 9, "<f4").tobytes())
    told = at.client.get(f"/v1/items/{RED}").json()["observations"]
    assert len(told) == len(before.observations) - 2
    assert len(stored(at).damaged) == 2
    check_readiness(at.service)
    found = probe_collection(at.service)
    assert (found.damaged, found.repaired) == (2, 2)
    after = stored(at)
    assert after.damaged == ()
    for old, new in zip(before.observations, after.observations, strict=True):
        assert (old.kind, old.index) == (new.kind, new.index)
        norms = np.linalg.norm(new.feature) * np.linalg.norm(old.feature)
        assert new.feature @ old.feature > 0.999 * norms  # views are kept with a little loss
    again = probe_collection(at.service, found)
    assert (again.damaged, again.repaired) == (2, 2)


def test_a_change_of_an_item_hands_no_damage_on(at: House) -> None:
    many = len(stored(at).observations)
    damage(at, FEATURES, b"\0" * 4)
    assert at.client.patch(f"/v1/items/{RED}", json={"payload": {"n": 1}}).status_code == 200
    assert (len(stored(at).observations), stored(at).damaged) == (many, ())
    damage(at, BLOBS, "0" * 64)
    answer = at.client.patch(f"/v1/items/{RED}", json={"payload": {"n": 2}})
    refused(answer, 422, "bad_item", "write the item again")
    assert probed(at) == (2, 0)


def test_what_is_filtered_by_is_made_anew_from_the_payload(at: House) -> None:
    damage(at, "UPDATE facts SET text = 'ree' WHERE text = 'red'")
    count = {"filter": {"is": "red"}}
    assert at.client.post("/v1/items/count", json=count).json() == {"count": 0}
    assert probed(at) == (1, 1)
    assert at.client.post("/v1/items/count", json=count).json() == {"count": 1}


def test_a_damaged_payload_is_told_with_its_item(at: House) -> None:
    damage(at, "UPDATE items SET payload = replace(payload, 'red', 'ree')")
    told = at.client.get(f"/v1/items/{RED}").json()
    assert (told["payload"], len(told["notes"])) == ({}, 1)
    refused(at.client.patch(f"/v1/items/{RED}", json={"payload": {"n": 2}}), 422, "bad_item")
    assert probed(at) == (1, 0)
    assert at.put(RED, "red").status_code == 200
    assert owner_part(at.client.get(f"/v1/items/{RED}").json()["payload"]) == {"is": "red"}
