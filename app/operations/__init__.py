"""Operating a service: keys, metrics, logs, tracing, audit, readiness and drift."""
