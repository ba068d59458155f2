"""Cursors: the page after a hit, also while the collection changes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.app.house import House, house, png
from tests.app.test_bad_input import refused

COLOURS = ("red", "green", "blue", "yellow")
ITEMS = [f"{colour}-{number}" for colour in COLOURS for number in range(3)]


@pytest.fixture
def store(tmp_path: Path, bundle: Path) -> Iterator[House]:
    """A service with twelve items, whose captions differ."""
    with house(tmp_path / "store", bundle) as opened:
        write(opened, *ITEMS)
        yield opened


def write(store: House, *names: str) -> None:
    """Items whose captions lean to their colour by their number."""
    for name in names:
        colour, _, number = name.partition("-")
        texts = [f"a {colour} box", *(["a yellow thing"] * int(number))]
        body = {"items": [{"id": name, "texts": texts, "payload": {"is": colour}}]}
        assert store.client.post("/v1/items", json=body).json()["written"] == 1


def read(store: House, path: str = "/v1/search", **asked: Any) -> dict[str, Any]:  # noqa: ANN401 (any JSON)
    answer = store.client.post(path, json=asked)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def ids(answer: dict[str, Any]) -> list[str]:
    return [hit["id"] for hit in answer["hits"]]


def walk(store: House, path: str = "/v1/search", **asked: Any) -> list[str]:  # noqa: ANN401 (any JSON)
    """All ids, page by page."""
    found, after = [], None
    while True:
        answer = read(store, path, **asked, **({"after": after} if after else {}))
        found += ids(answer)
        after = answer["next"]
        if after is None:
            return found


@pytest.mark.parametrize(
    "asked",
    [
        {"text": "a red box", "target": "text"},
        {"text": "a red box", "target": "item"},
        {"id": "red-1", "target": "text"},
        {"text": "a red box", "target": "text", "duplicates": "fold"},
        {"mix": [{"text": "red"}, {"text": "yellow", "weight": -0.5}], "target": "text"},
    ],
)
def test_pages_by_cursor_are_the_whole_ranking(store: House, asked: dict[str, Any]) -> None:
    assert walk(store, **asked, limit=5) == ids(read(store, **asked, limit=50))


def test_items_like_one_have_pages_too(store: House) -> None:
    path = "/v1/items/red-0/similar"
    asked: dict[str, Any] = {"target": "text"}
    whole = ids(read(store, path, **asked, limit=50))
    assert len(whole) == len(ITEMS) - 1
    assert walk(store, path, **asked, limit=4) == whole


def test_changes_between_pages_neither_repeat_nor_skip(store: House) -> None:
    asked: dict[str, Any] = {"text": "a red box", "target": "text", "limit": 4}
    whole = ids(read(store, **asked | {"limit": 50}))
    first = read(store, **asked)
    write(store, "red-00", "red-000")  # as good as the best
    assert ids(read(store, **asked, offset=4))[0] in ids(first)  # what an offset does
    rest = ids(read(store, **asked | {"limit": 50}, after=first["next"]))
    assert [one for one in rest if one in ITEMS] == whole[4:]


def test_a_cursor_of_a_hit_that_is_gone_goes_on_at_its_place(store: House) -> None:
    asked: dict[str, Any] = {"text": "a red box", "target": "text", "limit": 4}
    whole, first = ids(read(store, **asked | {"limit": 50})), read(store, **asked)
    store.client.delete(f"/v1/items/{whole[3]}")
    assert ids(read(store, **asked, after=first["next"])) == whole[5:9]


def test_a_threshold_ends_the_pages(store: House) -> None:
    asked: dict[str, Any] = {"text": "a red box", "target": "text", "limit": 4}
    least = read(store, **asked)["hits"][2]["score"]
    answer = read(store, **asked, min_score=least)
    assert answer["next"] is None
    assert 3 <= len(answer["hits"]) <= 4


def test_a_form_has_cursors(store: House) -> None:
    form = {"target": "text", "limit": "5"}
    files = {"image": png("red")}
    first = store.client.post("/v1/search", data=form, files=files).json()
    second = store.client.post("/v1/search", data=form | {"after": first["next"]}, files=files).json()
    whole = store.client.post("/v1/search", data=form | {"limit": "10"}, files=files).json()
    assert ids(first) + ids(second) == ids(whole)
    other = store.client.post(
        "/v1/search", data=form | {"after": first["next"]}, files={"image": png("blue")}
    )
    refused(other, 422, "bad_cursor", "another search")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"text": "a blue box"}, "another search"),
        ({"filter": {"is": "red"}}, "another search"),
        ({"offset": 4}, "by 'after' or by 'offset'"),
        ({"after": "nonsense"}, "is not the 'next'"),
        ({"after": "\u00e9"}, "is not the 'next'"),
        ({"after": "WzEsLTIsImEiXQ"}, "is not the 'next'"),  # [1,-2,"a"]
        ({"after": "WzEsIjIiLCJhIl0"}, "is not the 'next'"),  # [1,"2","a"]
    ],
)
def test_cursors_that_do_not_fit_are_refused(store: House, changes: dict[str, Any], sentence: str) -> None:
    asked: dict[str, Any] = {"text": "a red box", "target": "text", "limit": 4}
    after = read(store, **asked)["next"]
    refused(
        store.client.post("/v1/search", json={**asked, "after": after, **changes}),
        422,
        "bad_cursor",
        sentence,
    )
