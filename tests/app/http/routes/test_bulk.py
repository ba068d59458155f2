"""Many items at once: written one by one, changed in part, removed, counted, paged through."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.collections.service import merge_patch
from tests.app.answers import refused, uri, write
from tests.app.house import House, box, house, png

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)
OBJECT = st.dictionaries(st.text(max_size=2), JSON, max_size=4)


@pytest.fixture
def shelf(tmp_path: Path, bundle: Path) -> Iterator[House]:
    """An empty collection of one's own."""
    with house(tmp_path, bundle, max_batch=20) as opened:
        yield opened


def ids(shop: House, **asked: Any) -> list[str]:  # noqa: ANN401 (any JSON)
    return [item["id"] for item in shop.client.post("/v1/items/scroll", json=asked).json()["items"]]


def fill(shop: House, count: int = 9) -> None:
    colours = ("red", "blue", "green")
    rows = [{"n": n, "is": colours[n % 3]} for n in range(count)]
    items = [{"id": f"i{row['n']}", "texts": [f"a {row['is']} box"], "payload": row} for row in rows]
    assert write(shop, *items)["refused"] == 0


def test_good_items_are_written_and_bad_ones_say_why(shelf: House) -> None:
    whole = {"id": "whole", "texts": ["a red box"], "images": [uri(png("red"))], "payload": {"a": [1, None]}}
    answer = write(
        shelf,
        whole | {"mesh": uri(box("red")), "mesh_format": "glb"},
        {"id": "words/1", "texts": ["blue"]},
        {"id": "nothing"},
        {"id": "junk", "images": ["data:image/png;base64,AAAA"]},
        {"id": "mesh", "mesh": uri(b"glTF junk"), "mesh_format": "glb"},
        {"id": "elsewhere", "images": ["http://127.0.0.1/a.png"]},
        {"id": "file", "images": ["file:///etc/passwd"]},
        {"id": ".", "texts": ["red"]},
        {"texts": ["no id"]},
        {"id": 7, "texts": ["red"]},
        {"id": "more", "texts": ["red"], "colour": "red"},
        {"id": "x" * 600, "texts": ["red"]},
        {"id": "words/1", "texts": ["green"]},
    )
    written = [entry["id"] for entry in answer["results"] if entry["written"]]
    assert (written, answer["written"], answer["refused"]) == (["whole", "words/1", "words/1"], 3, 10)
    assert answer["results"][0]["written"]["observations"] == {"caption": 1, "photo": 1, "view": 6}
    codes = [entry["error"]["code"] for entry in answer["results"] if entry["error"]]
    assert codes == [
        "bad_item",
        "bad_image",
        "bad_mesh",
        "url_refused",
        "bad_image",
        "bad_id",
        "bad_request",
        "bad_request",
        "bad_request",
        "bad_item",
    ]
    assert ids(shelf) == ["whole", "words/1"]
    assert shelf.client.get("/v1/items/words%2F1").json()["observations"][0]["text"] == "green"
    assert shelf.best(text="red", target="image") == "whole"
    assert answer["version"] == shelf.service.collection.version


def test_too_many_are_refused(shelf: House) -> None:
    many = [{"id": str(n), "texts": ["red"]} for n in range(21)]
    refused(shelf.client.post("/v1/items", json={"items": many}), 422, "too_many", "20 items")
    assert ids(shelf) == []


def test_pages_follow_each_other_in_other_orders(shelf: House) -> None:
    fill(shelf)
    for sort, wanted in (("newest", [*range(8, -1, -1)]), ("payload.n", [*range(9)]), ("-payload.n", [8, 7])):
        found: list[str] = []
        after = None
        while len(found) < len(wanted):
            asked = {"after": after, "limit": 4, "sort": sort}
            page = shelf.client.post("/v1/items/scroll", json=asked).json()
            found += [item["id"] for item in page["items"]]
            after = page["next"]
        assert found[: len(wanted)] == [f"i{n}" for n in wanted]
    for wrong in ({"sort": "price"}, {"sort": "newest", "after": "i3"}):
        refused(shelf.client.post("/v1/items/scroll", json=wrong), 422, "bad_query")


def test_items_are_removed_by_ids_or_by_a_filter(shelf: House) -> None:
    fill(shelf)
    delete = "/v1/items/delete"
    assert shelf.client.post(delete, json={"ids": ["i0", "i1", "none"]}).json() == {"removed": 2}
    assert shelf.client.post(delete, json={"filter": {"is": "green"}}).json() == {"removed": 3}
    assert ids(shelf) == ["i3", "i4", "i6", "i7"]
    refused(shelf.client.post(delete, json={"filter": {}}), 422, "bad_request", "one of both")
    assert len(ids(shelf)) == 4


def test_a_part_of_an_item_is_changed_and_the_rest_stays(shelf: House) -> None:
    write(
        shelf,
        {"id": "a/b", "texts": ["red"], "images": [uri(png("red"))], "payload": {"x": 1, "y": {"z": 2}}},
    )
    path = "/v1/items/a%2Fb"
    changed = shelf.client.patch(path, json={"payload": {"x": None, "y": {"w": 3}, "v": [1]}})
    assert changed.json()["observations"] == {"caption": 1, "photo": 1, "view": 0}
    item = shelf.client.get(path).json()
    assert item["payload"] == {"y": {"z": 2, "w": 3}, "v": [1]}
    assert shelf.client.patch(path, json={"texts": ["green", "blue box"]}).status_code == 200
    item = shelf.client.get(path).json()
    assert [seen["text"] for seen in item["observations"] if seen["kind"] == "caption"] == [
        "green",
        "blue box",
    ]
    assert item["payload"]["v"] == [1]
    photo = next(seen for seen in item["observations"] if seen["kind"] == "photo")
    assert shelf.client.get(photo["url"]).content == png("red")
    assert shelf.best(text="red", target="image") == "a/b"
    assert shelf.client.patch(path, json={"texts": []}).status_code == 200
    assert shelf.best(text="red", target="image") == "a/b"


@given(OBJECT, OBJECT)
def test_a_merge_patch_does_what_rfc_7396_says(target: dict[str, Any], patch: dict[str, Any]) -> None:
    def reference(target: Any, patch: Any) -> Any:  # noqa: ANN401 (the RFC's own words)
        if not isinstance(patch, dict):
            return patch
        target = dict(target) if isinstance(target, dict) else {}
        for name, value in patch.items():
            if value is None:
                target.pop(name, None)
            else:
                target[name] = reference(target.get(name), value)
        return target

    assert merge_patch(target, patch) == reference(target, patch)


def test_a_change_that_makes_no_sense_changes_nothing(shelf: House) -> None:
    write(shelf, {"id": "a", "texts": ["red"]})
    version = shelf.service.collection.version
    for body, code in (
        ({}, "bad_request"),
        ({"payload": []}, "bad_request"),
        ({"texts": [""]}, "bad_text"),
        ({"texts": []}, "bad_item"),
        ({"images": []}, "bad_request"),
    ):
        refused(shelf.client.patch("/v1/items/a", json=body), 422, code)
    refused(shelf.client.patch("/v1/items/none", json={"payload": {"a": 1}}), 404, "not_found")
    assert shelf.service.collection.version == version
