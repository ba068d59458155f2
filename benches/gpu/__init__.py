"""Indexes and encoders on a GPU, beside the CPU of the same machine."""
