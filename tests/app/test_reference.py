"""The reference of the API names every route, every field and every type that the description has."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from app.openapi import openapi_document
from app.reference import write_reference

DOCUMENT: dict[str, Any] = json.loads(openapi_document())
TEXT = write_reference(DOCUMENT)
SECTION = re.compile(r"^### (.+)\n((?:(?!##).*\n?)*)", re.MULTILINE)
SECTIONS = dict(SECTION.findall(TEXT))


def test_every_route_has_its_body_its_answer_and_its_parameters() -> None:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            section = SECTIONS[f"{method.upper()} {path}"]
            assert f"`{operation['operationId']}`" in section
            assert ("- Body: [" in section) == ("requestBody" in operation)
            assert "- Answer 2" in section
            named = {one["name"] for one in operation.get("parameters", [])} - {"collection"}
            assert set(re.findall(r"^\| `(.+?)` \|", section, re.MULTILINE)) == named


def test_every_field_of_a_body_or_an_answer_has_a_row() -> None:
    for name, schema in DOCUMENT["components"]["schemas"].items():
        rows = re.findall(r"^\| `(.+?)` \|.*\|.*\|.*\|$", SECTIONS[name], re.MULTILINE)
        assert rows == list(schema.get("properties", {}))


def test_its_links_lead_to_types() -> None:
    headings = [one.lower() for one in re.findall(r"^#+ (.+)$", TEXT, re.MULTILINE)]
    linked = set(re.findall(r"\]\(#(.+?)\)", TEXT))
    assert len(linked) > 50
    assert all(headings.count(one) == 1 for one in linked)


def test_it_tells_types_limits_and_defaults() -> None:
    section = SECTIONS["Search"]
    assert "| `limit` | integer (from 1, to 1000) | `10` | most items in the answer |" in section
    assert "| `mix` | list of [MixPart](#mixpart) (at least 1, at most 32) or null |" in section


def test_the_routes_that_the_guide_names_exist() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
    named = re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (/v1/[\w/:.-]+)`", guide)
    routes = [
        re.compile(method.upper() + " " + re.sub(r"{\w+}", "[^/]+", path))
        for path, methods in DOCUMENT["paths"].items()
        for method in methods
    ]
    assert len(named) > 10
    for method, path in named:
        forms = (f"{method} {path}", f"{method} {path.replace('/v1/', '/v1/collections/main/', 1)}")
        assert any(route.fullmatch(form) for route in routes for form in forms), path


def test_the_command_prints_it() -> None:
    done = subprocess.run([sys.executable, "-m", "app.reference"], capture_output=True, text=True, check=True)
    assert done.stdout == TEXT
