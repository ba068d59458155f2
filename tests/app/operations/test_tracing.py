"""Spans of requests, for whoever has set up a provider or a collector."""

import sys
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from app.operations.tracing import ENDPOINT_VARIABLES, Tracing, open_tracing
from tests.answering import answering
from tests.app.house import House, box

memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
sdk = pytest.importorskip("opentelemetry.sdk.trace")
export = pytest.importorskip("opentelemetry.sdk.trace.export")
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def kept(own: House) -> Any:  # noqa: ANN401 (of an optional library)
    """The spans of the own's requests."""
    provider, exporter = sdk.TracerProvider(), memory.InMemorySpanExporter()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    app: Any = own.server.config.app
    app.state.collections.workers.telemetry.tracing = Tracing(provider)
    return exporter


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENDPOINT_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_a_search_is_a_span_with_its_steps(own: House, kept: Any) -> None:  # noqa: ANN401
    own.put("red", "red")
    own.settle()
    kept.clear()
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "mine"}
    assert own.client.post("/v1/search", json={"text": "red"}, headers=headers).status_code == 200
    own.settle()
    encode, search, request = kept.get_finished_spans()
    assert [one.name for one in (encode, search, request)] == ["encode", "search", "POST /v1/search"]
    assert encode.parent.span_id == search.parent.span_id == request.context.span_id
    assert f"{request.context.trace_id:032x}" == TRACE
    assert f"{request.parent.span_id:016x}" == PARENT
    assert request.attributes["http.response.status_code"] == 200
    assert request.attributes["multifold.request_id"] == "mine"


def test_a_write_has_a_span_for_drawing_and_encoding(own: House, kept: Any) -> None:  # noqa: ANN401
    files = [("mesh", ("box.glb", box("red"), "model/gltf-binary"))]
    assert own.client.put("/v1/items/a", files=files).status_code == 200
    own.settle()
    names = [one.name for one in kept.get_finished_spans()]
    assert names == ["draw", "make", "PUT /v1/items/{item_id:path}"]


def test_a_refusal_is_no_error_of_the_span(own: House, kept: Any) -> None:  # noqa: ANN401
    assert own.client.post("/v1/search", json={}).status_code == 422
    own.settle()
    (span,) = kept.get_finished_spans()
    assert span.attributes["http.response.status_code"] == 422
    assert span.status.is_ok or span.status.is_unset


def test_without_a_provider_nothing_is_made(unset: None) -> None:
    quiet = open_tracing()
    with quiet.request("GET", {}, "x") as answered, quiet.span("encode", clues=1) as span:
        assert span is None
        answered("/v1/info", 200)
    quiet.close()


def test_spans_go_where_the_environment_says(unset: None, monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

    with answering(Collector) as port:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        tracing = open_tracing()
        with tracing.span("encode"):
            pass
        tracing.close()
    ((path, body),) = received
    assert path == "/v1/traces"
    assert b"encode" in body
    assert b"multifold" in body


def test_without_the_extra_a_warning_says_what_to_install(
    unset: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://nowhere:4318")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with open_tracing().span("encode") as span:
        assert span is None
    assert "multifold[otel]" in caplog.text
