"""Good files with a few bytes wrong, the same ones every time."""

from collections.abc import Iterator

import numpy as np

from tests.renderers.hostile.crafted import Case
from tests.renderers.hostile.originals import originals


def mutations(each: int, seed: int = 17) -> Iterator[Case]:
    """So many from each original; one of its files is changed in each."""
    random = np.random.default_rng(seed)
    for name, files in originals().items():
        for number in range(each):
            target = sorted(files)[number % len(files)]
            yield Case(f"{name} {number}", {**files, target: mutated(files[target], random)})


def mutated(data: bytes, random: np.random.Generator) -> bytes:
    """An end cut off, a piece doubled, bytes changed at random, or a number that grew."""
    kind, place = random.integers(4), int(random.integers(len(data)))
    if kind == 0:
        return data[:place]
    if kind == 1:
        return data[:place] + data[place // 2 :]
    if kind == 2:
        return data[:place] + b"\xff\xff\xff\x7f" + data[place + 4 :]
    changed = np.frombuffer(data, np.uint8).copy()
    where = random.integers(0, len(data), random.integers(1, 12))
    changed[where] = random.integers(0, 256, len(where), np.uint8)
    return changed.tobytes()
