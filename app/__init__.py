"""The service: its HTTP API, the ingest of files, its operation, and its commands."""
