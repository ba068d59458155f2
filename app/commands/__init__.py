"""The commands of the service: serve, ingest, keys, feedback and pull."""
