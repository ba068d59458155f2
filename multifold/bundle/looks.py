"""What a picture looks like to an encoder, in names that its bundle brings.

`looks.npz` has the names, a feature for each (texts and pictures are compared with it alike), and the
similarity from which a name fits.
"""

import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from multifold.errors import MultifoldError
from multifold.types import Features

LOOKS_FILE = "looks.npz"
MOST_NAMES = 3  # of a picture


class LooksError(MultifoldError):
    """Names that cannot be read."""


@dataclass(frozen=True)
class Looks:
    """Names, each with a feature."""

    names: Sequence[str]
    features: Features
    least: float  # similarity of a name that fits

    def fitting(self, similarities: Float32[np.ndarray, "n p"]) -> Iterator[tuple[str, ...]]:
        """The names that fit each picture, the likeliest first, given how alike each name and picture are."""
        for alike in np.ascontiguousarray(similarities.T):
            fit = np.flatnonzero(alike >= self.least)
            nearest = fit[np.argsort(-alike[fit], kind="stable")[:MOST_NAMES]]
            yield tuple(self.names[place] for place in nearest)


def write_looks(path: Path, looks: Looks) -> None:
    np.savez_compressed(path, names=np.array(looks.names), features=looks.features, least=looks.least)


def read_looks(path: Path, feature_dim: int) -> Looks:
    """Read the names of a bundle whose features are so long."""
    try:
        with np.load(path) as stored:
            names = stored["names"]
            features = stored["features"]
            least = stored["least"]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise LooksError(f"{path.name} cannot be read: {error}") from error
    if names.dtype.kind != "U" or features.shape != (*names.shape, feature_dim) or least.shape:
        raise LooksError(f"{path.name} has not a feature of {feature_dim} numbers for each name")
    return Looks(names.tolist(), features.astype(np.float32), float(least))
