"""Vectors of another encoder, searched without one: own_vectors.py make FOLDER, own_vectors.py ask FOLDER ID

The stand-in for another encoder counts the colours of each picture. Where your vectors come from, you have a
matrix and ids, which is all that `multifold index import` needs.
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

from index.collection import Collection
from index.plain_space import PlainSpace
from index.search.query import Query

BINS = 4


def colours(path: Path) -> np.ndarray:
    """How often each of 64 colours occurs, without the white of the background."""
    pixels = np.asarray(Image.open(path).convert("RGB")).reshape(-1, 3)
    pixels = pixels[pixels.min(axis=1) < 240]
    return np.histogramdd(pixels, BINS, [(0, 256)] * 3)[0].ravel().astype(np.float32)


def main(action: str, folder: Path, *ids: str) -> None:
    pictures = {path.stem: path for path in sorted(folder.glob("*.webp"))}
    if action == "make":
        np.save(folder / "vectors.npy", np.stack([colours(path) for path in pictures.values()]))
        (folder / "ids.txt").write_text("\n".join(pictures), encoding="utf-8")
        return
    vector = colours(pictures[ids[0]])
    vector /= np.linalg.norm(vector)  # so that scores are cosines
    with Collection.open(folder / "data", PlainSpace("cosine", len(vector)), read_only=True) as collection:
        for hit in collection.search(Query(vector, "image", 3, "max")):
            print(hit.id, f"{hit.score:.3f}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
