"""One piece of furniture from a seed and an index; no piece depends on any other."""

from dataclasses import replace

import numpy as np

from training.data.furniture import kinds
from training.data.furniture.captions import CaptionWriter
from training.data.furniture.modeling.facts import FurnitureFact
from training.data.furniture.modeling.piece import FurniturePiece, Workbench

CAPTIONS = 5


def make(seed: int, index: int, captions: int = CAPTIONS) -> FurniturePiece:
    """The piece at a place in the set of a seed: parts, facts and captions."""
    rng = np.random.default_rng([seed, index])
    kind = str(rng.choice(kinds.KINDS))
    bench = Workbench(rng)
    kinds.BUILDERS[kind](bench)
    piece = bench.piece(kind)
    is_a = FurnitureFact(piece.whole, "kind", kind, piece.whole.nouns, ())
    return replace(piece, captions=CaptionWriter(rng, is_a, piece.facts).write(captions))
