"""Ask a running demo service for red chairs, and see that red chairs come."""

import sys

from multifold.client import Client

with Client(sys.argv[1]) as client:
    found = client.search(text="a red chair with four black legs", limit=5)
kinds = [(hit.payload.get("kind"), hit.payload.get("colours")) for hit in found.hits]
print(f"{found.took_ms} ms: {kinds}")
assert all(kind == "chair" for kind, _ in kinds[:3]), "the first three are no chairs"
assert "red" in str(kinds[0]), "the first is not red"
