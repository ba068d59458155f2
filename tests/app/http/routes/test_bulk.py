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

NAME = st.text("ab\u00e9", max_size=2)  # few, so that both objects have some
PLAIN = (
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3) | st.lists(st.integers(), max_size=3)
)
INNER = PLAIN | st.dictionaries(NAME, PLAIN | st.dictionaries(NAME, PLAIN, max_size=3), max_size=3)
OBJECT = st.dictionaries(NAME, INNER, max_size=4)


@pytest.fixture
def shelf(tmp_path: Path, bundle: Path) -> Iterator[House]:
    """An empty collection of one's own."""
    with house(tmp_path, bundle, max_items=20) as opened:
        yield opened


def test_good_items_are_written_and_bad_ones_say_why(shelf: House) -> None:
    whole = {"id": "whole", "texts": ["a red box"], "images": [uri(png("red"))], "payload": {"a": [1, None]}}
    good: list[dict[str, Any]] = [
        whole | {"mesh": uri(box("red")), "mesh_format": "glb"},
        {"id": "words/1", "texts": ["blue"]},
        {"id": "words/1", "texts": ["green"]},
    ]
    bad: list[tuple[dict[str, Any], str]] = [
        ({"id": "nothing"}, "bad_item"),
        ({"id": "junk", "images": ["data:image/png;base64,AAAA"]}, "bad_image"),
        ({"id": "mesh", "mesh": uri(b"glTF junk"), "mesh_format": "glb"}, "bad_mesh"),
        ({"id": "elsewhere", "images": ["http://127.0.0.1/a.png"]}, "url_refused"),
        ({"id": "file", "images": ["file:///etc/passwd"]}, "bad_image"),
        ({"id": ".", "texts": ["red"]}, "bad_id"),
        ({"texts": ["no id"]}, "bad_request"),
        ({"id": 7, "texts": ["red"]}, "bad_request"),
        ({"id": "more", "texts": ["red"], "colour": "red"}, "bad_request"),
        ({"id": "x" * 600, "texts": ["red"]}, "bad_item"),
    ]
    answer = write(shelf, *good[:2], *(item for item, _ in bad), good[2])
    written = [entry["id"] for entry in answer["results"] if entry["written"]]
    assert (written, answer["written"], answer["refused"]) == (["whole", "words/1", "words/1"], 3, 10)
    assert answer["results"][0]["written"]["observations"] == {"caption": 1, "photo": 1, "view": 6}
    codes = [entry["error"]["code"] for entry in answer["results"] if entry["error"]]
    assert codes == [code for _, code in bad]
    assert shelf.service.collection.ids() == ["whole", "words/1"]
    many = [{"id": str(n), "texts": ["red"]} for n in range(21)]
    refused(shelf.client.post("/v1/items", json={"items": many}), 422, "too_many", "20 items")
    refused(shelf.client.post("/v1/items/scroll", json={"sort": "price"}), 422, "bad_query")
    refused(shelf.client.post("/v1/items/scroll", json={"after": "whole"}), 422, "bad_cursor")
    assert shelf.client.get("/v1/items/words%2F1").json()["observations"][0]["text"] == "green"
    assert shelf.best(text="red", target="image") == "whole"
    assert answer["version"] == shelf.service.collection.version


def test_a_request_of_which_nothing_is_done_is_refused(shelf: House) -> None:
    def refused_all(path: str, body: dict[str, Any], each: str, *codes: str) -> str:
        response = shelf.client.post(path, json=body)
        assert response.status_code == 422, response.text
        answer = response.json()
        assert [one["error"]["code"] for one in answer[each]] == list(codes)
        return f"{answer['error']['code']}: {answer['error']['message']}"

    empty, junk = {"id": "a"}, {"id": "b", "images": ["junk"]}
    assert refused_all("/v1/items", empty, "results", "bad_item").startswith("bad_item: ")
    both = refused_all("/v1/items", {"items": [empty, junk]}, "results", "bad_item", "bad_image")
    assert both.startswith("refused: all 2 were refused; the first: ")
    searches = {"searches": [{"filters": {}}, {"text": "a", "filter": {"$or": [{"a": 1}]}}]}
    assert "'filter'" in refused_all("/v1/search/batch", searches, "answers", "bad_request", "bad_filter")


def test_one_item_may_come_by_itself(shelf: House) -> None:
    response = shelf.client.post("/v1/items", json={"id": "a", "texts": ["red"]})
    assert response.json()["results"][0]["written"]["observations"]["caption"] == 1
    assert shelf.service.collection.ids() == ["a"]


def test_a_list_and_a_count_need_no_body(shelf: House) -> None:
    assert shelf.client.post("/v1/items", json={"id": "a", "texts": ["red"]}).status_code == 200
    everything = shelf.client.post("/v1/items/scroll", json={}).json()
    assert everything["items"]
    assert shelf.client.post("/v1/items/scroll").json() == everything
    assert shelf.client.post("/v1/items/count").json() == {"count": shelf.service.collection.count()}
    assert shelf.client.post("/v1/items/count", json=7).status_code == 422
    assert shelf.client.post("/v1/items/delete").status_code == 422  # everything is not meant


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


def test_payloads_of_many_items_are_changed_at_once(shelf: House) -> None:
    write(shelf, *({"id": f"{n:02}", "texts": ["red"], "payload": {"n": n, "old": 1}} for n in range(6)))
    change = {"filter": {"n": {"gte": 2}}, "payload": {"old": None, "sold": True}}
    answer = shelf.client.post("/v1/items/change", json=change).json()
    assert (answer["changed"], answer["version"]) == (4, shelf.service.collection.version)
    payloads = {item.id: item.payload for item in shelf.service.collection.scroll()}
    assert payloads["01"] == {"n": 1, "old": 1}
    assert payloads["05"] == {"n": 5, "sold": True}
    again = shelf.client.post("/v1/items/change", json=change).json()
    assert again["changed"] == 0  # they are so already
    named = {"ids": ["00", "none"], "payload": {"n": -1}}
    assert shelf.client.post("/v1/items/change", json=named).json()["changed"] == 1
    for body, said in (
        ({"ids": ["00"]}, "'payload' is missing"),
        ({"payload": {"a": 1}}, "give exactly one of ids and filter; there is none"),
    ):
        refused(shelf.client.post("/v1/items/change", json=body), 422, "bad_request", said)


def test_where_some_are_refused_the_status_says_so(shelf: House) -> None:
    good, bad = {"id": "a", "texts": ["red"]}, {"id": "b"}
    for items, status in (([good], 200), ([good, bad], 207), ([bad], 422)):
        assert shelf.client.post("/v1/items", json={"items": items}).status_code == status
    fine, wrong = {"text": "red"}, {"text": "red", "filter": {"a": {}}}
    for searches, status in (([fine], 200), ([fine, wrong], 207), ([wrong], 422)):
        answer = shelf.client.post("/v1/search/batch", json={"searches": searches})
        assert answer.status_code == status


def test_what_is_compared_is_of_the_kind_that_stands_there(shelf: House) -> None:
    write(shelf, {"id": "a", "texts": ["red"], "payload": {"price": 20, "made": "2024-05", "size": 3}})
    write(shelf, {"id": "b", "texts": ["red"], "payload": {"size": "large"}})
    wrong = {"price": {"lt": "100"}}, {"not": {"or": [{"size": {"gt": 1}}, {"made": {"gte": 2024}}]}}
    for filter in wrong:  # noqa: A001 (as the body has it)
        for path, body in (
            ("search", {"text": "red"}),
            ("items/count", {}),
            ("items/scroll", {}),
            ("items/delete", {}),
            ("facets", {"keys": ["price"]}),
        ):
            response = shelf.client.post(f"/v1/{path}", json=body | {"filter": filter})
            refused(response, 422, "bad_filter", "compare it with a")
    mixed = {"or": [{"size": {"gt": 1}}, {"size": {"gt": "a"}}, {"price": {"gt": 90}}, {"none": {"gt": "a"}}]}
    assert shelf.client.post("/v1/items/count", json={"filter": mixed}).json()["count"] == 2


def test_vectors_are_read_as_they_were_brought(shelf: House) -> None:
    length = shelf.service.encoder.bundle.geometry.feature_dim
    vectors = [[float(place == one) for place in range(length)] for one in range(2)]
    write(shelf, {"id": "a", "texts": ["red"], "vectors": {"text": vectors[:1], "image": vectors[1:]}})
    item = shelf.client.get("/v1/items/a?vectors=true").json()
    assert [one["vector"] for one in item["observations"]] == vectors
    (listed,) = shelf.client.post("/v1/items/scroll", json={"vectors": True}).json()["items"]
    assert listed["observations"] == item["observations"]
    assert all(one["vector"] is None for one in shelf.client.get("/v1/items/a").json()["observations"])
    search = {"vector": vectors[1], "side": "image", "target": "image", "fields": ["vectors"]}
    (hit,) = shelf.client.post("/v1/search", json=search).json()["hits"]
    assert hit["matched"]["vector"] == vectors[1]
