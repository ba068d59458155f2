"""Bodies that two readers would read differently are refused."""

import json

import pytest
from starlette.exceptions import HTTPException

from app.http.json_bodies import parse_json
from tests.app.house import House


def test_json_is_read_as_everybody_reads_it() -> None:
    body = '{"a": [1, 2.5, null, true], "b": {"a": "x"}, "": {}}'
    assert parse_json(body) == parse_json(body.encode()) == json.loads(body)
    with pytest.raises(json.JSONDecodeError):
        parse_json("{")


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ('{"limit": 1, "limit": 2}', "the key 'limit' stands twice"),
        ('{"a": [{"b": 1, "c": 2, "b": 1}]}', "the key 'b' stands twice"),
    ],
)
def test_what_is_ambiguous_is_refused(body: str, sentence: str) -> None:
    with pytest.raises(HTTPException) as refused:
        parse_json(body)
    assert refused.value.status_code == 422
    assert sentence in str(refused.value.detail)


def test_one_of_many_keys_is_found_in_one_pass() -> None:
    """By comparing each with all before it, this would take an hour."""
    names = [*map(str, range(500_000)), "499999"]
    with pytest.raises(HTTPException, match="the key '499999' stands twice"):
        parse_json("{" + ",".join(f'"{name}":1' for name in names) + "}")


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ('{"text": "red", "limit": 1, "limit": 2}', "the key 'limit' stands twice in one object"),
        ('{"text": "red", "filter": {"n": 1, "n": 2}}', "the key 'n' stands twice in one object"),
        ('{"text": "red", "limit": "2"}', "'limit' is a whole number, not '2'"),
        ('{"text": "red", "limit": true}', "'limit' is a whole number, not True"),
        ('{"text": "red", "limit": 2.5}', "'limit' is a whole number, not 2.5"),
        ('{"text": "red", "min_confidence": "0.5"}', "'min_confidence' is a finite number, not '0.5'"),
        ('{"mix": [{"text": "red", "weight": false}]}', "weight' is a finite number, not False"),
        ('{"vector": [true, 1]}', "'vector.0' is a finite number, not True"),
        ('{"vector": ["1"]}', "'vector.0' is a finite number, not '1'"),
        ('{"text": "red", "limit": NaN}', "'limit' is a whole number, not nan"),
    ],
)
def test_a_search_that_is_ambiguous_is_refused_with_a_sentence(shop: House, body: str, sentence: str) -> None:
    answer = shop.client.post("/v1/search", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "bad_request"
    assert sentence in answer.json()["error"]["message"]


@pytest.mark.parametrize("limit", ["2", "2.0", "2e0"])
def test_a_number_without_a_fraction_is_whole(shop: House, limit: str) -> None:
    body = f'{{"text": "red", "limit": {limit}}}'
    answer = shop.client.post("/v1/search", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["hits"]) == 2


def test_forms_state_numbers_as_texts(shop: House) -> None:
    form = {
        "text": (None, "red"),
        "limit": (None, "1"),
        "exact": (None, "true"),
        "min_confidence": (None, "0"),
    }
    answer = shop.client.post("/v1/search/form", files=form)
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["hits"]) <= 1
    bad = shop.client.post("/v1/search/form", files=form | {"limit": (None, "many")})
    assert "'limit' is a whole number, not 'many'" in bad.json()["error"]["message"]
    twice = shop.client.post("/v1/search/form", files=form | {"filter": (None, '{"a": 1, "a": 2}')})
    assert "the key 'a' stands twice" in twice.json()["error"]["message"]
