"""The description of the API says what is there."""

import json
import re
from typing import Any

import pytest
from pydantic import TypeAdapter

from app.http import openapi
from app.openapi import openapi_document
from multifold.wire import administration, insight, items, labels, search

COLLECTION_OPERATIONS = {
    ("/search", "post"),
    ("/search/batch", "post"),
    ("/facets", "post"),
    ("/embeddings", "post"),
    ("/feedback", "post"),
    ("/feedback", "get"),
    ("/feedback/{feedback_id}", "delete"),
    ("/feedback/{feedback_id}/files/{index}", "get"),
    ("/traverse", "post"),
    ("/explain", "post"),
    ("/rerank", "post"),
    ("/classify", "post"),
    ("/items/tags:propose", "post"),
    ("/items/tags:accept", "post"),
    ("/items/tags:remove", "post"),
    ("/models", "get"),
    ("/models/{name}", "get"),
    ("/items", "post"),
    ("/items/delete", "post"),
    ("/items/scroll", "post"),
    ("/items/count", "post"),
    ("/items/{item_id}/similar", "post"),
    ("/items/{item_id}", "patch"),
    ("/items/{item_id}", "put"),
    ("/items/{item_id}", "get"),
    ("/items/{item_id}", "delete"),
    ("/items/{item_id}/views/{index}", "get"),
    ("/items/{item_id}/photos/{index}", "get"),
    ("/items/{item_id}/thumbnail", "get"),
    ("/snapshots", "get"),
    ("/snapshots", "post"),
    ("/snapshots/{name}", "get"),
    ("/snapshots/{name}", "delete"),
    ("/items/bulk", "post"),
    ("/items/{item_id}/files/{index}", "get"),
    ("/items/{item_id}/model", "get"),
    ("/archive", "get"),
    ("/info", "get"),
    ("/folder", "get"),
}
SERVICE_OPERATIONS = {
    ("/v1/bundles/reload", "post"),
    ("/v1/collections/{name}/reindex", "post"),
    ("/v1/collections", "get"),
    ("/v1/collections", "post"),
    ("/v1/collections/{name}", "get"),
    ("/v1/collections/{name}", "delete"),
    ("/v1/collections/{name}/rebuild", "post"),
    ("/v1/bundles", "get"),
    ("/v1/jobs", "get"),
    ("/v1/jobs/{job_id}", "get"),
    ("/v1/jobs/{job_id}/cancel", "post"),
    ("/v1/aliases", "get"),
    ("/v1/aliases/{alias}", "put"),
    ("/v1/aliases/{alias}", "delete"),
    ("/metrics", "get"),
    ("/healthz", "get"),
    ("/readyz", "get"),
}


@pytest.fixture(scope="module")
def described() -> Any:  # noqa: ANN401 (JSON)
    return json.loads(openapi_document())


def test_every_resource_is_described(described: dict[str, Any]) -> None:
    operations = {(path, method) for path, methods in described["paths"].items() for method in methods}
    short = {(f"/v1{path}", method) for path, method in COLLECTION_OPERATIONS}
    named = {(f"/v1/collections/{{collection}}{path}", method) for path, method in COLLECTION_OPERATIONS}
    assert operations == short | named | SERVICE_OPERATIONS


def test_both_forms_of_a_route_differ_in_the_name_alone(described: dict[str, Any]) -> None:
    identifiers = [one["operationId"] for methods in described["paths"].values() for one in methods.values()]
    assert len(set(identifiers)) == len(identifiers)
    for path, method in COLLECTION_OPERATIONS:
        short = described["paths"][f"/v1{path}"][method]
        named = described["paths"][f"/v1/collections/{{collection}}{path}"][method]
        (name,) = [one for one in named["parameters"] if one not in short.get("parameters", [])]
        assert (name["name"], name["in"], name["required"]) == ("collection", "path", True)
        assert {"404", "422"} | set(short["responses"]) == set(named["responses"])
        for part in ("tags", "description", "requestBody"):
            assert named.get(part) == short.get(part), (path, part)


def test_a_search_may_be_json_or_a_form(described: dict[str, Any]) -> None:
    content = described["paths"]["/v1/search"]["post"]["requestBody"]["content"]
    assert set(content) == {"application/json", "multipart/form-data"}
    body = described["components"]["schemas"]["Search"]
    for schema in (body, content["multipart/form-data"]["schema"]):
        assert {"text", "image", "mesh", "target", "limit", "pool", "filter"} <= set(schema["properties"])
    assert content["application/json"]["schema"] == {"$ref": "#/components/schemas/Search"}


def test_every_reference_leads_somewhere(described: dict[str, Any]) -> None:
    named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(described)))
    assert named <= set(described["components"]["schemas"])
    assert "$defs" not in json.dumps(described)


def test_errors_have_one_shape_everywhere(described: dict[str, Any]) -> None:
    for methods in described["paths"].values():
        for operation in methods.values():
            for status, response in operation["responses"].items():
                if status >= "400":
                    schema = response["content"]["application/json"]["schema"]
                    assert schema == {"$ref": "#/components/schemas/ErrorAnswer"}, (
                        operation["operationId"],
                        status,
                    )


def test_operations_are_named_as_methods(described: dict[str, Any]) -> None:
    for path, methods in described["paths"].items():
        for operation in methods.values():
            name = operation["operationId"]
            assert re.fullmatch(r"[a-z]+(_[a-z]+)*", name), name
            assert name.endswith("_in_collection") == path.startswith(openapi.NAMED_COLLECTION), name


def test_every_tag_has_a_sentence(described: dict[str, Any]) -> None:
    used = {tag for methods in described["paths"].values() for one in methods.values() for tag in one["tags"]}
    told = {tag["name"]: tag["description"] for tag in described["tags"]}
    assert set(told) == used
    assert all(sentence.endswith(".") for sentence in told.values())


def test_every_body_has_an_example_that_it_takes(described: dict[str, Any]) -> None:
    modules = (administration, insight, items, labels, search)
    models = {name: one for module in modules for name, one in vars(module).items()}
    seen = 0
    for path, methods in described["paths"].items():
        for operation in methods.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                schema = content["schema"]
                name = schema.get("$ref", "").rpartition("/")[2]
                (example,) = (described["components"]["schemas"][name] if name else schema)["examples"]
                assert example, path
                seen += bool(name)
                if name:
                    TypeAdapter(models[name]).validate_python(example)
    assert seen > 20


def test_keys_are_described(described: dict[str, Any]) -> None:
    assert set(described["components"]["securitySchemes"]) == {"bearer", "key"}
    search_, health = (described["paths"][path] for path in ("/v1/search", "/healthz"))
    assert search_["post"]["security"] == [{"bearer": []}, {"key": []}, {}]
    assert (search_["post"]["x-scope"], health["get"]["security"]) == ("read", [])
    assert {"401", "403"} <= set(search_["post"]["responses"])
    assert not {"401", "403"} & set(health["get"]["responses"])
