"""Changes of the payloads of many items, a page at a time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from app.collections.service import CollectionService, merge_patch
from index.store import browse
from index.store.filters import Filter
from multifold.types import Item

ITEMS_A_CHANGE = 256


async def patch_payloads(
    service: CollectionService, ids: Sequence[str] | None, where: Filter | None, patch: Mapping[str, Any]
) -> list[str]:
    """Change the payload of these items, or of those that a filter lets through; which were changed.

    Searches see one page after the other.
    """

    def patched(item: Item) -> Item:
        return replace(item, payload=merge_patch(item.payload, patch))

    names = ids
    if names is None:
        names = await service.run(lambda: service.collection.read(browse.list_ids, where), admitted=True)
    changed: list[str] = []
    for page in pages(names):
        changed += await service.changes.run(partial(change_items, service, page, patched))
    return changed


def change_items(service: CollectionService, ids: Sequence[str], change: Callable[[Item], Item]) -> list[str]:
    """Write the items whose payload changes; their ids."""
    with service.writing:
        items = [item for name in ids if (item := service.collection.get(name)) is not None]
        pairs = [(item, change(item)) for item in items]
        new = [service.repaired(one) for item, one in pairs if one.payload != item.payload]
        if new:
            service.collection.upsert(new)
    return [item.id for item in new]


def pages(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """The names in pieces that are written together."""
    for start in range(0, len(names), ITEMS_A_CHANGE):
        yield names[start : start + ITEMS_A_CHANGE]
