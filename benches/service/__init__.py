"""The benchmark of the service: rates, latencies and processor time beside the bare library."""
