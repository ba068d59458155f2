"""Requests drawn from the API's description: no crash, no undeclared status, no refusal without a reason.

MULTIFOLD_DRAWS=fresh draws others each time, and 16 times as many; what that finds becomes an example.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings, strategies
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from app.openapi import openapi_document
from tests.app.house import BOXES, House, house
from tests.conftest import FRESH

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning"),
]
DOCUMENT = json.loads(openapi_document())
# Files are drawn as texts: the checks of drawn values fail with an error on schemathesis's wrapper of bytes.
schemathesis.openapi.format("binary", strategies.text())
DESCRIBED = schemathesis.openapi.from_dict(DOCUMENT)
OPERATIONS = [
    operation["operationId"]
    for path, operations in DOCUMENT["paths"].items()
    if not path.startswith("/v1/collections/{collection}/")  # the same routes once more
    for operation in operations.values()
]
CHECKS = [not_a_server_error, status_code_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory, bundle: Path) -> Iterator[House]:
    """A service with four boxes that may be ruined."""
    with house(tmp_path_factory.mktemp("victim"), bundle) as opened:
        for colour in BOXES:
            assert opened.put(f"{colour}-box", colour).status_code == 200
        yield opened


def promise_of(operation: str) -> Callable[..., None]:
    """The test of one operation."""

    @DESCRIBED.include(operation_id=operation).parametrize()
    @settings(max_examples=400 if FRESH else 25, deadline=None, suppress_health_check=list(HealthCheck))
    def test(case: schemathesis.Case[Any], victim: House) -> None:
        response = case.call(base_url=victim.url)
        case.validate_response(response, checks=CHECKS)
        as_described = case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE
        if as_described and response.status_code >= 400:
            assert response.json()["error"]["code"] != "bad_request", (
                response.text
            )  # the schema should say why

    checked: Callable[..., None] = test
    return checked


# Each has a name of its own: of tests with one name, several processes run a single one.
for name in OPERATIONS:
    globals()[f"test_{name}_answers_as_promised"] = promise_of(name)
