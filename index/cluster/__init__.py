"""Engines in a Milvus cluster, fed from the store and shared by all processes."""
