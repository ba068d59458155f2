"""Runs `multifold index` on one collection, and remembers what it said; files of embeddings to import."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index.collection import Collection
from index.contracts import CollectionLocation, Space
from multifold.cli import main
from multifold.types import Vectors

DIM = 8
VECTORS = np.random.default_rng(0).standard_normal((900, DIM)).astype(np.float32)


class Shell:
    def __init__(self, place: CollectionLocation, capsys: pytest.CaptureFixture[str]) -> None:
        self.place, self._capsys = place, capsys
        self.out = self.err = ""

    def __call__(self, *words: object) -> int:
        database = [] if self.place.database is None else ["--database", self.place.database]
        status = main(["index", *map(str, words), "--data", str(self.place.folder), *database])
        self.out, self.err = self._capsys.readouterr()
        return status

    def beside(self, place: CollectionLocation) -> "Shell":
        """The same, on another collection."""
        return Shell(place, self._capsys)

    def stats(self) -> dict[str, Any]:
        assert self("stats", "--json") == 0
        told: dict[str, Any] = json.loads(self.out)
        return told

    def opened(self, space: Space) -> Collection:
        """The collection itself, for reading."""
        return Collection.open(self.place.folder, space, database=self.place.database, read_only=True)


def embeddings(folder: Path, vectors: Vectors, ids: Sequence[str | Mapping[str, object]]) -> list[object]:
    """Files of vectors and of whose they are, in the words that import them."""
    np.save(folder / "vectors.npy", vectors)
    lines = [one if isinstance(one, str) else json.dumps(one) for one in ids]
    path = folder / ("ids.txt" if isinstance(ids[0], str) else "ids.jsonl")
    path.write_text("".join(f"{line}\n" for line in lines))
    return ["import", folder / "vectors.npy", "--ids", path]


def fifty(folder: Path) -> list[object]:
    """What imports fifty embeddings of forty things."""
    return [*embeddings(folder, VECTORS[:50], [f"thing {n % 40}" for n in range(50)]), "--metric", "cosine"]
