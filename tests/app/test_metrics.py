"""Numbers in Prometheus' format, and logs as JSON."""

import json
import logging
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from app.operations.logs import JsonLogFormatter, request_id
from app.operations.telemetry import CallbackMetric, MetricCounter, MetricHistogram, MetricRegistry
from multifold.bundle import bundle as bundles
from tests import tiny
from tests.app.house import House, house

LINE = re.compile(r'[a-z_]+(\{[a-z_]+="(\\.|[^"\\])*"(,[a-z_]+="(\\.|[^"\\])*")*\})? (\+Inf|[-+0-9.e]+)')


def scrape(shop: House) -> dict[str, float]:
    response = shop.client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in response.text.splitlines() if not line.startswith("#")]
    assert all(LINE.fullmatch(line) for line in lines)
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_a_family_is_written_as_prometheus_reads_it() -> None:
    registry = MetricRegistry()
    counter, histogram = MetricCounter("kind"), MetricHistogram((0.1, 1.0), "work")
    registry.add("asked_total", "Asked.", counter)
    registry.add("took_seconds", "Took.", histogram)
    registry.add("now", "Now.", CallbackMetric(lambda: [({}, 1.5)]))
    counter.add('a"b\\c\nd')
    counter.add('a"b\\c\nd', by=2.0)
    for value in (0.05, 0.1, 0.5, 7.0):
        histogram.observe(value, "x")
    assert registry.text() == (
        "# HELP asked_total Asked.\n# TYPE asked_total counter\n"
        'asked_total{kind="a\\"b\\\\c\\nd"} 3\n'
        "# HELP took_seconds Took.\n# TYPE took_seconds histogram\n"
        'took_seconds_bucket{work="x",le="0.1"} 2\n'
        'took_seconds_bucket{work="x",le="1"} 3\n'
        'took_seconds_bucket{work="x",le="+Inf"} 4\n'
        'took_seconds_sum{work="x"} 7.65\n'
        'took_seconds_count{work="x"} 4\n'
        "# HELP now Now.\n# TYPE now gauge\nnow 1.5\n"
    )


def test_requests_batches_cache_and_collection_are_counted(shop: House) -> None:
    shop.search(text="a box nobody asked for before")
    shop.settle()
    before = scrape(shop)
    shop.search(text="a box nobody asked for before")
    shop.search(text="")
    shop.settle()
    after = scrape(shop)
    good = 'multifold_requests_total{method="POST",route="/v1/search",status="200"}'
    bad = good.replace("200", "422")
    assert after[good] == before[good] + 1
    assert after[bad] == before.get(bad, 0) + 1
    hit = 'multifold_cache_requests_total{result="hit"}'
    assert after[hit] == before[hit] + 1
    assert after['multifold_items{collection="main"}'] == 4
    assert after['multifold_version{collection="main"}'] == shop.service.collection.version
    for work in ("text", "image", "search", "draw", "decode", "items"):
        assert f'multifold_queue_waiting{{work="{work}"}}' in after or work == "items"
    assert after['multifold_work_seconds_count{work="text"}'] >= 1
    assert after['multifold_batch_size_bucket{work="search",le="+Inf"}'] >= 2
    assert after["multifold_resident_bytes"] > 1e7
    shapes = 'collection="main",side="shape",kind="pooled"'
    assert after[f"multifold_index_rows{{{shapes}}}"] == 4
    assert after[f"multifold_index_sealed_rows{{{shapes}}}"] == 0
    assert after[f"multifold_index_recall{{{shapes}}}"] == 1


def test_strange_addresses_and_methods_make_no_new_labels(shop: House) -> None:
    for number in range(3):
        shop.client.get(f"/nothing-{number}")
        shop.client.request(f"X{number}", "/v1/search")
    text = shop.client.get("/metrics").text
    assert "nothing-" not in text
    assert 'method="X' not in text


def test_a_named_collection_is_counted_under_its_route(shop: House) -> None:
    for path in ("main/info", "nothing/info", "main/items/none", "nothing/nowhere"):
        shop.client.get(f"/v1/collections/{path}")
    shop.settle()
    counts, named = scrape(shop), 'multifold_requests_total{method="GET",route="/v1/collections/{collection}'
    assert counts[named + '/info",status="200"}'] == 1
    assert counts[named + '/info",status="404"}'] == 1
    assert counts[named + '/items/{item_id:path}",status="404"}'] == 1
    assert "nowhere" not in str(counts)


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


def test_rescoring_is_timed(tmp_path: Path) -> None:
    """A bundle whose geometry no index has: here it is the inner product again."""
    description = tiny.build(tmp_path / "bundle")
    nodes = [
        helper.make_node("Unsqueeze", ["query", "last"], ["column"]),
        helper.make_node("MatMul", ["candidates", "column"], ["products"]),
        helper.make_node("Squeeze", ["products", "last"], ["scores"]),
    ]
    query = helper.make_tensor_value_info("query", TensorProto.FLOAT, ["q", tiny.FEATURE])
    candidates = helper.make_tensor_value_info("candidates", TensorProto.FLOAT, ["q", "k", tiny.FEATURE])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["q", "k"])
    last = numpy_helper.from_array(np.array([2], np.int64), "last")
    graph = helper.make_graph(nodes, "rescore", [query, candidates], [scores], [last])
    opset = [helper.make_opsetid("", 17)]
    onnx.save(
        helper.make_model(graph, opset_imports=opset, ir_version=9), description.folder / "rescore.onnx"
    )
    bundles.save(description)
    with house(tmp_path / "data", description.folder) as shop:
        assert shop.put("red-box", "red").status_code == 200
        before = scrape(shop).get('multifold_work_seconds_count{work="rescore"}', 0)
        assert shop.best(text="a red box") == "red-box"
        assert scrape(shop)['multifold_work_seconds_count{work="rescore"}'] > before
