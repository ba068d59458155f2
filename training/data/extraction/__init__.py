"""Features of many items: a manifest in parts, each a shard, worked out by processes here or on a cluster."""
