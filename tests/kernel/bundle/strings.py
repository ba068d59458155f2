"""Texts of every kind that people send, made from a seed and the samples in golden/strings.json."""

import json
import random
from pathlib import Path

GOLDEN = Path(__file__).parents[2] / "golden"


def samples() -> dict[str, list[str]]:
    """Words, scripts, entities, emoji, control characters, broken encodings, literals, by kind."""
    kinds: dict[str, list[str]] = json.loads((GOLDEN / "strings.json").read_text(encoding="ascii"))
    return kinds


def texts(count: int, seed: int = 0) -> list[str]:
    """Every sample by itself, then mixtures of them, some far over any context length."""
    kinds, draw = samples(), random.Random(seed)
    every = [sample for kind in kinds.values() for sample in kind]
    return every + [_mixture(draw, every, kinds["words"]) for _ in range(count - len(every))]


def _mixture(draw: random.Random, every: list[str], words: list[str]) -> str:
    kind = draw.random()
    if kind < 0.15:
        return "".join(_character(draw) for _ in range(12))
    length = draw.randrange(80, 200) if kind < 0.2 else draw.randrange(1, 16)
    source = words if kind < 0.5 else every
    glue = draw.choice((" ", " ", " ", "", ", ", "-", "  ", "\n", "'"))
    return glue.join(draw.choice(source) for _ in range(length))


def _character(draw: random.Random) -> str:
    return chr(draw.choice((draw.randrange(0xD800), draw.randrange(0xE000, 0x110000))))
