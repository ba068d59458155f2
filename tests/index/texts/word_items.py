"""Items by their words, and what an index of them finds."""

import numpy as np

from index.contracts import Ids
from index.texts.contracts import ItemTexts
from index.texts.words import WordIndex


def item(
    edition: int, name: str = "x", *captions: str, path: str | None = None, values: str = ""
) -> ItemTexts:
    return ItemTexts(edition, name, path, captions, tuple(values.split(";")) if values else ())


def ids(*editions: int) -> Ids:
    return np.array(editions, np.int64)


def index_of(*items: ItemTexts) -> WordIndex:
    index = WordIndex()
    index.add(items)
    return index


def found(index: WordIndex, query: str, limit: int = 10) -> list[int]:
    return [int(edition) for edition in index.rank(query, limit)[0]]
