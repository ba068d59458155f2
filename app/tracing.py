"""Spans for OpenTelemetry: of requests, and of what is encoded, searched and drawn for them.

They go to the provider that somebody has set up before us, as `opentelemetry-instrument` does; else, with
the extra `otel`, to where the environment says (OTEL_EXPORTER_OTLP_ENDPOINT). Where nobody listens, nothing
is told.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, TypeAlias

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
NAME = "multifold"
Answered: TypeAlias = Callable[[str, int], None]  # the route of a request, and its status
_log = logging.getLogger("multifold.app")


class Tracing:
    """Tells spans to a provider, if there is one."""

    def __init__(self, provider: Any = None, *, own: bool = False) -> None:  # noqa: ANN401 (may not be installed)
        self._provider, self._own = provider, own
        self._tracer = None if provider is None else provider.get_tracer(NAME, version(NAME))

    @contextmanager
    def span(self, name: str, **told: str | int) -> Iterator[None]:
        """A step of what goes on now."""
        if self._tracer is None:
            yield
            return
        with self._tracer.start_as_current_span(name, attributes=told):
            yield

    @contextmanager
    def request(self, method: str, headers: Mapping[str, str], request_id: str) -> Iterator[Answered]:
        """A request, part of its client's own trace if that says so; tell it how it was answered."""
        if self._tracer is None:
            yield lambda _route, _status: None
            return
        trace, propagate = import_module("opentelemetry.trace"), import_module("opentelemetry.propagate")
        told = {"http.request.method": method, "multifold.request_id": request_id}
        around, kind = propagate.extract(headers), trace.SpanKind.SERVER
        with self._tracer.start_as_current_span(method, around, kind, told) as span:

            def answered(route: str, status: int) -> None:
                span.update_name(f"{method} {route}")
                span.set_attributes({"http.route": route, "http.response.status_code": status})
                if status >= 500:
                    span.set_status(trace.StatusCode.ERROR)

            yield answered

    def close(self) -> None:
        """Send what was not sent yet, if the provider is ours."""
        if self._own:
            self._provider.shutdown()


def tracing() -> Tracing:
    """To whoever listens."""
    if find_spec("opentelemetry") is None:
        return Tracing()
    trace = import_module("opentelemetry.trace")
    known = trace.get_tracer_provider()
    if not isinstance(known, (trace.ProxyTracerProvider, trace.NoOpTracerProvider)):
        return Tracing(known)
    if not any(map(os.environ.get, ENDPOINTS)):
        return Tracing()
    try:
        return Tracing(_sending(), own=True)
    except ModuleNotFoundError as error:
        _log.warning("no spans are sent: %s is not installed; pip install 'multifold[otel]'", error.name)
        return Tracing()


def _sending() -> Any:  # noqa: ANN401 (may not be installed)
    """A provider that sends to where the environment says."""
    sdk, resources = import_module("opentelemetry.sdk.trace"), import_module("opentelemetry.sdk.resources")
    export = import_module("opentelemetry.sdk.trace.export")
    otlp = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": NAME}
    provider = sdk.TracerProvider(resource=resources.Resource.create(named))
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    return provider
