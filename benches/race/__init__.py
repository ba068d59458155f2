"""Multifold beside the embedded libraries that others would pick, in one run."""
