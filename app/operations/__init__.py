"""Operating a service: metrics, logs, tracing, audit, readiness and drift."""
