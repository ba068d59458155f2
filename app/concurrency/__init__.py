"""Batches and bounded thread pools, which keep work off the event loop."""
