"""Which split a piece belongs to: near-twins share a signature, and a signature never crosses a split."""

import hashlib

from training.data.furniture.facts import Attribute
from training.data.furniture.piece import Piece

SHARES = {"train": 0.78, "val": 0.10, "test": 0.12}
STRUCTURAL: tuple[Attribute, ...] = ("absent", "count", "shape", "size")


def signature(piece: Piece) -> str:
    """Kind, main colour and structure; pieces that share it differ in small things only."""
    structure = sorted(fact.id for fact in piece.facts if fact.attribute in STRUCTURAL)
    return " ".join((piece.kind, piece.finish.colour, *structure))


def split(key: str) -> str:
    """The split that a key falls into, the same on every machine."""
    draw = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") / 2**64
    edge = 0.0
    for name, share in SHARES.items():
        edge += share
        if draw < edge:
            return name
    return name
