"""The process whose power is cut: it stores pictures, items and snapshots, and says what was acknowledged."""

import os
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

from index.collection import Collection
from index.store.database import SQLite
from multifold import durable
from tests.index.spaces import SPACE
from tests.index.storm import change

EVERY = 7  # changes after which a snapshot is taken


def careless(what: str) -> None:
    """Forget a sync, to see that it is missed."""
    if what == "store":
        prepare = SQLite._prepare

        def loose(self: SQLite, connection: object, record: object) -> None:
            prepare(self, connection, record)  # type: ignore[arg-type]
            connection.execute("PRAGMA synchronous = OFF")  # type: ignore[attr-defined]

        SQLite._prepare = loose  # type: ignore[assignment, method-assign]
    if what == "files":
        vars(durable)["os"] = SimpleNamespace(**{**vars(os), "fsync": lambda _: None})


def main(home: Path, what: str) -> None:
    """Make changes for ever."""
    careless(what)
    with Collection.open(home / "things", SPACE) as collection:
        for number in count():
            items, gone = change(number)
            if items:
                keys = [collection.blobs.put(picture(number, one.id)) for one in items]
                items = [
                    replace(one, observations=(replace(one.observations[0], blob=key), *one.observations[1:]))
                    for one, key in zip(items, keys, strict=True)
                ]
                collection.upsert(items)
            else:
                collection.delete(gone)
            print(number, flush=True)
            if number % EVERY == 0:
                collection.snapshot(home / f"{number}.tar")
                print(f"snapshot {number}", flush=True)


def picture(number: int, name: str) -> bytes:
    """The picture of an item since that change."""
    return f"{number} {name}".encode() * 50


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
