"""Pools of captions for traversals: furniture, everyday things, or the lines of a file."""

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from multifold.bundle import bundle as bundles
from multifold.bundle.bundle import POOL_FILE, Bundle
from multifold.errors import MultifoldError
from training.data.furniture import kinds
from training.data.furniture.captions import NAMELESS_NOUNS, article
from training.data.furniture.modeling import palette

EVERYDAY_FILE = Path(__file__).parent / "everyday.json"


def load_pool(name: str) -> tuple[str, ...]:
    if name == "furniture":
        return furniture_pool()
    if name == "everyday":
        return everyday_pool()
    try:
        lines = Path(name).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise MultifoldError(f"no pool 'furniture' or 'everyday', and no file of captions: {name}") from error
    return tuple(dict.fromkeys(line.strip() for line in lines if line.strip()))


def add_pool(bundle: Bundle, pool: Sequence[str]) -> Bundle:
    """The bundle with this pool, sealed again."""
    text = json.dumps(pool, indent=1, ensure_ascii=False)
    bundle.path(POOL_FILE).write_text(text + "\n", encoding="utf-8")
    return bundles.save(bundle)


def furniture_pool() -> tuple[str, ...]:
    """Short phrases of the grammar: a thing, and its colour or its material."""
    materials = (material.words[0] for material in palette.MATERIALS.values())
    adjectives = ("", *palette.COLOURS, *materials)
    phrases = (
        f"{word} {noun}".strip() for word, noun in product(adjectives, (*NAMELESS_NOUNS, *kinds.KINDS))
    )
    return tuple(f"{article(phrase)} {phrase}" for phrase in phrases)


def everyday_pool() -> tuple[str, ...]:
    """Nouns, adjectives and sentences, framed as is usual for photos."""
    words = json.loads(EVERYDAY_FILE.read_text(encoding="utf-8"))
    nouns = (f"a photo of {article(noun)} {noun}" for noun in words["nouns"])
    return (*words["sentences"], *nouns, *(f"this photo is {adjective}" for adjective in words["adjectives"]))
