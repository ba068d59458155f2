"""A text query as its collection understands it: what of it is words, and what is a filter."""

import json
from collections.abc import Sequence
from functools import partial

from app.collections.service import CollectionService
from app.queries.parts import TextQueryPart, WeightedParts, is_single
from app.search.reading import KEYS_OF, Condition, Reading, may_have_conditions, read_text
from index.collection import Collection
from index.store.filters import Filter, all_of, parse_filter
from index.store.keys import extreme_of
from multifold.wire.search import SearchOptions

LOOKED_AT = 16  # items with some words, in whose captions these may stand


async def understand(
    service: CollectionService, parts: WeightedParts, options: SearchOptions
) -> Reading | None:
    """What the text of a query says, if it is one text with conditions in it."""
    mode = options.understand or service.settings.understand
    part = parts[0][0]
    if mode == "off" or not is_single(parts) or not isinstance(part, TextQueryPart):
        return None
    vocabulary = await service.vocabulary()
    if not may_have_conditions(part.text, vocabulary):
        return None
    in_captions = partial(is_in_captions, service.collection)
    as_text = options.as_text or ()
    reading = await service.run(lambda: read_text(part.text, vocabulary, in_captions, as_text), admitted=True)
    return reading if reading.conditions else None


def is_in_captions(collection: Collection, text: str) -> bool:
    """Whether captions have these words one behind the other, as far as the best items with them tell."""
    words = collection.texts.words
    editions, _ = words.rank(f'"{text}"', LOOKED_AT)
    return any(isinstance(match.text, int) for match in words.matches(text, editions))


def with_text(parts: WeightedParts, reading: Reading | None) -> WeightedParts:
    """The parts of a query with the text that is left of it."""
    if reading is None:
        return parts
    return ((TextQueryPart(reading.text), parts[0][1]),)


def narrowed(where: Filter | None, conditions: Sequence[Condition]) -> Filter | None:
    return join_filters([where, *(parse_filter(one.filter) for one in conditions)])


def join_filters(filters: Sequence[Filter | None]) -> Filter | None:
    """One filter of those that there are; None if there is none."""
    stated = [one for one in filters if one is not None]
    return all_of(stated) if stated else None


def take_back(
    collection: Collection, reading: Reading, where: Filter | None
) -> tuple[Sequence[Condition], tuple[str, ...]]:
    """The conditions that leave nothing, and a sentence on each; none if all leave something together."""
    if collection.count(narrowed(where, reading.conditions)):
        return (), ()
    empty = [one for one in reading.conditions if not collection.count(narrowed(where, [one]))]
    if empty:
        return empty, tuple(_said_of(collection, one, where) for one in empty)
    words = " and ".join(repr(one.words) for one in reading.conditions)
    return reading.conditions, (f"nothing fits {words} together",)


def _said_of(collection: Collection, condition: Condition, where: Filter | None) -> str:
    """That nothing fits a condition, and what comes nearest to it."""
    sentence = f"nothing fits {condition.words!r}"
    least = '"lt' in json.dumps(condition.filter)  # what it asks for is below something
    extreme = collection.read(extreme_of, condition.keys, where, greatest=not least)
    if extreme is None:
        return sentence
    metres = " m" if condition.keys in KEYS_OF.values() else ""
    return f"{sentence}; the {'least' if least else 'most'} is {extreme:g}{metres}"
