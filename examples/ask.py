"""Ask a running service: ask.py "a red chair" [--filter '{"price": {"lt": 100}}'] or ask.py --image photo.jpg

It waits for a service that is just starting. MULTIFOLD_URL names another than http://127.0.0.1:8000.
"""

import argparse
import json
import os
import time

from multifold.client import Client

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("text", nargs="?")
parser.add_argument("--image")
parser.add_argument("--target", default="item")
parser.add_argument("--filter", type=json.loads)
args = parser.parse_args()

with Client(os.environ.get("MULTIFOLD_URL", "http://127.0.0.1:8000")) as client:
    while not client.ready():
        time.sleep(0.5)
    found = client.search(text=args.text, image=args.image, target=args.target, filter=args.filter, limit=3)
    for hit in found.hits:
        sure = "" if hit.confidence is None else f"{hit.confidence:.0%}"
        print(f"{hit.id} {sure} {hit.matched.text or hit.matched.url}")
