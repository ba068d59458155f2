"""Benchmarks of training: losses, the loop, ablations, every geometry, learning from feedback."""
