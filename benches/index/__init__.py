"""Benchmarks of the index: speed and recall beside other engines, filters, durability."""
