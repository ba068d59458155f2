"""The client and a running service understand each other, in every method."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from multifold.bundle.preprocess import decode
from multifold.client import Client, Examples, MixPart, NewItem, Search, ServiceError
from multifold.payload import owner_part
from multifold.wire.items import Refusal
from multifold.wire.search import NumberRange, SearchAnswer
from tests.app.house import House, box, png

RED = Image.new("RGB", (40, 40), "red")


@pytest.fixture
def client(shop: House) -> Iterator[Client]:
    with Client(shop.url) as opened:
        yield opened


def test_every_way_to_ask(client: Client, tmp_path: Path) -> None:
    mesh = tmp_path / "query.glb"
    mesh.write_bytes(box("blue"))
    assert client.search(text="a red box", limit=2).hits[0].id == "red-box"
    assert client.search(image=RED, pool="max").hits[0].id == "red-box"
    assert client.search(mesh=mesh, target="text").hits[0].id == "blue-box"
    assert client.search(mesh=box("green"), mesh_format="glb").hits[0].matched.kind == "view"
    red = client.embed(["a red box"])[0]
    assert client.search(vector=red.tolist(), limit=1).hits[0].id == "red-box"
    assert client.search(id="blue-box", side="text").hits[0].id == "blue-box"
    mix = [MixPart(text="green"), MixPart(image=RED, weight=-0.5)]
    assert client.search(mix=mix, target="any").hits[0].id == "green-box"
    some = {"is": {"in": ["blue", "green"]}}
    (hit,) = client.search(text="red", filter=some, offset=1, min_score=-9.0).hits
    assert hit.confidence is not None
    assert client.search(image=RED, filter={"is": "blue"}, exact=True).hits[0].id == "blue-box"
    assert "red-box" not in [hit.id for hit in client.similar("red-box", target="image").hits]
    judged = client.search(image=png("red"), examples=Examples(["green-box"]), diversity=0.5)
    assert judged.hits[0].id == "green-box"
    explained = client.search(text="a red box", target="shape", explain=True).hits[0]
    assert explained.sides is not None
    assert explained.sides["shape"] == pytest.approx(explained.score, abs=1e-5)


def test_refusals_keep_their_code(client: Client) -> None:
    good, bad = client.search_many([Search(text="red", limit=1), Search(id="nobody")])
    assert isinstance(good, SearchAnswer)
    assert isinstance(bad, Refusal)
    assert bad.code == "not_found"
    assert client.search_many([Search(id="nobody")]) == (bad,)
    assert client.upsert_many([NewItem("bad")]).refused == 1
    for ask, status, code in (
        (lambda: client.search(image=b"no picture"), 422, "bad_image"),
        (lambda: client.get("nobody"), 404, "not_found"),
        (lambda: client.search(id="red", min_confidence=0.5), 422, "no_calibration"),
    ):
        with pytest.raises(ServiceError) as caught:
            ask()
        assert (caught.value.status, caught.value.code) == (status, code)
        assert caught.value.request_id


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
    assert (item.id, owner_part(item.payload)) == (name, {"größe": [1, None]})
    photo = next(seen for seen in item.observations if seen.kind == "photo")
    assert decode(client.picture(str(photo.url))).size == (30, 20)
    assert client.search(text="a black box").hits[0].id == name
    assert client.delete(name) == 1
    assert client.delete(name) == 0


def test_many_items_are_written_changed_counted_and_removed(client: Client) -> None:
    items = [NewItem(f"many/{n}", texts=["black"], images=[RED], payload={"n": n}) for n in range(5)]
    bulk = client.upsert_many([*items, NewItem("bad"), NewItem("mesh", mesh=box("black"), mesh_format="glb")])
    assert (bulk.written, bulk.refused, bulk.ids[5]) == (6, 1, "bad")
    assert isinstance(bulk.results[5], Refusal)
    mine = {"n": {"gte": 0}}
    assert client.count(mine) == 5
    assert [item.id for item in client.items(mine, page=2)] == [item.id for item in items]
    assert client.update("many/0", payload={"n": 7}, texts=["white"]).observations["photo"] == 1
    assert client.get("many/0").payload == {"n": 7}
    assert {facet.value for facet in client.facets(["n"], mine)["n"]} == {1, 2, 3, 4, 7}
    best = client.facets(["is"], query=Search(text="red"), best=1)["is"]
    assert [(one.value, one.count) for one in best] == [("red", 1)]
    assert client.ranges(["n", "none"], mine) == {"n": NumberRange(1.0, 7.0, 5)}
    assert [item.payload["n"] for item in client.items(mine, page=2, sort="-payload.n")] == [7, 4, 3, 2, 1]
    assert client.delete_many(["many/0", "mesh"]) == 2
    assert client.delete_many(filter=mine) == 4


def test_embeddings_of_every_modality(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "box.glb"
    path.write_bytes(box("red"))
    texts = client.embed(["red", "blue"])
    images = client.embed([RED], "image")
    shapes = client.embed([path, box("red")], "shape")
    assert (texts @ images[0]).argmax() == (texts @ shapes[0]).argmax() == 0
    assert client.models()[0].dimensions == texts.shape[1]
    assert client.info()["bundle"]["name"] == "tiny"


def test_walks_explanations_and_verdicts(client: Client) -> None:
    walk = client.traverse(MixPart(text="a red box"), captions="collection")
    assert walk.paths[0].met[0].text in ("a red box", "red thing")
    why = client.explain(MixPart(image=RED), "red-box", kind="caption", index=0)
    assert why.explained.observation.text == "a red box"
    assert why.explained.words is not None
    assert why.query.heat_map is not None
    assert len(client.explain(MixPart(id="blue-box"), "red-box", maps=False).observations) == 9
    verdict = client.judge(Search(image=RED), "red-box", "good", kind="view", index=2, by="ann")
    assert [one.id for one in client.judgements(item="red-box", verdict="good")] == [verdict.id]
    assert client.withdraw(verdict.id) == 1
