"""What the service does when its disk takes no more, or gives back something else than was written."""

import os
import sqlite3
from base64 import b64encode
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from app.operations.probes import check_readiness, probe_collection
from index.maintenance import archive
from multifold.types import Item
from tests.app.house import House, house, png

RED = "red-box"


def flip(home: Path, column: str, value: object) -> None:
    """Change a column of the last view and of the first caption."""
    with closing(sqlite3.connect(home / "store.sqlite")) as store, store:
        where = "row = (SELECT max(row) FROM observations) OR (kind = 'caption' AND ordinal = 0)"
        store.execute(f"UPDATE observations SET {column} = ? WHERE {where}", (value,))


def stored(at: House) -> Item:
    item = at.service.collection.get(RED)
    assert item is not None
    return item


def test_damage_is_left_out_and_made_anew_from_texts_and_pictures(tmp_path: Path, bundle: Path) -> None:
    with house(tmp_path, bundle) as at:
        at.put(RED, "red")
        before = stored(at)
        flip(tmp_path, "feature", np.full(len(before.observations[0].feature), 9, "<f4").tobytes())
        told = at.client.get(f"/v1/items/{RED}").json()["observations"]
        assert len(told) == len(before.observations) - 2
        assert len(stored(at).damaged) == 2
        check_readiness(at.service)
        found = probe_collection(at.service)
        assert (found.damaged, found.repaired) == (2, 2)
        after = stored(at)
        assert after.damaged == ()
        assert [(one.kind, one.index) for one in after.observations] == [
            (one.kind, one.index) for one in before.observations
        ]
        for old, new in zip(before.observations, after.observations, strict=True):
            norms = np.linalg.norm(new.feature) * np.linalg.norm(old.feature)
            assert new.feature @ old.feature > 0.999 * norms  # views are kept with a little loss
        again = probe_collection(at.service, found)
        assert (again.damaged, again.repaired) == (2, 2)


def test_a_change_of_an_item_hands_no_damage_on(tmp_path: Path, bundle: Path) -> None:
    with house(tmp_path, bundle) as at:
        at.put(RED, "red")
        many = len(stored(at).observations)
        flip(tmp_path, "feature", b"\0" * 4)
        assert at.client.patch(f"/v1/items/{RED}", json={"payload": {"n": 1}}).status_code == 200
        assert (len(stored(at).observations), stored(at).damaged) == (many, ())
        flip(tmp_path, "blob", "0" * 64)
        refused = at.client.patch(f"/v1/items/{RED}", json={"payload": {"n": 2}})
        assert refused.status_code == 422
        assert "write the item again" in refused.json()["error"]["message"]
        found = probe_collection(at.service)
        assert (found.damaged, found.repaired) == (2, 0)
        assert at.put(RED, "red").status_code == 200
        assert stored(at).damaged == ()


def test_what_is_filtered_by_is_made_anew_from_the_payload(tmp_path: Path, bundle: Path) -> None:
    with house(tmp_path, bundle) as at:
        at.put(RED, "red")
        with closing(sqlite3.connect(tmp_path / "store.sqlite")) as store, store:
            store.execute("UPDATE facts SET text = 'ree' WHERE text = 'red'")
        count = {"filter": {"is": "red"}}
        assert at.client.post("/v1/items/count", json=count).json() == {"count": 0}
        found = probe_collection(at.service)
        assert (found.damaged, found.repaired) == (1, 1)
        assert at.client.post("/v1/items/count", json=count).json() == {"count": 1}


def test_a_damaged_payload_is_told_with_its_item(tmp_path: Path, bundle: Path) -> None:
    with house(tmp_path, bundle) as at:
        at.put(RED, "red")
        with closing(sqlite3.connect(tmp_path / "store.sqlite")) as store, store:
            store.execute("UPDATE items SET payload = replace(payload, 'red', 'ree')")
        told = at.client.get(f"/v1/items/{RED}").json()
        assert (told["payload"], len(told["notes"])) == ({}, 1)
        refused = at.client.patch(f"/v1/items/{RED}", json={"payload": {"n": 2}})
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "bad_item")
        found = probe_collection(at.service)
        assert (found.damaged, found.repaired) == (1, 0)
        assert at.put(RED, "red").status_code == 200
        assert at.client.get(f"/v1/items/{RED}").json()["payload"] == {"is": "red"}


def test_many_items_on_a_full_disk_are_a_503(shop: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    picture = f"data:image/png;base64,{b64encode(png('green')).decode()}"
    body = {"items": [{"id": f"late-{n}", "images": [picture]} for n in range(3)]}
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        response = shop.client.post("/v1/items", json=body)
        mixed = shop.client.post("/v1/items", json={"items": [*body["items"], {"id": "no texts"}]})
    assert (response.status_code, response.json()["error"]["code"]) == (503, "storage")
    assert "No space left" in response.json()["error"]["message"]
    assert mixed.status_code == 200  # one of them was refused for what it is
    assert shop.client.post("/v1/items", json={"items": [{"id": ""}]}).status_code == 200


def test_a_snapshot_on_a_full_disk_is_a_503(shop: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(archive.ArchiveWriter, "add_bytes", full)
        response = shop.client.post("/v1/snapshots")
    assert (response.status_code, response.json()["error"]["code"]) == (503, "storage")
    assert "No space left" in response.json()["error"]["message"]


def test_the_info_says_how_far_the_index_is(shop: House) -> None:
    told = shop.client.get("/v1/info").json()["collection"]
    assert 0 <= told["sealed_rows"] <= told["rows"]
    assert told["rows"] > told["items"]
