"""Which words are correct in a language, and so no misspellings of others.

The lists are those of the package `pyspellchecker`. They are read when a query has a word that no item has.
"""

import gzip
import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from index.texts.analysis import FALLBACK, fold
from multifold.errors import needs_extra

LISTS = {
    "dutch": "nl",
    "english": "en",
    "french": "fr",
    "german": "de",
    "italian": "it",
    "portuguese": "pt",
    "russian": "ru",
    "spanish": "es",
}


def is_correct(word: str, languages: Iterable[str]) -> bool:
    """Whether a folded word is one of these languages, or of English, which names of files are in."""
    spoken = dict.fromkeys([*languages, FALLBACK])
    return any(word in _words(LISTS[one]) for one in spoken if one in LISTS)


@cache
def _words(name: str) -> frozenset[str]:
    with needs_extra("serve"):
        packed = files("spellchecker") / "resources" / f"{name}.json.gz"
    return frozenset(map(fold, json.loads(gzip.decompress(packed.read_bytes()))))
