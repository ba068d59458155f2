"""Texts as their collection understands them: conditions that are filters, and that are taken back."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.app.house import House, box, house

TEXTS = {"chair": "a wooden chair", "stool": "a wooden stool", "tower": "a tall tower"}


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory, bundle: Path) -> Iterator[House]:
    """Three boxes: 0.5 and 0.8 m high, and 2 m."""
    with house(tmp_path_factory.mktemp("sizes"), bundle) as here:
        for (name, text), height in zip(TEXTS.items(), (0.8, 0.5, 2.0), strict=True):
            payload = {"creator": "Ann" if name == "chair" else "McCoy"}
            answer = here.client.put(
                f"/v1/items/{name}",
                data={
                    "texts": [text],
                    "payload": json.dumps(payload),
                },
                files=[("mesh", ("box.glb", box("red", height), "model/gltf-binary"))],
            )
            assert answer.is_success, answer.text
        yield here


def answered(shop: House, text: str, **asked: Any) -> dict[str, Any]:  # noqa: ANN401 (any JSON)
    response = shop.search(text=text, target="item", **asked)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def found(answer: dict[str, Any]) -> set[str]:
    return {hit["id"] for hit in answer["hits"]}


def test_words_are_a_filter_and_shown(sizes: House) -> None:
    answer = answered(sizes, "a wooden thing at most 60 cm high")
    assert found(answer) == {"stool"}
    condition = {"words": "at most 60 cm high", "filter": {"measured.height": {"lte": 0.6}}}
    assert answer["understood"] == {"text": "a wooden thing", "conditions": [condition]}
    assert found(answered(sizes, "a thing by mccoy", filter=condition["filter"])) == {"stool"}
    assert answered(sizes, "a wooden thing")["understood"] is None


@pytest.mark.parametrize("asked", [{"understand": "off"}, {"as_text": ["at most 60 cm high"]}])
def test_words_can_be_text_again(sizes: House, asked: dict[str, Any]) -> None:
    answer = answered(sizes, "a thing at most 60 cm high", **asked)
    assert found(answer) == {*TEXTS}
    assert answer["understood"] is None


def test_a_condition_that_leaves_nothing_is_taken_back_and_said(sizes: House) -> None:
    answer = answered(sizes, "a wooden thing under 5 cm high, by Ann")
    assert found(answer) == {"chair"}
    assert answer["warnings"] == ["nothing fits 'under 5 cm high'; the least is 0.5 m"]
    assert answer["understood"]["text"] == "a wooden thing under 5 cm high"
    assert [one["words"] for one in answer["understood"]["conditions"]] == ["by Ann"]
    small = answered(sizes, "a thing smaller than 3 bytes")
    assert small["warnings"][0].startswith("nothing fits 'smaller than 3 bytes'; the least is ")
    assert float(small["warnings"][0].split()[-1]) > 100
    most = answered(sizes, "a tower over 30 m", filter={"creator": "Ann"})
    assert most["warnings"] == ["nothing fits 'over 30 m'; the most is 1 m"]


def test_conditions_that_leave_nothing_together_are_all_taken_back(sizes: House) -> None:
    answer = answered(sizes, "a chair by Ann, more than 1 m high")
    assert found(answer) == {*TEXTS}
    assert answer["warnings"] == ["nothing fits 'by Ann' and 'more than 1 m high' together"]
    assert answer["understood"] is None


def test_pages_and_batches_read_the_same(sizes: House) -> None:
    text = "a thing below 1.5 m"
    first = answered(sizes, text, limit=1)
    second = answered(sizes, text, limit=1, after=first["next"])
    assert found(first) | found(second) == {"chair", "stool"}
    assert second["understood"] == first["understood"]
    body = {"searches": [{"text": text}, {"text": "a thing"}]}
    answers = sizes.client.post("/v1/search/batch", json=body).json()["answers"]
    assert [len(one["answer"]["hits"]) for one in answers] == [2, 3]
    facets = sizes.client.post("/v1/facets", json={"keys": ["creator"], "query": {"text": text}}).json()
    assert {one["value"]: one["count"] for one in facets["facets"]["creator"]} == {"Ann": 1, "McCoy": 1}


def test_what_is_written_is_understood_by_the_next_search(sizes: House) -> None:
    assert answered(sizes, "a thing with 3 drawers")["understood"] is None
    patched = sizes.client.patch("/v1/items/chair", json={"payload": {"drawers": 3}})
    assert patched.is_success
    answer = answered(sizes, "a thing with 3 drawers")
    assert (found(answer), answer["understood"]["text"]) == ({"chair"}, "a thing")


def test_a_caption_says_what_is_a_thing(sizes: House) -> None:
    tagged = sizes.client.patch("/v1/items/tower", json={"payload": {"kit": "tall tower"}})
    assert tagged.is_success
    assert answered(sizes, "from the tall tower")["understood"] is None
    assert found(answered(sizes, "a thing, kit: tall tower")) == {"tower"}


def test_a_mix_is_not_read(sizes: House) -> None:
    answer = sizes.search(mix=[{"text": "a thing under 60 cm"}, {"text": "red"}], target="item").json()
    assert (found(answer), answer["understood"]) == ({*TEXTS}, None)
