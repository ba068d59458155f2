"""The ingest: uploads, source files and manifests become items of a collection."""
