"""Logs as JSON lines."""

import json
import logging
from pathlib import Path

import pytest

from app.operations.logs import JsonLogFormatter, request_id
from tests.app.house import house


def test_a_log_line_is_json_with_the_request_it_belongs_to() -> None:
    token = request_id.set("r-1")
    try:
        record = logging.LogRecord("multifold.app", logging.ERROR, "", 1, "it %s", ("broke",), None)
        line = json.loads(JsonLogFormatter().format(record))
    finally:
        request_id.reset(token)
    assert (line["message"], line["level"], line["request_id"]) == ("it broke", "error", "r-1")


def test_all_requests_are_logged_if_wanted(
    tmp_path: Path, bundle: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "multifold.access")
    with house(tmp_path, bundle, log="all") as shop:
        shop.client.get("/v1/items/none?secret=1", headers={"x-request-id": "r-2"})
    lines = [json.loads(JsonLogFormatter().format(record)) for record in caplog.records]
    assert lines, caplog.text
    mine = next(line for line in lines if line.get("route") == "/v1/items/{item_id:path}")
    assert (mine["event"], mine["status"], mine["method"], mine["key"]) == ("request", 404, "GET", None)
    assert "secret" not in json.dumps(lines)
