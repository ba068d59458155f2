"""Requests drawn from the API's description: no crash, no undeclared status, no refusal without a reason.

MULTIFOLD_DRAWS=fresh draws others each time, and 16 times as many; what that finds becomes an example.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings, strategies
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.pytest.lazy import get_all_tests
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
DRAWN = settings(max_examples=400 if FRESH else 25, deadline=None, suppress_health_check=list(HealthCheck))
CHECKS = [not_a_server_error, status_code_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory, bundle: Path) -> Iterator[House]:
    """A service with four boxes that may be ruined."""
    with house(tmp_path_factory.mktemp("victim"), bundle) as opened:
        for colour in BOXES:
            assert opened.put(f"{colour}-box", colour).status_code == 200
        yield opened


def promise(case: schemathesis.Case[Any], victim: House) -> None:
    response = case.call(base_url=victim.url)
    case.validate_response(response, checks=CHECKS)
    as_described = case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE
    if as_described and response.status_code >= 400:
        assert response.json()["error"]["code"] != "bad_request", response.text  # the schema should say why


@pytest.mark.parametrize("operation", OPERATIONS)
def test_it_answers_as_promised(operation: str, victim: House) -> None:
    """Its cases are made here: made while tests are collected, they would cost every run of any test."""
    (made,) = get_all_tests(
        schema=DESCRIBED.include(operation_id=operation),
        test_func=promise,
        settings=DRAWN,
        given_kwargs=None,
    )
    assert isinstance(made, Ok), made
    _, drawn = made.ok()
    drawn(victim=victim)
