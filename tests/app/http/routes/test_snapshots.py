"""The collection as one file: taken, listed, fetched, restored, removed."""

from pathlib import Path

import pytest

from index.maintenance.restore import restore_snapshot
from tests.app.answers import refused
from tests.app.house import House, house


def test_a_snapshot_holds_what_was_there(tmp_path: Path, bundle: Path) -> None:
    with house(tmp_path / "data", bundle) as shop:
        shop.put("a", "red")
        taken = shop.client.post("/v1/snapshots").json()
        assert (taken["items"], taken["absent"]) == (1, [])
        shop.put("b", "blue")
        listed = shop.client.get("/v1/snapshots").json()["snapshots"]
        assert listed == [{"name": taken["name"], "bytes": taken["bytes"]}]
        path = f"/v1/snapshots/{taken['name']}"
        file = tmp_path / "fetched"
        file.write_bytes(shop.client.get(path).content)
        assert file.stat().st_size == taken["bytes"]
        assert shop.client.delete(path).json() == {"snapshots": []}
        refused(shop.client.get(path), 404, "not_found")
    restore_snapshot(file, tmp_path / "again")
    with house(tmp_path / "again", bundle) as shop:
        assert shop.best(text="red") == "a"
        assert shop.client.post("/v1/items/count", json={}).json() == {"count": 1}
        assert shop.client.get("/v1/items/a/views/0").status_code == 200


@pytest.mark.parametrize("name", ["..%2Fstore.sqlite", "store.sqlite", "%2e%2e", "x.tar"])
def test_no_other_file_can_be_had(shop: House, name: str) -> None:
    for method in ("GET", "DELETE"):
        response = shop.client.request(method, f"/v1/snapshots/{name}")
        assert response.status_code in (404, 405, 422)
    assert (shop.service.settings.data / "store.sqlite").is_file()
