"""The benchmark of words, on a collection small enough to know its answer."""

from pathlib import Path

import numpy as np
import pytest

from benches.index.lexical import KINDS
from index.collection import Collection
from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import captions_of
from multifold.cli import main
from multifold.types import Item
from tests.index.things import view

BUNDLE = Path("bundles/furniture")


def test_part_numbers_and_file_names_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    encoder = open_encoder(BUNDLE)
    texts = ["a red chair", "a low chair"]
    features = encoder.texts(texts).features
    rng = np.random.default_rng(0)
    with Collection.open(tmp_path, encoder) as collection:
        for number in range(12):
            seen = view(0, rng.standard_normal((features.shape[1],)).astype(np.float32))
            collection.upsert([Item(f"chair-{number:04}", (seen, *captions_of(texts, features)), {})])
    assert main(["bench", "lexical", "--data", str(tmp_path), "--bundle", str(BUNDLE)]) == 0
    rows = [
        line
        for line in capsys.readouterr().out.splitlines()
        if line.startswith(("| part", "| file", "| its"))
    ]
    assert len(rows) == len(KINDS)
    assert all(row.endswith("| 1.000 [1.000, 1.000] |") for row in rows)
