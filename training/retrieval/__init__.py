"""Retrieval by an encoder's own vectors: features of a test set, recalls, two encoders compared."""
