"""Ask a running demo service for red chairs once all is there, and see that red chairs come."""

import sys
import time

from multifold.client import Client

ITEMS = 320
SECONDS = 1200

with Client(sys.argv[1]) as client:
    end = time.monotonic() + SECONDS
    while (items := client.info()["collection"]["items"]) < ITEMS:
        assert time.monotonic() < end, f"{items} of {ITEMS} items after {SECONDS} s"
        time.sleep(1)
    found = client.search(text="a red chair with four black legs", limit=5)
kinds = [(hit.payload.get("kind"), hit.payload.get("colours")) for hit in found.hits]
print(f"{found.took_ms} ms: {kinds}")
assert all(kind == "chair" for kind, _ in kinds[:3]), "the first three are no chairs"
assert "red" in str(kinds[0]), "the first is not red"
