"""The API that is described is the one that is committed, and it describes what is there."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from app.openapi import openapi_document

COMMITTED = Path(__file__).parents[2] / "docs" / "openapi.json"


@pytest.fixture(scope="module")
def described() -> Any:  # noqa: ANN401 (JSON)
    return json.loads(openapi_document())


def test_the_committed_description_is_current() -> None:
    message = "run: python -m app.openapi > docs/openapi.json"
    assert COMMITTED.read_text(encoding="utf-8") == openapi_document(), message


def test_every_resource_is_described(described: dict[str, Any]) -> None:
    assert {(path, method) for path, methods in described["paths"].items() for method in methods} == {
        ("/v1/search", "post"),
        ("/v1/search/batch", "post"),
        ("/v1/facets", "post"),
        ("/v1/embeddings", "post"),
        ("/v1/bundles/reload", "post"),
        ("/v1/collections/{name}/reindex", "post"),
        ("/v1/feedback", "post"),
        ("/v1/feedback", "get"),
        ("/v1/feedback/{feedback_id}", "delete"),
        ("/v1/feedback/{feedback_id}/files/{index}", "get"),
        ("/v1/traverse", "post"),
        ("/v1/explain", "post"),
        ("/v1/models", "get"),
        ("/v1/models/{name}", "get"),
        ("/v1/items", "post"),
        ("/v1/items/delete", "post"),
        ("/v1/items/scroll", "post"),
        ("/v1/items/count", "post"),
        ("/v1/items/{item_id}/similar", "post"),
        ("/v1/items/{item_id}", "patch"),
        ("/v1/items/{item_id}", "put"),
        ("/v1/items/{item_id}", "get"),
        ("/v1/items/{item_id}", "delete"),
        ("/v1/items/{item_id}/views/{index}", "get"),
        ("/v1/items/{item_id}/photos/{index}", "get"),
        ("/v1/items/{item_id}/thumbnail", "get"),
        ("/v1/snapshots", "get"),
        ("/v1/snapshots", "post"),
        ("/v1/snapshots/{name}", "get"),
        ("/v1/snapshots/{name}", "delete"),
        ("/v1/collections", "get"),
        ("/v1/collections", "post"),
        ("/v1/collections/{name}", "get"),
        ("/v1/collections/{name}", "delete"),
        ("/v1/items/bulk", "post"),
        ("/v1/collections/{name}/rebuild", "post"),
        ("/v1/bundles", "get"),
        ("/v1/items/{item_id}/files/{index}", "get"),
        ("/v1/jobs", "get"),
        ("/v1/jobs/{job_id}", "get"),
        ("/v1/jobs/{job_id}/cancel", "post"),
        ("/v1/aliases", "get"),
        ("/v1/aliases/{alias}", "put"),
        ("/v1/aliases/{alias}", "delete"),
        ("/v1/info", "get"),
        ("/metrics", "get"),
        ("/healthz", "get"),
        ("/readyz", "get"),
    }


def test_a_search_may_be_json_or_a_form(described: dict[str, Any]) -> None:
    content = described["paths"]["/v1/search"]["post"]["requestBody"]["content"]
    assert set(content) == {"application/json", "multipart/form-data"}
    body = described["components"]["schemas"]["SearchBody"]
    for schema in (body, content["multipart/form-data"]["schema"]):
        assert {"text", "image", "mesh", "target", "limit", "pool", "filter"} <= set(schema["properties"])
    assert content["application/json"]["schema"] == {"$ref": "#/components/schemas/SearchBody"}


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
