"""Items are written, read, replaced and removed; their pictures are served."""

import io
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

from tests.app.answers import refused
from tests.app.house import House, box, png


def test_an_item_is_written_and_read(shop: House) -> None:
    written = shop.put("new", "blue")
    assert written.json() == {
        "id": "new",
        "version": shop.service.collection.version,
        "observations": {"caption": 2, "photo": 1, "view": 6},
        "warnings": [],
    }
    item = shop.client.get("/v1/items/new").json()
    assert item["id"] == "new"
    assert item["payload"] == {"is": "blue"}
    kinds = [seen["kind"] for seen in item["observations"]]
    assert [kinds.count(kind) for kind in ("caption", "photo", "view")] == [2, 1, 6]
    assert [seen["text"] for seen in item["observations"] if seen["kind"] == "caption"] == [
        "a blue box",
        "blue thing",
    ]
    assert shop.client.delete("/v1/items/new").json() == {"removed": 1}
    assert shop.client.get("/v1/items/new").status_code == 404
    assert shop.client.delete("/v1/items/new").json() == {"removed": 0}


def test_a_written_item_is_found_and_a_removed_one_is_not(shop: House) -> None:
    assert (
        shop.client.put("/v1/items/black", files={"texts": (None, "a black ball with legs")}).status_code
        == 200
    )
    assert shop.best(text="a black ball with legs", target="text") == "black"
    shop.client.delete("/v1/items/black")
    assert shop.best(text="a black ball with legs", target="text") != "black"


def test_writing_again_replaces_the_item(shop: House) -> None:
    shop.put("twice", "red")
    shop.client.put("/v1/items/twice", files={"texts": (None, "white")})
    item = shop.client.get("/v1/items/twice").json()
    assert [seen["text"] for seen in item["observations"]] == ["white"]
    assert item["payload"] == {}
    assert shop.best(text="white", target="text") == "twice"
    shop.client.delete("/v1/items/twice")


@pytest.mark.parametrize(
    "name", ["a b", "ü/ö", "50%", "a?b#c", "a..b", "&lt;", "日本", "views/0x", "rooms/left/chair 2"]
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


def test_photos_are_served_as_they_came(shop: House) -> None:
    response = shop.client.get("/v1/items/red-box/photos/0")
    assert response.headers["content-type"] == "image/png"
    assert response.content == png("red")


def test_photos_are_small_on_request(shop: House) -> None:
    wide = Image.fromarray(np.random.default_rng(0).integers(0, 255, (600, 900, 3), np.uint8))
    out = io.BytesIO()
    wide.save(out, "PNG")
    assert shop.client.put("/v1/items/wide", files=[("images", ("w.png", out.getvalue()))]).is_success
    url = shop.client.get("/v1/items/wide").json()["observations"][0]["url"]
    whole, small = shop.client.get(url), shop.client.get(f"{url}&small=true")
    assert whole.content == out.getvalue()
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
    shop.client.put("/v1/items/said%2Fthumbnail", files={"texts": (None, "words alone")})
    assert shop.client.get("/v1/items/said%2Fthumbnail").json()["id"] == "said/thumbnail"
    refused(shop.client.get("/v1/items/said%2Fthumbnail/thumbnail"), 404, "not_found", "no picture")
    for name in ("shape", "said%2Fthumbnail"):
        shop.client.delete(f"/v1/items/{name}")


def test_pictures_may_be_kept_when_their_address_names_them(shop: House) -> None:
    url = shop.search(text="red").json()["hits"][0]["matched"]["url"]
    named, plain = shop.client.get(url), shop.client.get(url.partition("?")[0])
    assert "immutable" in named.headers["cache-control"]
    assert plain.headers["cache-control"] == "private, no-cache"
    again = shop.client.get(url, headers={"if-none-match": named.headers["etag"]})
    assert again.status_code == 304
    assert again.content == b""


def test_an_id_may_end_as_the_address_of_a_picture_does(shop: House) -> None:
    for name in ("chair/views/3", "red-box/photos/0"):
        path = f"/v1/items/{quote(name, safe='')}"
        assert shop.client.put(path, files=[("texts", (None, "a view"))]).status_code == 200
        assert shop.client.get(path).json()["id"] == name
        assert shop.client.delete(path).json() == {"removed": 1}
        assert shop.client.get(path).status_code == 404
    assert shop.client.get("/v1/items/red-box/photos/0").headers["content-type"] == "image/png"
