"""Clients of the cluster while a replica is killed: `docker/test` runs this in a container beside it.

    python -m tests.docker.load http://proxy:8080

Says `going`, waits for a line, goes on for a while, and fails if anything was refused, lost or torn.
"""

import io
import sys

from PIL import Image

from multifold.client import Client
from tests.drills.traffic import WRITERS, Traffic


def main(url: str) -> None:
    """Write and read, pictures too."""
    picture = io.BytesIO()
    Image.new("RGB", (64, 64), "red").save(picture, "PNG")
    with Traffic(url, picture.getvalue()) as traffic:
        traffic.more(3)
        traffic.silence = 0.0  # until here Milvus made its collections
        print("going", flush=True)
        sys.stdin.readline()
        traffic.more(6)
        traffic.passed("a replica's container is killed")
    assert not traffic.refusals, traffic.refusals
    with Client(url) as client:
        for name in WRITERS:
            (photo,) = (one for one in client.get(name).observations if one.kind == "photo")
            assert client.picture(str(photo.url))
    changes = sum(traffic.acknowledged.values()) + len(WRITERS)
    print(
        f"{traffic.answers} searches answered, {changes} changes acknowledged, none refused, none lost; "
        f"longest silence {traffic.silence:.1f} s"
    )


if __name__ == "__main__":
    main(sys.argv[1])
