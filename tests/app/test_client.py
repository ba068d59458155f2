"""The kernel's client and a running service understand each other."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from PIL import Image

from multifold.bundle.preprocess import decode
from multifold.client import Client, MixPart, NewItem, Search, ServiceError
from multifold.errors import MultifoldError
from multifold.wire.items import Refusal
from multifold.wire.search import NumberRange, SearchAnswer
from tests.app.house import House, box


@pytest.fixture
def client(shop: House) -> Iterator[Client]:
    with Client(shop.url) as opened:
        yield opened


def test_words_pictures_and_meshes_find_their_box(client: Client, tmp_path: Path) -> None:
    mesh = tmp_path / "query.glb"
    mesh.write_bytes(box("blue"))
    picture = Image.new("RGB", (40, 40), (255, 255, 0))
    assert client.search(text="a red box", limit=2).hits[0].id == "red-box"
    assert client.search(image=picture, pool="max").hits[0].id == "yellow-box"
    assert client.search(mesh=mesh, target="text").hits[0].id == "blue-box"
    assert client.search(mesh=box("green"), mesh_format="glb").hits[0].matched.kind == "view"


def test_an_item_lives_and_goes(client: Client) -> None:
    name = "shelf 3/böx?#%"
    made = client.upsert(
        name,
        texts=["a black box", "black\r\nthing"],
        images=[Image.new("RGB", (30, 20), "black")],
        mesh=box("black"),
        mesh_format="glb",
        payload={"größe": [1, None]},
    )
    assert made.observations == {"caption": 2, "photo": 1, "view": 6}
    item = client.get(name)
    assert (item.id, item.payload) == (name, {"größe": [1, None]})
    photo = next(seen for seen in item.observations if seen.kind == "photo")
    assert photo.url is not None
    assert decode(client.picture(photo.url)).size == (30, 20)
    assert client.search(text="a black box").hits[0].id == name
    assert client.delete(name) == 1
    assert client.delete(name) == 0


def test_texts_alone_make_an_item(client: Client) -> None:
    assert client.upsert("words", texts=["a white ball"]).observations["caption"] == 1
    assert client.delete("words") == 1


def test_refusals_keep_their_code(client: Client) -> None:
    with pytest.raises(ServiceError) as caught:
        client.search(image=b"no picture")
    assert (caught.value.status, caught.value.code) == (422, "bad_image")
    assert caught.value.request_id
    with pytest.raises(ServiceError) as caught:
        client.get("nobody")
    assert (caught.value.status, caught.value.code) == (404, "not_found")


def test_the_service_tells_of_itself(client: Client) -> None:
    assert client.ready()
    assert client.info()["bundle"]["name"] == "tiny"
    long = " ".join(["a red box"] * 20)
    assert "cut" in client.search(text=long).warnings[0]


def test_every_way_to_ask(client: Client) -> None:
    red = client.embed(["a red box"])[0]
    assert client.search(vector=red.tolist(), limit=1).hits[0].id == "red-box"
    assert client.search(id="blue-box", side="text").hits[0].id == "blue-box"
    mix = [MixPart(text="green"), MixPart(image=Image.new("RGB", (40, 40), "red"), weight=-0.5)]
    assert client.search(mix=mix, target="any").hits[0].id == "green-box"
    found = client.search(text="red", filter={"is": {"in": ["blue", "green"]}}, offset=1, min_score=-9.0)
    assert len(found.hits) == 1
    assert found.hits[0].confidence is not None
    assert client.search(text="red", target="shape").hits[0].confidence is None
    picture = Image.new("RGB", (40, 40), "red")
    assert client.search(image=picture, filter={"is": "blue"}, exact=True).hits[0].id == "blue-box"
    assert "red-box" not in [hit.id for hit in client.similar("red-box", target="image").hits]
    with pytest.raises(ServiceError, match="no confidence is known"):
        client.search(text="red", target="shape", min_confidence=0.5)


def test_several_searches_and_their_troubles(client: Client) -> None:
    good, bad = client.search_many([Search(text="red", limit=1), Search(id="nobody")])
    assert isinstance(good, SearchAnswer)
    assert good.hits[0].id == "red-box"
    assert isinstance(bad, Refusal)
    assert bad.code == "not_found"


def test_embeddings_of_every_modality(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "box.glb"
    path.write_bytes(box("red"))
    texts = client.embed(["red", "blue"])
    images = client.embed([Image.new("RGB", (40, 40), "red")], "image")
    shapes = client.embed([path, box("red")], "shape")
    assert (texts @ images[0]).argmax() == (texts @ shapes[0]).argmax() == 0
    assert client.models()[0].dimensions == texts.shape[1]


def test_many_items_are_written_changed_counted_and_removed(client: Client) -> None:
    picture = Image.new("RGB", (20, 20), "black")
    items = [NewItem(f"many/{n}", texts=["black"], images=[picture], payload={"n": n}) for n in range(5)]
    bulk = client.upsert_many([*items, NewItem("bad"), NewItem("mesh", mesh=box("black"), mesh_format="glb")])
    assert (bulk.written, bulk.refused, bulk.ids[5]) == (6, 1, "bad")
    assert isinstance(bulk.results[5], Refusal)
    mine = {"n": {"gte": 0}}
    assert client.count(mine) == 5
    assert [item.id for item in client.items(mine, page=2)] == [item.id for item in items]
    assert client.update("many/0", payload={"n": 7}, texts=["white"]).observations["photo"] == 1
    assert client.get("many/0").payload == {"n": 7}
    assert {facet.value for facet in client.facets(["n"], mine)["n"]} == {1, 2, 3, 4, 7}
    assert client.ranges(["n", "none"], mine) == {"n": NumberRange(1.0, 7.0, 5)}
    assert [item.payload["n"] for item in client.items(mine, page=2, sort="-payload.n")] == [7, 4, 3, 2, 1]
    assert client.delete_many(["many/0", "mesh"]) == 2
    assert client.delete_many(filter=mine) == 4


def test_no_job_is_waited_for_without_an_end() -> None:
    job = {"id": "j1", "kind": "rebuild", "collection": "main", "state": "running", "done": 3, "total": 9}
    job |= {"errors": [], "result": {}, "created": "2026-01-01T00:00:00Z", "ended": None}
    service = httpx.MockTransport(lambda _: httpx.Response(200, json={"job": job}))
    sentence = r"rebuild j1 of main is running after 0\.1 s, 3 of 9 done"
    with (
        Client("http://somewhere", transport=service) as client,
        pytest.raises(MultifoldError, match=sentence),
    ):
        client.wait("j1", 0.01, limit=0.1)
