"""A store as a released version of this program left it, and what it held in plain words.

    python -m tests.golden.make_store     writes store_N.sqlite and store_N.json, N being today's schema

Run it before a release whose schema is new, and commit both files: test_migrations.py opens every one.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from index.collection import Collection
from index.store.schema import VERSION
from multifold.types import Item
from tests.index.spaces import SPACE
from tests.index.things import thing

FOLDER = Path(__file__).parent
PAYLOADS: tuple[dict[str, Any], ...] = (
    {"price": 3.5, "tags": ["a", None]},
    {"deep": {"x": [1]}, "名": "椅子"},
    {},
    {"sold": True},
)


def items() -> list[Item]:
    """Items in the order in which they were last written."""
    rng = np.random.default_rng(7)
    made = [thing(f"item/{n} ☃", rng, views=1 + n % 3, captions=n % 2) for n in range(8)]
    return [Item(one.id, one.observations, PAYLOADS[n % len(PAYLOADS)]) for n, one in enumerate(made)]


def main() -> None:
    """Write the store by way of replaced and deleted items, so that its log has some history."""
    made = items()
    with tempfile.TemporaryDirectory() as folder:
        with Collection.open(Path(folder), SPACE) as collection:
            collection.upsert([Item("gone", made[0].observations), *made[::-1]])
            collection.delete(["gone"])
            collection.upsert(made)
            version = collection.version
        store = (Path(folder) / "store.sqlite").read_bytes()
    told = {"version": version, "items": [_told(item) for item in made]}
    (FOLDER / f"store_{VERSION}.sqlite").write_bytes(store)
    (FOLDER / f"store_{VERSION}.json").write_text(
        json.dumps(told, ensure_ascii=False, indent=1) + "\n", "utf-8"
    )


def _told(item: Item) -> dict[str, object]:
    seen = [[one.kind, one.index, one.feature.tolist(), one.text, one.blob] for one in item.observations]
    return {"id": item.id, "observations": seen, "payload": dict(item.payload)}


if __name__ == "__main__":
    main()
