"""The keys that the payloads of a collection have, and what stands under them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from sqlalchemy import Connection, func, literal, select

from index.store.filters import Condition, Filter, filter_condition
from index.store.schema import facts, items

MOST_KEYS = 256  # that are told of; payloads may have any number,
MOST_SEEN = 4_096  # of which these are looked at
DEEP = "%.%.%"  # keys of more than two steps
MOST_TEXTS = 2_000  # of a key, that are told of


@dataclass(frozen=True)
class KeyValues:
    """What stands under a key: whether there is true or false, and the least and the greatest text."""

    numbers: bool
    truths: bool
    texts: tuple[str, str] | None


NOTHING = KeyValues(numbers=False, truths=False, texts=None)  # under a key of objects


def describe_keys(connection: Connection) -> dict[str, KeyValues]:
    """The first keys in order but those that lie deep, each found by a look into an index."""
    names = select(func.min(facts.c.key).label("key"), literal(1).label("seen")).cte("names", recursive=True)
    following = select(func.min(facts.c.key)).where(facts.c.key > names.c.key).scalar_subquery()
    more = names.c.key.is_not(None), names.c.seen < MOST_SEEN
    names = names.union_all(select(following, names.c.seen + 1).where(*more))
    of_key = facts.c.key == names.c.key
    numbers, truths = (
        select(facts.c.edition)
        .where(of_key, facts.c.kind == kind, facts.c.number.is_not(None))
        .limit(1)
        .scalar_subquery()
        for kind in ("number", "bool")
    )
    least, greatest = (
        select(end(facts.c.text)).where(of_key, facts.c.text.is_not(None)).scalar_subquery()
        for end in (func.min, func.max)
    )
    told = names.c.key.is_not(None), names.c.key.not_like(DEEP)
    found = select(names.c.key, numbers, truths, least, greatest).where(*told)
    every = (
        (key, KeyValues(number is not None, truth is not None, None if low is None else (low, high)))
        for key, number, truth, low, high in connection.execute(found).all()
    )
    return dict(islice(((key, has) for key, has in every if has != NOTHING), MOST_KEYS))


def distinct_texts(connection: Connection, keys: Sequence[str]) -> dict[str, list[str]]:
    """The first texts of each key in order, each found by a look into an index."""
    return {key: _first_texts(connection, facts.c.key == key) for key in keys}


def _first_texts(connection: Connection, of_key: Condition) -> list[str]:
    texts = select(func.min(facts.c.text).label("text")).where(of_key).cte("texts", recursive=True)
    following = select(func.min(facts.c.text)).where(of_key, facts.c.text > texts.c.text).scalar_subquery()
    texts = texts.union_all(select(following).where(texts.c.text.is_not(None)))
    found = select(texts.c.text).where(texts.c.text.is_not(None)).limit(MOST_TEXTS)
    return [*connection.scalars(found)]


def extreme_of(
    connection: Connection, keys: Sequence[str], where: Filter | None, *, greatest: bool
) -> float | None:
    """The least or the greatest, over items that pass a filter, of the greatest number under some keys."""
    largest = select(func.max(facts.c.number).label("largest")).where(
        facts.c.key.in_(keys), facts.c.kind == "number", facts.c.number.is_not(None)
    )
    if where is not None:
        largest = largest.where(facts.c.edition.in_(select(items.c.edition).where(filter_condition(where))))
    each = largest.group_by(facts.c.edition).subquery()
    end = func.max if greatest else func.min
    extreme: float | None = connection.scalar(select(end(each.c.largest)))
    return extreme
