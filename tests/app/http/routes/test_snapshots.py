"""The collection as one file: taken, listed, fetched, restored, removed."""

from pathlib import Path

import pytest

from index.maintenance.restore import restore_snapshot
from multifold.client import Client
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


def test_a_snapshot_has_a_name_and_becomes_a_new_collection(tmp_path: Path, bundle: Path) -> None:
    with house(tmp_path, bundle) as shop, Client(shop.url) as client:
        shop.put("a", "red")
        assert client.take_snapshot("before-sale").name == "before-sale.tar"
        shop.put("b", "blue")
        assert client.take_snapshot().items == 2
        assert client.snapshots()[0].name == "before-sale.tar"
        refused(shop.client.post("/v1/snapshots?name=before-sale"), 409, "taken", "choose another")
        refused(shop.client.post("/v1/snapshots?name=../x"), 422, "bad_request", "name")
        job = client.wait(client.restore_snapshot("before-sale.tar", "then").id)
        assert (job.state, job.done, job.result["to"]) == ("done", 1, "then")
        then = client.collection("then")
        assert [item.id for item in then.items()] == ["a"]
        assert then.search(text="a red box").hits[0].id == "a"
        assert then.upsert("c", texts=["green"]).observations["caption"] == 1
        assert client.count() == 2
        path = "/v1/snapshots/before-sale.tar/restore"
        refused(shop.client.post(path, json={"to": "then"}), 409, "taken")
        refused(shop.client.post(path, json={"to": "No Name"}), 422, "bad_name")
        refused(shop.client.post("/v1/snapshots/no.tar/restore", json={"to": "x"}), 404, "not_found")


@pytest.mark.parametrize("name", ["..%2Fstore.sqlite", "store.sqlite", "%2e%2e", "x.tar"])
def test_no_other_file_can_be_had(shop: House, name: str) -> None:
    for method in ("GET", "DELETE"):
        response = shop.client.request(method, f"/v1/snapshots/{name}")
        assert response.status_code in (404, 405, 422)
    assert (shop.service.settings.data / "store.sqlite").is_file()
