"""Files of embeddings may be larger than memory."""

import tracemalloc
from pathlib import Path

import numpy as np

from index.embedding_files import read_embeddings


def test_rows_that_wait_take_no_memory(tmp_path: Path) -> None:
    count = 10_000
    np.save(tmp_path / "many.npy", np.zeros((count, 2), np.float32))
    (tmp_path / "ids.txt").write_text("".join(f"thing {n // 2}\n" for n in range(count)))
    tracemalloc.start()
    try:
        embeddings = read_embeddings(tmp_path / "many.npy", tmp_path / "ids.txt", "image", None)
        found = sum(len(items) for items in embeddings.items())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    embeddings.close()
    assert found == count // 2
    assert peak < 4e6
