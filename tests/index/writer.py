"""One of several processes that write to the same database: it makes changes and tells each one's number."""

import sys
from pathlib import Path

import numpy as np

from index.collection import Collection
from tests.index.spaces import SPACE
from tests.index.things import thing


def main(folder: Path, database: str, number: int, count: int) -> None:
    """Write items that all processes fight for, and some of our own."""
    rng = np.random.default_rng(number)
    with Collection.open(folder, SPACE, database=database) as collection:
        for n in range(count):
            shared = [thing(f"shared {rng.integers(5)}", rng)]
            collection.upsert([*shared, thing(f"own {number} {n}", rng)])
            print(n, collection.version, flush=True)
            if n % 3 == 2:
                collection.delete([shared[0].id, f"own {number} {n - 1}"])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
