"""Benchmarks of the service: rates and latencies, a long load, the page, another server, sizes to come."""
