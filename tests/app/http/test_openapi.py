"""The description of the API says what is there, and requests drawn from it are answered as it promises.

MULTIFOLD_DRAWS=fresh draws others each time, and 16 times as many; what that finds becomes an example.
"""

import json
import re
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.openapi import openapi_document
from tests.app.house import House
from tests.app.http.operations import NAMED, OF_A_COLLECTION, SCOPES
from tests.conftest import FRESH

DOCUMENT: dict[str, Any] = json.loads(openapi_document())
SCHEMAS = DOCUMENT["components"]["schemas"]
OPERATIONS = {
    (path, method): operation
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
DRAWN = settings(max_examples=400 if FRESH else 25, deadline=None, suppress_health_check=list(HealthCheck))
NO_FILTER = "/v1/items/delete"  # drawn bodies are to remove nothing


def test_every_operation_is_described_once() -> None:
    named = {(path.replace("/v1/", NAMED, 1), method) for path, method in OF_A_COLLECTION}
    assert set(OPERATIONS) == (set(SCOPES) - OF_A_COLLECTION) | named
    for operation in OPERATIONS.values():
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", operation["operationId"])
    assert len({one["operationId"] for one in OPERATIONS.values()}) == len(OPERATIONS)


def test_the_collection_of_a_path_is_filled_in_by_the_pages_of_the_api() -> None:
    for (path, _), operation in OPERATIONS.items():
        if path.startswith(NAMED):
            (name,) = [one for one in operation["parameters"] if one["name"] == "collection"]
            assert name["examples"] == {"default": {"value": "default"}}
            assert name["required"]


def test_every_body_has_a_name_and_one_type_and_those_that_choose_nothing_may_lack() -> None:
    optional = {
        name
        for name, operation in OPERATIONS.items()
        if "requestBody" in operation and not operation["requestBody"].get("required")
    }
    assert {OPERATIONS[name]["operationId"] for name in optional} == {"list_items", "count_items"}
    for operation in OPERATIONS.values():
        if "requestBody" in operation:
            ((kind, content),) = operation["requestBody"]["content"].items()
            assert kind in ("application/json", "multipart/form-data")
            assert set(content["schema"]) == {"$ref"}, operation["operationId"]
    for schema in SCHEMAS.values():  # generators of clients make a type without a name of each of them
        assert not {"oneOf", "anyOf"} & set(schema)
    for name in ("Search", "SearchForm"):
        assert {"text", "image", "mesh", "target", "limit", "pool", "filter"} <= set(
            SCHEMAS[name]["properties"]
        )


def test_what_is_referred_to_is_described() -> None:
    text = json.dumps(DOCUMENT)
    assert set(re.findall(r'"#/components/schemas/(\w+)"', text)) <= set(SCHEMAS)
    assert "$defs" not in text
    described = {tag["name"]: tag["description"] for tag in DOCUMENT["tags"]}
    assert set(described) == {tag for one in OPERATIONS.values() for tag in one["tags"]}
    assert all(sentence.endswith(".") for sentence in described.values())
    for operation in OPERATIONS.values():
        for status, response in operation["responses"].items():
            if status >= "400":
                schema = response["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/ErrorAnswer"}, operation["operationId"]
        for content in operation.get("requestBody", {}).get("content", {}).values():
            name = content["schema"]["$ref"].rpartition("/")[2]
            (example,) = SCHEMAS[name]["examples"]
            assert example, operation["operationId"]


def test_every_field_and_parameter_has_a_meaning() -> None:
    fields = {
        f"{name}.{key}": one
        for name, schema in SCHEMAS.items()
        for key, one in schema.get("properties", {}).items()
    }
    fields |= {
        f"{method} {path} {one['name']}": one
        for (path, method), operation in OPERATIONS.items()
        for one in operation.get("parameters", ())
    }
    assert [name for name, one in fields.items() if not one.get("description")] == []


def test_keys_are_described() -> None:
    assert set(DOCUMENT["components"]["securitySchemes"]) == {"bearer", "key"}
    search, health = OPERATIONS[f"{NAMED}search", "post"], OPERATIONS["/healthz", "get"]
    assert search["security"] == [{"bearer": []}, {"key": []}, {}]
    assert (search["x-scope"], health["security"]) == ("read", [])
    assert {"401", "403"} <= set(search["responses"])
    assert not {"401", "403"} & set(health["responses"])


@pytest.fixture(scope="module")
def victim(own: House) -> House:
    """A service with four boxes that may be ruined."""
    own.fill()
    return own


def nearly(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that nearly fit a schema: of the right type more often than not."""
    if "$ref" in schema:
        return nearly(SCHEMAS[schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema and "properties" not in schema:
        return st.one_of(*map(nearly, schema["anyOf"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("type") == "array":
        return st.lists(nearly(schema.get("items", {})), max_size=3)
    if "properties" in schema:  # some fields are left out, some hold anything
        optional = {name: nearly(value) | JSON for name, value in schema["properties"].items()}
        return st.fixed_dictionaries({}, optional=optional)
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "string": st.text(max_size=12) | st.sampled_from(["red", "red-box", "data:image/png;base64,AAAA"]),
        "integer": st.integers(-2, 200),
        "number": st.floats(-1e4, 1e4),
        "boolean": st.booleans(),
        "null": st.none(),
        "object": st.dictionaries(st.sampled_from(["is", "or", "not", "n"]), JSON, max_size=2),
    }
    return kinds.get(schema.get("type", ""), JSON)


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/search", "/v1/search/batch", "/v1/facets", "/v1/embeddings", "/v1/items", NO_FILTER),
        *("/v1/items/scroll", "/v1/items/count", "/v1/items/{item_id}/similar"),
    ],
)
@settings(DRAWN)
@given(data=st.data())
def test_whatever_a_body_holds_its_answer_is_one_that_was_promised(
    victim: House, path: str, data: st.DataObject
) -> None:
    operation = OPERATIONS[path.replace("/v1/", NAMED, 1), "post"]
    body = data.draw(nearly(operation["requestBody"]["content"]["application/json"]["schema"]) | JSON)
    if path == NO_FILTER and isinstance(body, dict):
        body = {key: value for key, value in body.items() if key != "ids"} | {"filter": {"never": "there"}}
    content = json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    response: httpx.Response = victim.client.post(
        path.replace("{item_id}", "red-box"), content=content, headers=headers
    )
    assert response.status_code < 500, response.text
    assert str(response.status_code) in operation["responses"], response.text
    if response.status_code >= 400:
        assert set(response.json()["error"]) == {"code", "message", "request_id"}


def with_simple_searches() -> dict[str, Any]:
    """The description with a text in the place of each search that another body holds: drawing one takes most
    of the time, and all that a search may have is drawn where it is the body itself.
    """
    whole = '"$ref": "#/components/schemas/Search"'
    simple = json.dumps(
        {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
            "additionalProperties": False,
        }
    )
    schemas = json.dumps(SCHEMAS)
    assert whole in schemas
    return DOCUMENT | {
        "components": DOCUMENT["components"] | {"schemas": json.loads(schemas.replace(whole, simple[1:-1]))}
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")
@pytest.mark.parametrize("operation", [one["operationId"] for one in OPERATIONS.values()])
def test_an_operation_answers_as_promised(operation: str, victim: House) -> None:
    """No crash, no status that is not declared, no refusal that the schema should have told."""
    import schemathesis
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.core.result import Ok
    from schemathesis.pytest.lazy import get_all_tests
    from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

    # Files are drawn as texts: the checks of drawn values fail on schemathesis's wrapper of bytes.
    schemathesis.openapi.format("binary", st.text())
    described = schemathesis.openapi.from_dict(with_simple_searches())

    def promise(case: schemathesis.Case[Any], victim: House) -> None:
        if "collection" in case.path_parameters:
            case.path_parameters["collection"] = "default"
        response = case.call(base_url=victim.url)
        checks = [not_a_server_error, status_code_conformance, response_schema_conformance]
        case.validate_response(response, checks=checks)
        as_described = case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE
        if as_described and response.status_code >= 400:
            assert response.json()["error"]["code"] != "bad_request", response.text

    (made,) = get_all_tests(
        schema=described.include(operation_id=operation),
        test_func=promise,
        settings=DRAWN,
        given_kwargs=None,
    )
    assert isinstance(made, Ok), made
    _, drawn = made.ok()
    drawn(victim=victim)
