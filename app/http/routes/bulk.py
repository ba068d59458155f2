"""/v1/items as a whole: write and remove many, page through them, count them."""

import json
from typing import Any

from fastapi import APIRouter, Request

from app.errors import ApiError, status_and_code
from app.http.conversion import (
    CollectionDep,
    job_answer,
    parse_filter,
    read_body,
    serialize_item,
    serialize_refusal,
    serialize_written,
)
from app.http.job_handlers import INGEST_JOB, write_many
from app.http.openapi import body_route, error_responses
from app.http.schemas.items import BulkBody, ItemDeleteBody, ItemFilterBody, ItemScrollBody
from app.ingest.pipeline import Written, WrittenItem
from index.collection import Collection
from index.store import browse
from multifold.types import Item
from multifold.wire.administration import JobAnswer
from multifold.wire.items import BulkAnswer, BulkItemOutcome, ItemCount, ItemPage, RemovalAnswer

router = APIRouter(prefix="/items", tags=["items"])


@router.post("", **body_route(BulkBody))
async def write_items(request: Request, runtime: CollectionDep) -> BulkAnswer:
    """Write items, each in place of its former self; one that is refused does not keep the others out."""
    body = await read_body(request, BulkBody, runtime.run)
    runtime.check_many(len(body.items), "items")
    outcomes = await write_many(runtime, body.items)
    results = tuple(_outcome(raw, outcome) for raw, outcome in zip(body.items, outcomes, strict=True))
    written = sum(isinstance(outcome, WrittenItem) for outcome in outcomes)
    failures = [one for one in outcomes if isinstance(one, Exception) and status_and_code(one)[0] == 503]
    if failures and len(failures) == len(outcomes):  # the service cannot store anything now
        raise failures[0]
    return BulkAnswer(results, written, len(results) - written, runtime.service.collection.version)


@router.post("/bulk", status_code=202, **body_route(BulkBody))
async def write_items_later(request: Request, runtime: CollectionDep) -> JobAnswer:
    """Write any number of items after the answer, which names the job that does it."""
    body = await read_body(request, BulkBody, runtime.run)
    spec = {"items": body.items}
    job = await runtime.parent.jobs.add(INGEST_JOB, runtime.service.name, spec, len(body.items))
    return job_answer(job)


@router.post("/delete", responses=error_responses(400, 413, 422, 429, 503))
async def delete_items(runtime: CollectionDep, body: ItemDeleteBody) -> RemovalAnswer:
    """Remove the items of these ids, or those that a filter lets through."""
    chosen = parse_filter(body.filter)
    if (body.ids is None) == (chosen is None):
        raise ApiError(422, "bad_request", "say which items to remove by 'ids' or by a 'filter', one of both")
    if chosen is not None:
        removed = await runtime.run(lambda: runtime.service.delete_where(chosen))
    else:
        removed = await runtime.run(lambda: runtime.service.delete(body.ids or []))
    runtime.audit("delete", body.ids or [json.dumps(body.filter)], removed)
    return RemovalAnswer(removed=removed)


@router.post("/scroll", responses=error_responses(400, 413, 422, 429, 503))
async def list_items(runtime: CollectionDep, body: ItemScrollBody) -> ItemPage:
    """A page of items in the order of their ids, or in another one; its `next` begins the following page."""
    items, after = await runtime.run(lambda: _page(runtime.service.collection, body))
    return ItemPage(tuple(serialize_item(item, runtime.address) for item in items), after)


@router.post("/count", responses=error_responses(400, 413, 422, 429, 503))
async def count_items(runtime: CollectionDep, body: ItemFilterBody) -> ItemCount:
    """How many items there are, or how many of them a filter lets through."""
    chosen = parse_filter(body.filter)
    return ItemCount(count=await runtime.run(lambda: runtime.service.collection.count(chosen)))


def _page(collection: Collection, body: ItemScrollBody) -> tuple[list[Item], str | None]:
    chosen = parse_filter(body.filter)
    if body.sort != "id":
        return collection.sorted(browse.parse_order(body.sort), body.after, body.limit, chosen)
    items = collection.scroll(body.after, body.limit, chosen)
    return items, items[-1].id if len(items) == body.limit else None


def _outcome(raw: dict[str, Any], outcome: Written) -> BulkItemOutcome:
    if isinstance(outcome, WrittenItem):
        return BulkItemOutcome(outcome.item.id, serialize_written(outcome))
    name = raw.get("id")
    refusal = serialize_refusal(outcome)
    return BulkItemOutcome(name if isinstance(name, str) else None, error=refusal)
