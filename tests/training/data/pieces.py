"""Pieces that the furniture tests share: a few of each kind."""

from functools import cache

import numpy as np

from training.data.furniture import kinds
from training.data.furniture.generator import make
from training.data.furniture.modeling.piece import FurniturePart, FurniturePiece
from training.data.furniture.modeling.primitives import merge

EACH = 8


@cache
def of_kind(kind: str) -> tuple[FurniturePiece, ...]:
    """Some pieces of a kind, captions and all."""
    return tuple(piece for piece in mixed() if piece.kind == kind)


@cache
def mixed() -> tuple[FurniturePiece, ...]:
    """The first pieces of a set."""
    return tuple(make(12, index, captions=8) for index in range(EACH * len(kinds.KINDS)))


def parts(piece: FurniturePiece, *names: str) -> list[FurniturePart]:
    """The parts of a piece that carry one of the names."""
    return [part for part in piece.parts if part.name in names]


def bounds(found: list[FurniturePart]) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and highest corner of some parts."""
    vertices = merge(part.mesh for part in found).vertices
    return vertices.min(0), vertices.max(0)
