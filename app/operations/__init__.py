"""Operating a service: keys, metrics, logs, tracing and audit."""
