"""Several collections in one service: made, asked by name, called by aliases, dropped."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pytest

from app.runtime.collections import open_collections
from app.settings import Settings
from index.collection import Collection
from index.contracts import IndexPlan
from multifold.bundle.canary import open_encoder
from multifold.cli import main
from multifold.client import Client, ServiceError
from multifold.wire.administration import IndexBody
from tests.app.answers import refused
from tests.app.house import House, house, png
from tests.index.servers import Server

UNBUILDABLE = (
    *("IVF999999999,Flat", "IVF0,Flat", "HNSW999999", "HNSW1", "IVF16_HNSW9999,Flat", "NSG99999", "PQ8x24"),
    *("IMI2x20,Flat", "PCA99999,Flat", "OPQ8_99999,Flat", "", "{cells:>999999999}", "{x}", "IVF{0},Flat"),
)


@pytest.fixture(scope="module")
def mall(tmp_path_factory: pytest.TempPathFactory, bundle: Path, others: Path) -> Iterator[House]:
    """A service for many collections; each test makes those that it needs."""
    with house(tmp_path_factory.mktemp("mall"), bundle, bundles=others) as opened:
        opened.put("red-box", "red")
        yield opened


@pytest.fixture
def client(mall: House) -> Iterator[Client]:
    with Client(mall.url) as opened:
        yield opened
        for name, meant in opened.aliases().items():
            if meant != ("main",):
                opened.drop_alias(name)
        for one in opened.collections():
            if one.name != "main":
                opened.drop_collection(one.name)


def test_a_collection_says_what_its_index_keeps_in_memory(client: Client, mall: House) -> None:
    made = [client.create_collection(name, memory=name) for name in ("codes", "resident")]
    assert [one.index and one.index.memory for one in made] == ["codes", "resident"]
    body = {"name": "wrong", "index": {"memory": "disk"}}
    refused(mall.client.post("/v1/collections", json=body), 422, "bad_request", "memory")
    job = client.reindex("codes", memory="resident")
    assert client.wait(job.id, 0.05).state == "done"
    (told,) = [one.index for one in client.collections() if one.name == "codes" and one.index]
    assert told.memory == "resident"


def test_an_index_that_is_not_described_is_that_of_a_new_collection() -> None:
    assert IndexPlan(**asdict(IndexBody())) == IndexPlan()


def test_each_collection_has_its_own_items(client: Client) -> None:
    client.create_collection("chairs", index="Flat", device="cpu", recall=0.9)
    chairs = client.collection("chairs")
    chairs.upsert("a/chair", texts=["a blue chair"], images=[png("blue")], payload={"is": "blue"})
    assert (client.count(), chairs.count()) == (1, 1)
    (hit,) = chairs.search(text="a red box", target="image").hits
    assert hit.id == "a/chair"
    assert hit.matched.url is not None
    assert hit.matched.url.startswith("/v1/collections/chairs/items/a%2Fchair/photos/0?v=")
    assert client.picture(hit.matched.url) == png("blue")
    assert chairs.similar("a/chair").hits == ()
    assert [item.id for item in chairs.items()] == ["a/chair"]
    assert chairs.facets(["is"])["is"][0].value == "blue"
    assert chairs.info()["collection"]["items"] == 1
    told = {one.name: one for one in client.collections()}
    assert list(told) == ["main", "chairs"]
    assert (told["chairs"].items, told["main"].aliases) == (1, ("default",))
    taken = chairs.take_snapshot()
    assert [one.name for one in chairs.snapshots()] == [taken.name]
    assert client.snapshots() == ()
    chairs.remove_snapshot(taken.name)
    assert chairs.delete("a/chair") == 1
    assert client.count() == 1


def test_an_alias_moves_at_once_and_back(client: Client) -> None:
    for name in ("one", "two"):
        client.create_collection(name)
        client.collection(name).upsert(name, texts=["a red box"])
    assert client.set_alias("shop", "one") is None
    shop = client.collection("shop")
    assert [hit.id for hit in shop.search(text="red", target="text").hits] == ["one"]
    assert client.set_alias("shop", "two") == "one"
    assert [hit.id for hit in shop.search(text="red", target="text").hits] == ["two"]
    assert client.set_alias("default", "two") == "main"
    assert client.get("two").id == "two"
    assert client.collection("main").search(text="red").hits[0].matched.url is not None
    for hit in client.collection("main").search(text="red").hits:
        assert client.picture(str(hit.matched.url))  # main is not the default now
    client.drop_alias("default")
    assert client.get("red-box").id == "red-box"


def test_a_collection_may_have_another_encoder(client: Client, mall: House) -> None:
    made = client.create_collection("others", bundle="second")
    assert made.bundle == "second"
    assert made.vector_id != client.info()["bundle"]["vector_id"]
    others = client.collection("others")
    others.upsert("red-box", texts=["a red box"], images=[png("red")])
    assert others.info()["bundle"]["name"] == "second"
    assert [model.id for model in others.models()] == ["second"]
    mine, theirs = client.embed(["a red box"]), others.embed(["a red box"])
    assert abs(mine - theirs).max() > 1e-3
    assert others.search(text="a red box", target="text").hits[0].score == pytest.approx(1.0, abs=1e-3)
    with pytest.raises(ServiceError, match="no bundle 'third'") as caught:
        client.create_collection("more", bundle="third")
    assert caught.value.status == 404
    assert 'multifold_items{collection="others"} 1' in client.metrics()


def test_what_is_dropped_is_gone(client: Client, mall: House) -> None:
    client.create_collection("gone")
    client.collection("gone").upsert("x", images=[png("red")])
    client.set_alias("kept", "gone")
    with pytest.raises(ServiceError, match="also called kept") as caught:
        client.drop_collection("gone")
    assert (caught.value.status, caught.value.code) == (409, "taken")
    client.drop_alias("kept")
    client.drop_collection("gone")
    with pytest.raises(ServiceError, match="no collection 'gone'") as caught:
        client.collection("gone").count()
    assert (caught.value.status, caught.value.code) == (404, "no_such_collection")
    client.create_collection("gone")
    assert client.collection("gone").count() == 0
    folders = list((mall.service.settings.data / "collections").iterdir())
    assert len(folders) == 1


@pytest.mark.parametrize("name", ["..", "%2e%2e", "..%2F..", "Chairs", "a b", "a.b", "%00", "c%22%3B", "-"])
def test_no_name_leads_anywhere_else(mall: House, name: str) -> None:
    before = sorted(path for path in mall.service.settings.data.rglob("*") if "blobs" not in path.parts)
    for method, path in (
        ("GET", f"/v1/collections/{name}"),
        ("DELETE", f"/v1/collections/{name}"),
        ("GET", f"/v1/collections/{name}/items/x"),
        ("PUT", f"/v1/aliases/{name}"),
        ("DELETE", f"/v1/aliases/{name}"),
    ):
        content = {"json": {"collection": "main"}} if method == "PUT" else {}
        response = mall.client.request(method, path, **content)  # type: ignore[arg-type]
        assert response.status_code in (404, 405, 422), (method, path, response.text)
    refused(mall.client.post("/v1/collections", json={"name": name}), 422, "bad_name", "is no name")
    after = sorted(path for path in mall.service.settings.data.rglob("*") if "blobs" not in path.parts)
    assert [path for path in after if path not in before and path.suffix != ".jsonl"] == []


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"name": "main"}, 409, "taken"),
        ({"name": "default"}, 409, "taken"),
        ({"name": "x", "index": {"type": "nonsense"}}, 422, "bad_index"),
        ({"name": "x", "index": {"type": "CAGRA", "device": "cpu"}}, 422, "bad_index"),
        *(({"name": "x", "index": {"type": one}}, 422, "bad_index") for one in UNBUILDABLE),
        ({"name": "x", "bundle": "../second"}, 404, "no_such_bundle"),
    ],
)
def test_what_cannot_be_made_leaves_nothing(
    mall: House, body: dict[str, object], status: int, code: str
) -> None:
    refused(mall.client.post("/v1/collections", json=body), status, code)
    assert [one["name"] for one in mall.client.get("/v1/collections").json()["collections"]] == ["main"]


def test_the_main_collection_stays(mall: House) -> None:
    refused(mall.client.delete("/v1/collections/main"), 409, "taken", "stays")
    refused(mall.client.delete("/v1/collections/default"), 404, "no_such_collection")
    refused(mall.client.get("/v1/collections/main/collections"), 404, "not_found")


def test_collections_are_there_after_a_restart(tmp_path: Path, bundle: Path, others: Path) -> None:
    with house(tmp_path, bundle, bundles=others) as shop, Client(shop.url) as client:
        shop.put("a", "red")
        client.create_collection("mine", recall=0.5, index="exact")
        client.create_collection("others", bundle="second")
        client.collection("others").upsert("b", texts=["a blue box"])
        client.set_alias("default", "others")
    with house(tmp_path, bundle, bundles=others) as shop, Client(shop.url) as client:
        assert client.get("b").id == "b"
        assert client.collection("main").get("a").id == "a"
        told = shop.client.get("/v1/collections/mine").json()
        chosen = {"type": "exact", "device": "auto", "recall": 0.5}
        assert told["index"] == {**chosen, "memory": "auto"}
    with house(tmp_path, bundle) as shop, Client(shop.url) as client:
        troubled = {one.name: one.trouble for one in client.collections()}["others"]
        assert troubled is not None
        assert "no bundle here" in troubled  # the others are served
        assert client.collection("main").count() == 1


def test_replicas_agree(tmp_path: Path, bundle: Path, server: Server) -> None:
    database = server.place()
    with (
        house(tmp_path, bundle, database=database) as one,
        house(tmp_path, bundle, database=database) as two,
        Client(one.url) as here,
        Client(two.url) as there,
    ):
        here.create_collection("chairs")
        there.collection("chairs").upsert("x", texts=["a red chair"])
        assert here.collection("chairs").count() == 1
        there.set_alias("default", "chairs")
        assert here.get("x").id == "x"
        there.drop_alias("default")
        there.drop_collection("chairs")
        with pytest.raises(ServiceError, match="no collection"):
            here.collection("chairs").count()
        here.create_collection("chairs")
        assert there.collection("chairs").count() == 0


def test_readers_never_see_a_mix_while_an_alias_moves(client: Client) -> None:
    for name in ("one", "two"):
        client.create_collection(name)
        for number in range(5):
            client.collection(name).upsert(f"{name}-{number}", texts=["a red box"])
    client.set_alias("shop", "one")
    done = threading.Event()

    def read() -> set[frozenset[str]]:
        with Client(client.url) as own:
            seen = set()
            while not done.is_set():
                hits = own.collection("shop").search(text="red", target="text").hits
                seen.add(frozenset(hit.id for hit in hits))
            return seen

    whole = {frozenset(f"{name}-{number}" for number in range(5)) for name in ("one", "two")}
    with ThreadPoolExecutor(2) as readers:
        reading = [readers.submit(read) for _ in range(2)]
        for turn in range(30):
            client.set_alias("shop", ("two", "one")[turn % 2])
        done.set()
        assert set().union(*(one.result() for one in reading)) <= whole


def test_an_older_folder_opens_as_the_main_collection(tmp_path: Path, bundle: Path) -> None:
    encoder = open_encoder(bundle)
    Collection.open(tmp_path, encoder).close()
    with open_collections(Settings(data=tmp_path, bundle=bundle)) as shelf:
        assert shelf.default == "main"
        assert shelf.services() == [shelf.main]


def test_commands_take_the_name_of_a_collection(
    tmp_path: Path, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    things, data = tmp_path / "things", tmp_path / "data"
    things.mkdir()
    (things / "red box.png").write_bytes(png("red"))
    where = ["--data", str(data), "--bundle", str(bundle)]
    ingest = ["ingest", str(things), *where, "--collection"]
    assert main([*ingest, "mine", "--dry-run"]) == 0
    assert not data.exists()
    assert main([*ingest, "no name"]) == 2
    assert "is no name" in capsys.readouterr().err
    assert main([*ingest, "mine"]) == 0
    assert "1 added" in capsys.readouterr().out
    assert main([*ingest, "mine"]) == 0
    assert "1 unchanged" in capsys.readouterr().out
    assert main(["index", "stats", "--data", str(data), "--collection", "mine"]) == 0
    assert "items    1" in capsys.readouterr().out
    assert main(["index", "stats", "--data", str(data), "--collection", "other"]) == 2
    with house(data, bundle) as shop, Client(shop.url, collection="mine") as client:
        assert client.count() == 1
        assert main([*ingest, "new"]) == 0
        assert shop.url in capsys.readouterr().out
        with Client(shop.url, collection="new") as sent:
            assert sent.count() == 1
        add = ["index", "add", "y", "--text", "a blue box", "--data", str(data), "--collection", "mine"]
        assert main(add) == 0
        assert client.get("y").observations[0].text == "a blue box"
        assert shop.client.post("/v1/items/count", json={}).json() == {"count": 0}
