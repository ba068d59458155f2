"""Indexes, encoders and training on a GPU, beside the CPU of the same machine."""
