"""Items are written, read, replaced and removed; their pictures are served."""

import io
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

from tests.app.answers import refused, uri
from tests.app.house import House, box, png
from tests.files import picture_file


@pytest.mark.parametrize(
    "name", ["a b", "ü/ö", "50%", "a?b#c", "a..b", "&lt;", "日本", "chair/views/3", "red-box/photos/0"]
)
def test_any_id_can_be_written_read_and_found(shop: House, name: str) -> None:
    address = f"/v1/items/{quote(name, safe='')}"
    written = shop.client.put(
        address, data={"texts": "white thing"}, files={"images": ("p.png", png("white"))}
    )
    assert written.json()["id"] == name
    assert shop.client.get(address).json()["id"] == name
    hit = shop.search(text="white thing", target="image").json()["hits"][0]
    assert hit["id"] == name
    assert shop.client.get(hit["matched"]["url"]).content == png("white")
    assert shop.client.delete(address).json() == {"removed": 1}


def test_an_item_is_written_by_json_or_by_a_form_with_its_id(shop: House) -> None:
    body = {"texts": ["white thing"], "images": [uri(png("white"), "image/png")], "payload": {"n": 1}}
    written = shop.client.put("/v1/items/a%2Fb", json=body).json()
    assert (written["id"], written["observations"]) == ("a/b", {"caption": 1, "photo": 1, "view": 0})
    refused(
        shop.client.put("/v1/items/a%2Fb", json={"text": "a"}), 422, "bad_request", "did you mean 'texts'?"
    )
    refused(shop.client.put("/v1/items/a%2Fb", json={}), 422, "bad_item")
    form = {"id": "a/b", "texts": "white"}
    assert shop.client.post("/v1/items/form", files={"images": png("white")}, data=form).json()["id"] == "a/b"
    refused(
        shop.client.post("/v1/items/form", files={"texts": (None, "a")}),
        422,
        "bad_request",
        "'id' is missing",
    )
    assert shop.client.delete("/v1/items/a%2Fb").json() == {"removed": 1}
    found = shop.client.post("/v1/search/form", files={"image": png("red")}, data={"limit": "1"}).json()
    assert [hit["id"] for hit in found["hits"]] == ["red-box"]


def test_a_cut_caption_is_reported(shop: House) -> None:
    written = shop.client.put("/v1/items/long", files={"texts": (None, "red " * 30)}).json()
    assert written["warnings"] == ["text was cut at 12 tokens, which is all that this encoder reads"]
    shop.client.delete("/v1/items/long")


def test_views_are_pictures_of_the_size_the_bundle_says(shop: House) -> None:
    for index in range(6):
        response = shop.client.get(f"/v1/items/red-box/views/{index}")
        assert response.headers["content-type"] == "image/webp"
        view = Image.open(io.BytesIO(response.content)).convert("RGB")
        assert view.size == (48, 48)
        red, green, blue = view.getpixel((24, 26))  # type: ignore[misc]
        assert red > green + 60
        assert red > blue + 60


def test_photos_are_small_on_request(shop: House) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (600, 900, 3), np.uint8)
    wide = picture_file(Image.fromarray(pixels))
    assert shop.client.put("/v1/items/wide", files=[("images", ("w.png", wide))]).is_success
    url = shop.client.get("/v1/items/wide").json()["observations"][0]["url"]
    whole, small = shop.client.get(url), shop.client.get(f"{url}&small=true")
    assert whole.content == wide
    assert small.headers["content-type"] == "image/webp"
    assert small.headers["cache-control"] == whole.headers["cache-control"]
    assert small.headers["etag"] != whole.headers["etag"]
    assert Image.open(io.BytesIO(small.content)).size == (256, 171)
    (made,) = (shop.service.home / "thumbnails").glob("*/*.webp")
    assert made.read_bytes() == small.content == shop.client.get(f"{url}&small=true").content
    asked = {"if-none-match": small.headers["etag"]}
    assert shop.client.get(f"{url}&small=true", headers=asked).status_code == 304
    view = shop.client.get("/v1/items/red-box/views/0?small=true")
    assert Image.open(io.BytesIO(view.content)).size == (48, 48)
    shop.client.delete("/v1/items/wide")


def test_one_picture_stands_for_an_item(shop: House) -> None:
    def size(name: str) -> tuple[int, int]:
        response = shop.client.get(f"/v1/items/{name}/thumbnail")
        assert response.headers["content-type"] == "image/webp"
        return Image.open(io.BytesIO(response.content)).size

    photo = Image.open(io.BytesIO(png("red"))).size
    assert size("red-box") == photo != (48, 48)
    shop.client.put("/v1/items/shape", files=[("mesh", ("b.glb", box("red"), "model/gltf-binary"))])
    assert size("shape") == (48, 48)
    aside = shop.client.get(f"/v1/items/shape/views/{shop.service.observer.standing_view}?small=true")
    assert shop.client.get("/v1/items/shape/thumbnail").content == aside.content
    shop.client.put("/v1/items/said%2Fthumbnail", files={"texts": (None, "words alone")})
    assert shop.client.get("/v1/items/said%2Fthumbnail").json()["id"] == "said/thumbnail"
    refused(shop.client.get("/v1/items/said%2Fthumbnail/thumbnail"), 404, "not_found", "no picture")
    for name in ("shape", "said%2Fthumbnail"):
        shop.client.delete(f"/v1/items/{name}")


def test_an_item_is_written_found_replaced_and_removed(shop: House) -> None:
    written = shop.put("new", "black")
    assert written.json() == {
        "id": "new",
        "version": shop.service.collection.version,
        "observations": {"caption": 2, "photo": 1, "view": 6},
        "warnings": [],
    }
    item = shop.client.get("/v1/items/new").json()
    assert (item["id"], item["payload"]["is"]) == ("new", "black")
    texts = [seen["text"] for seen in item["observations"] if seen["kind"] == "caption"]
    assert texts == ["a black box", "black thing"]
    assert len(item["observations"]) == 2 + 1 + 6
    assert shop.best(text="a black box", target="text") == "new"
    assert shop.client.put("/v1/items/new", files={"texts": (None, "white")}).is_success
    item = shop.client.get("/v1/items/new").json()
    assert ([seen["text"] for seen in item["observations"]], item["payload"]) == (["white"], {})
    assert shop.best(text="white", target="text") == "new"
    assert shop.client.delete("/v1/items/new").json() == {"removed": 1}
    assert shop.client.get("/v1/items/new").status_code == 404
    assert shop.client.delete("/v1/items/new").json() == {"removed": 0}
    assert shop.best(text="white", target="text") != "new"


def test_pictures_are_served_as_they_came_and_kept_when_their_address_names_them(shop: House) -> None:
    response = shop.client.get("/v1/items/red-box/photos/0")
    assert (response.headers["content-type"], response.content) == ("image/png", png("red"))
    url = shop.search(text="red").json()["hits"][0]["matched"]["url"]
    named, plain = shop.client.get(url), shop.client.get(url.partition("?")[0])
    assert "immutable" in named.headers["cache-control"]
    assert plain.headers["cache-control"] == "private, no-cache"
    again = shop.client.get(url, headers={"if-none-match": named.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_what_was_measured_of_a_mesh_is_filtered_sorted_and_counted(shop: House) -> None:
    def put(name: str, height: float) -> None:
        files = {"mesh": ("b.glb", box("red", height), "model/gltf-binary")}
        assert shop.client.put(f"/v1/items/{name}", files=files).is_success

    def measured(name: str) -> dict[str, object] | None:
        payload: dict[str, dict[str, object]] = shop.client.get(f"/v1/items/{name}").json()["payload"]
        return payload.get("measured")

    put("low", 0.05)
    put("high", 30.0)
    facts = {"width": 1.0, "depth": 0.6, "triangles": 12, "materials": 1, "textures": 0, "animated": False}
    assert measured("high") == {**facts, "height": 30.0, "bytes": len(box("red", 30.0))}
    small = {"measured.height": {"lt": 0.1}}
    found = shop.client.post("/v1/search", json={"text": "a box", "filter": small}).json()["hits"]
    assert [hit["id"] for hit in found] == ["low"]
    assert found[0]["payload"]["measured"]["height"] == 0.05
    tallest = {"sort": "-payload.measured.height", "limit": 1}
    assert shop.client.post("/v1/items/scroll", json=tallest).json()["items"][0]["id"] == "high"
    counted = shop.client.post("/v1/facets", json={"keys": ["measured.animated"], "filter": small}).json()
    assert counted["facets"]["measured.animated"] == [{"value": False, "count": 1}]
    shop.client.patch("/v1/items/low", json={"payload": {"colour": "red"}})
    assert measured("low") == {**facts, "height": 0.05, "bytes": len(box("red", 0.05))}
    put("low", 0.06)
    assert (measured("low") or {})["height"] == 0.06
    claimed = {"payload": '{"measured": {"height": 3}}', "texts": "no mesh"}
    shop.client.put("/v1/items/low", data=claimed, files={"images": ("p.png", png("red"))})
    assert measured("low") is None
    for name in ("low", "high"):
        shop.client.delete(f"/v1/items/{name}")


def test_no_search_reads_what_was_measured(shop: House) -> None:
    files = {"mesh": ("b.glb", box("red", 0.0625), "model/gltf-binary")}
    shop.client.put("/v1/items/thin", files=files)
    hits = shop.search(text="0.0625").json()["hits"]
    assert not [hit for hit in hits if hit["words"]]
    shop.client.delete("/v1/items/thin")
