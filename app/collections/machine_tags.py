"""Tags that a model proposed and a person accepted: under a key of their own in the payload of items.

    {"machine_tags": {"kind": ["table"], "tags": ["red"]}}

They can be filtered by (`machine_tags.kind`) and counted. No search reads their words, and nothing is fitted
on them, so that a model does not learn from itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.collections.payloads import change_items, pages
from app.collections.service import CollectionService
from index.store import browse
from index.store.filters import AndFilter, ExistsFilter, Filter
from multifold.payload import MACHINE_TAGS
from multifold.types import Item

NO_KEY = "tags"  # of tags that are values of no key


def tags_in(payload: Mapping[str, Any], key: str) -> list[str]:
    made = payload.get(MACHINE_TAGS)
    tags = made.get(key) if isinstance(made, Mapping) else None
    return [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []


def accept_tags(
    service: CollectionService, tags: Mapping[str, Sequence[str]], key: str
) -> tuple[list[str], list[str]]:
    """Add tags to items; which items were changed, and which are not there."""

    def changed(item: Item) -> Item:
        made = dict.fromkeys([*tags_in(item.payload, key), *tags[item.id]])
        former = item.payload.get(MACHINE_TAGS)
        every = {**(former if isinstance(former, Mapping) else {}), key: list(made)}
        return replace(item, payload={**item.payload, MACHINE_TAGS: every})

    found = {name: service.collection.get(name) for name in tags}
    missing = [name for name, item in found.items() if item is None]
    there = [name for name, item in found.items() if item is not None and tags[name]]
    return [name for some in pages(there) for name in change_items(service, some, changed)], missing


def remove_tags(
    service: CollectionService,
    ids: Sequence[str] | None,
    where: Filter | None,
    key: str | None,
    tags: Sequence[str] | None,
) -> list[str]:
    """Remove machine-made tags; which items were changed."""

    def changed(item: Item) -> Item:
        former = item.payload.get(MACHINE_TAGS)
        kept: dict[str, Any] = {}
        if isinstance(former, Mapping) and (key is not None or tags is not None):
            for name, some in former.items():
                left = some
                if key in (None, name):
                    left = [
                        tag for tag in tags_in(item.payload, name) if tags is not None and tag not in tags
                    ]
                if left:
                    kept[name] = left
        rest = {name: value for name, value in item.payload.items() if name != MACHINE_TAGS}
        return replace(item, payload=rest | ({MACHINE_TAGS: kept} if kept else {}))

    tagged: Filter = ExistsFilter(MACHINE_TAGS)
    with service.collection.scoring() as (_, now):
        names = browse.list_ids(now, tagged if where is None else AndFilter((where, tagged)))
    chosen = [name for name in names if ids is None or name in set(ids)]
    return [name for some in pages(chosen) for name in change_items(service, some, changed)]
