"""The kernel's client and a running service understand each other."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from multifold.client import Client, ServiceError
from multifold.preprocess import decode
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
