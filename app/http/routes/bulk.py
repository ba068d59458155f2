"""/v1/items as a whole: write and remove many, page through them, count them."""

import json
from collections.abc import Mapping
from typing import Any

from fastapi import Response

from app.collections.payloads import patch_payloads
from app.errors import refusal, status_of_several
from app.http.dependencies import AddressDep, CollectionDep, CollectionsDep
from app.http.openapi import body_errors, some_refused
from app.http.routers import collection_router
from app.http.routes.items import serialize_item, serialize_written
from app.http.routes.jobs import serialize_job
from app.ingest.pipeline import Written, WrittenItem
from app.ingest.uploads import check_many
from app.runtime.bulk import INGEST_JOB, write_many
from app.search.cursors import checksum_body, read_mark, write_mark
from index.collection import Collection
from index.store import browse
from index.store.filters import Filter
from multifold.types import Item
from multifold.wire.administration import JobAnswer
from multifold.wire.items import (
    BulkAnswer,
    BulkBody,
    BulkItemOutcome,
    ChangeAnswer,
    ItemChangeBody,
    ItemCount,
    ItemDeleteBody,
    ItemFilterBody,
    ItemPage,
    ItemScrollBody,
    RemovalAnswer,
)

router = collection_router(prefix="/items", tags=["items"])
EVERY_ITEM, NO_FILTER = ItemScrollBody(), ItemFilterBody()  # where a request has no body


@router.post("", responses=body_errors() | some_refused(BulkAnswer))
async def write_items(service: CollectionDep, body: BulkBody, response: Response) -> BulkAnswer:
    """Write items, each in place of its former self; one that is refused does not keep the others out.

    If some are refused, the status is 207. If all are, the answer is an error, and has `results` beside it. A
    body may also be one item.
    """
    check_many(len(body.items), "items", service.settings.max_items)
    service.changes.refuse_if_full()
    outcomes = await write_many(service, body.items)
    results = tuple(_outcome(raw, outcome) for raw, outcome in zip(body.items, outcomes, strict=True))
    refusals = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    written = len(results) - len(refusals)
    answer = BulkAnswer(results, written, len(refusals), service.collection.newest)
    response.status_code = status_of_several(refusals, len(results), answer)
    return answer


@router.post("/bulk", status_code=202, responses=body_errors())
async def write_items_later(collections: CollectionsDep, service: CollectionDep, body: BulkBody) -> JobAnswer:
    """Write any number of items after the answer, which names the job that does it."""
    spec = {"items": body.items}
    job = await collections.job_runner.add(INGEST_JOB, service.name, spec, len(body.items))
    return JobAnswer(serialize_job(job))


@router.post("/delete", responses=body_errors())
async def delete_items(service: CollectionDep, body: ItemDeleteBody) -> RemovalAnswer:
    """Remove the items of these ids, or those that a filter lets through."""
    chosen = await service.filter_of(body.filter)
    if chosen is not None:
        removed = await service.changes.run(lambda: service.delete_where(chosen))
    else:
        removed = await service.changes.remove(list(body.ids or ()))
    service.audit("delete", list(body.ids or [json.dumps(body.filter)]), removed)
    return RemovalAnswer(removed=removed)


@router.post("/change", responses=body_errors())
async def change_items(service: CollectionDep, body: ItemChangeBody) -> ChangeAnswer:
    """Change the payload of the items of these ids, or of those that a filter lets through.

    A page of them is changed at a time; ids that are not there are passed over.
    """
    where = await service.filter_of(body.filter)
    changed = await patch_payloads(service, body.ids, where, body.payload)
    service.audit("patch", changed, len(changed))
    return ChangeAnswer(len(changed), service.collection.newest)


@router.post("/scroll", responses=body_errors())
async def list_items(
    service: CollectionDep, address: AddressDep, body: ItemScrollBody = EVERY_ITEM
) -> ItemPage:
    """A page of items in the order of their ids, or in another one; its `next` begins the following page."""
    service.workers.listing.refuse_if_full()
    belongs = checksum_body("items", service.name, body)
    after = read_mark(body.after, belongs)
    async with service.workers.listing.turn():
        chosen = await service.filter_of(body.filter)
        items, last = await service.run(lambda: _page(service.collection, body, after, chosen))
        page = tuple(serialize_item(item, address, vectors=body.vectors) for item in items)
        return ItemPage(page, write_mark(last, belongs))


@router.post("/count", responses=body_errors())
async def count_items(service: CollectionDep, body: ItemFilterBody = NO_FILTER) -> ItemCount:
    """How many items there are, or how many of them a filter lets through."""
    chosen = await service.filter_of(body.filter)
    return ItemCount(count=await service.run(lambda: service.collection.count(chosen)))


def _page(
    collection: Collection, body: ItemScrollBody, after: str | None, chosen: Filter | None
) -> tuple[list[Item], str | None]:
    if body.sort != "id":
        order = browse.parse_order(body.sort)
        return collection.read(browse.page_in_order, order, after, body.limit, chosen)
    return collection.read(browse.page_by_id, after, body.limit, chosen)


def _outcome(raw: Mapping[str, Any], outcome: Written) -> BulkItemOutcome:
    if isinstance(outcome, WrittenItem):
        return BulkItemOutcome(outcome.item.id, serialize_written(outcome))
    name = raw.get("id")
    return BulkItemOutcome(name if isinstance(name, str) else None, error=refusal(outcome))
