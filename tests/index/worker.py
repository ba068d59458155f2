"""The process that is killed while it takes a snapshot, or restores one."""

import sys
from pathlib import Path

from index.collection import Collection
from index.maintenance.restore import restore_snapshot
from tests.index.spaces import SPACE


def main(what: str, source: Path, target: Path) -> None:
    """Do one of both."""
    print("begun", flush=True)
    if what == "take":
        Collection.open(source, SPACE, read_only=True).snapshot(target)
    else:
        restore_snapshot(source, target)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
