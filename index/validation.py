"""Checks of items and queries before anything is written or searched."""

import json
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool

from index.contracts import Space
from index.search.engine_set import derive_rows
from index.store.item_rows import (
    MOST_FACTS,
    MOST_OBSERVATIONS,
    batch_from_items,
    edition_of,
    facts_of,
    is_storable,
)
from index.store.schema import LONGEST_ID
from multifold.errors import MultifoldError
from multifold.types import SIDE_OF, SIDES, Item, Mix, Observation, Query, Vector, Vectors

MAX_NUMBER = 1e15  # squares of such numbers, summed, still fit in float32
MAX_WEIGHT = 1e3
MOST_PARTS = 64  # of a mixed query
MOST_ITEMS = 1_000  # of one page
MOST_KEYS = 64  # counted at once
TARGETS = (*SIDES, "any")


class ItemError(MultifoldError):
    """An item that cannot be stored; says which and why."""


class QueryError(MultifoldError):
    """A query that cannot be searched."""


def check_items(items: Sequence[Item], space: Space, feature_length: int | None) -> None:
    """Refuse the first item that is not fit to be stored, by name."""
    seen: set[str] = set()
    for item in items:
        _check_id(item.id)
        if item.id in seen:
            raise ItemError(f"Item {item.id!r} stands twice in one call: which of the two is meant?")
        seen.add(item.id)
        feature_length = _check_item(item, feature_length)
    if items:
        _check_vectors(items, space)


def check_query(query: Query, dim: int) -> None:
    """Refuse a query that no engine could answer."""
    if isinstance(query.vector, Mix):
        _check_mix(query.vector, dim)
    else:
        _check_vector(query.vector, dim)
    if query.limit < 1:
        raise QueryError(f"The limit must be 1 or more, not {query.limit}.")
    if query.offset < 0:
        raise QueryError(f"The offset must be 0 or more, not {query.offset}.")
    if query.target not in TARGETS:
        raise QueryError(f"The target must be one of {', '.join(TARGETS)}, not {query.target!r}.")
    if query.pool not in ("mean", "max"):
        raise QueryError(f"The pool must be mean or max, not {query.pool!r}.")


def check_page(after: str | None, limit: int) -> None:
    """Refuse a page that nobody can turn to."""
    if after is not None and not is_storable(after):
        raise QueryError(f"There is no item {after!r} to go on from.")
    if not 1 <= limit <= MOST_ITEMS:
        raise QueryError(f"A page has 1 to {MOST_ITEMS} items, not {limit}.")


def check_facets(keys: Sequence[str], limit: int) -> None:
    """Refuse facets that cannot be counted."""
    if isinstance(keys, str) or len(keys) > MOST_KEYS or not all(map(is_storable, keys)):
        raise QueryError(f"Facets take a list of up to {MOST_KEYS} keys of the payload.")
    if limit < 1:
        raise QueryError(f"The limit must be 1 or more, not {limit}.")


def _check_vector(vector: Vector, dim: int) -> None:
    if vector.shape != (dim,):
        raise QueryError(f"The query's vector has the shape {vector.shape}, this collection's have ({dim},).")
    if not _usable(vector[None])[0]:
        raise QueryError(f"The query's vector has numbers that are not finite, or beyond {MAX_NUMBER:g}.")


def _check_mix(mix: Mix, dim: int) -> None:
    if not 1 <= len(mix.parts) <= MOST_PARTS:
        raise QueryError(f"A mixed query has 1 to {MOST_PARTS} parts, not {len(mix.parts)}.")
    for vector, weight in mix.parts:
        _check_vector(vector, dim)
        if not abs(weight) <= MAX_WEIGHT:  # false for NaN too
            raise QueryError(f"A weight lies between -{MAX_WEIGHT:g} and {MAX_WEIGHT:g}, not at {weight}.")
    if not any(weight for _, weight in mix.parts):
        raise QueryError("The weights of a mixed query are all 0: nothing is asked for.")


def _check_id(id: str) -> None:  # noqa: A002 (what an item's name is called here)
    if not id or len(id) > LONGEST_ID:
        raise ItemError(f"An item's id needs 1 to {LONGEST_ID} characters; {id[:40]!r} has {len(id)}.")
    if not is_storable(id):
        raise ItemError(
            f"Item {id!r}: the id holds characters that cannot be stored (NUL or half a surrogate pair)."
        )


def _check_item(item: Item, feature_length: int | None) -> int:
    """Returns the length of the item's features."""
    if not 0 < len(item.observations) <= MOST_OBSERVATIONS:
        many = len(item.observations)
        raise ItemError(
            f"Item {item.id!r} has {many} observations; it needs one or more, up to {MOST_OBSERVATIONS}."
        )
    _check_payload(item)
    names: set[tuple[str, int]] = set()
    length = feature_length or item.observations[0].feature.size
    for observation in item.observations:
        trouble = _trouble(observation, length)
        if trouble is None and (observation.kind, observation.index) in names:
            trouble = "stands twice"
        if trouble is not None:
            raise ItemError(f"Item {item.id!r}: {observation.kind} {observation.index} {trouble}.")
        names.add((observation.kind, observation.index))
    return length


def _trouble(observation: Observation, length: int) -> str | None:
    """What is wrong with an observation, if anything is."""
    feature = observation.feature
    if observation.kind not in SIDE_OF:
        return f"is of no known kind; kinds are {', '.join(SIDE_OF)}"
    if observation.index < 0:
        return "has a negative index"
    if observation.kind == "caption" and not (observation.text or "").strip():
        return "has no text"
    if not is_storable(observation.text or ""):
        return "has a text that cannot be stored (NUL or half a surrogate pair)"
    if feature.ndim != 1 or feature.size != length or not length:
        return (
            f"has a feature of shape {feature.shape}; the features of this collection have ({length or 'n'},)"
        )
    return None if np.isfinite(feature).all() else "has a feature with numbers that are not finite"


def _check_payload(item: Item) -> None:
    try:
        found = facts_of(json.loads(json.dumps(dict(item.payload), allow_nan=False)))
    except (TypeError, ValueError, RecursionError) as error:
        raise ItemError(f"Item {item.id!r}: the payload is not a JSON object ({error}).") from error
    if len(found) > MOST_FACTS:
        raise ItemError(
            f"Item {item.id!r}: the payload has {len(found)} values; up to {MOST_FACTS} can be filtered by."
        )


def _check_vectors(items: Sequence[Item], space: Space) -> None:
    """Features may be fine and still have no place in the space."""
    for addition in derive_rows(batch_from_items(items), space):
        bad = addition.rows[~_usable(addition.vectors)]
        if len(bad):
            raise ItemError(
                f"Item {items[int(edition_of(bad)[0])].id!r}: the encoder's geometry makes no usable vector "
                f"of its {addition.segment[0]} features (not finite, or beyond {MAX_NUMBER:g})."
            )


def _usable(vectors: Vectors) -> Bool[np.ndarray, " b"]:
    usable: Bool[np.ndarray, " b"] = (np.abs(vectors) <= MAX_NUMBER).all(axis=1)  # false for NaN too
    return usable
