"""Spans of OpenTelemetry.

They go to the provider that is set up already, as `opentelemetry-instrument` does. Else, with the extra
`otel`, they go to where OTEL_EXPORTER_OTLP_ENDPOINT says. Without either, no spans are made.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, TypeAlias

ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
TRACER_NAME = "multifold"
OnAnswer: TypeAlias = Callable[[str, int], None]  # the route of a request, and its status
_log = logging.getLogger("multifold.app")


class Tracing:
    """Makes spans, if there is a provider."""

    def __init__(self, provider: Any = None, *, own: bool = False) -> None:  # noqa: ANN401 (may not be installed)
        self._provider = provider
        self._own = own
        self._tracer = None if provider is None else provider.get_tracer(TRACER_NAME, version(TRACER_NAME))

    def span(self, name: str, **attributes: str | int) -> AbstractContextManager[Any]:
        if self._tracer is None:
            return nullcontext()
        return self._tracer.start_as_current_span(name, attributes=attributes)  # type: ignore[no-any-return]

    @contextmanager
    def request(self, method: str, headers: Mapping[str, str], request_id: str) -> Iterator[OnAnswer]:
        """The span of a request, in its client's own trace if the headers name one; call it when answered."""
        if self._tracer is None:
            yield lambda _route, _status: None
            return
        trace, propagate = import_module("opentelemetry.trace"), import_module("opentelemetry.propagate")
        attributes = {"http.request.method": method, "multifold.request_id": request_id}
        parent = propagate.extract(headers)
        with self._tracer.start_as_current_span(method, parent, trace.SpanKind.SERVER, attributes) as span:

            def answered(route: str, status: int) -> None:
                span.update_name(f"{method} {route}")
                span.set_attributes({"http.route": route, "http.response.status_code": status})
                if status >= 500:
                    span.set_status(trace.StatusCode.ERROR)

            yield answered

    def close(self) -> None:
        if self._own:
            self._provider.shutdown()


def open_tracing() -> Tracing:
    if find_spec("opentelemetry") is None:
        return Tracing()
    trace = import_module("opentelemetry.trace")
    present = trace.get_tracer_provider()
    if not isinstance(present, (trace.ProxyTracerProvider, trace.NoOpTracerProvider)):
        return Tracing(present)
    if not any(map(os.environ.get, ENDPOINT_VARIABLES)):
        return Tracing()
    try:
        return Tracing(_otlp_provider(), own=True)
    except ModuleNotFoundError as error:
        _log.warning("no spans are sent: %s is not installed; pip install 'multifold[otel]'", error.name)
        return Tracing()


def _otlp_provider() -> Any:  # noqa: ANN401 (may not be installed)
    sdk, resources = import_module("opentelemetry.sdk.trace"), import_module("opentelemetry.sdk.resources")
    export = import_module("opentelemetry.sdk.trace.export")
    otlp = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": TRACER_NAME}
    provider = sdk.TracerProvider(resource=resources.Resource.create(named))
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    return provider
