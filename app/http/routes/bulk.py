"""/v1/items as a whole: write and remove many, page through them, count them."""

import json
from typing import Annotated, Any

from app.collections.service import WrittenItem
from app.errors import ApiError, error_code
from app.http import serialization
from app.http.bodies import describe_body, json_body
from app.http.job_handlers import INGEST_JOB, write_many
from app.http.openapi import error_responses
from app.http.parsing import parse_filter
from app.http.routes.jobs import serialize_job as shown_job
from app.http.schemas.errors import ErrorSummary
from app.http.schemas.items import (
    BulkAnswer,
    BulkBody,
    BulkItemOutcome,
    ItemCount,
    ItemDeleteBody,
    ItemFilterBody,
    ItemPage,
    ItemRemoval,
    ItemScrollBody,
)
from app.http.schemas.jobs import JobAnswer
from app.runtime.runtime import CollectionRuntime, collection_runtime
from index.collection import Collection
from index.store import browse
from multifold.errors import MultifoldError, needs_extra
from multifold.types import Item

with needs_extra("serve"):
    from fastapi import APIRouter, Depends, Request

router = APIRouter(prefix="/items", tags=["items"])
At = Annotated[CollectionRuntime, Depends(collection_runtime)]


@router.post("", responses=error_responses(413, 415, 422, 429, 503), openapi_extra=describe_body(BulkBody))
async def write(request: Request, at: At) -> BulkAnswer:
    """Write items, each in place of its former self; one that is refused does not keep the others out."""
    body = await json_body(request, at, BulkBody)
    at.check_many(len(body.items), "items")
    outcomes = await write_many(at, body.items)
    results = [_entry(raw, outcome) for raw, outcome in zip(body.items, outcomes, strict=True)]
    written = sum(isinstance(outcome, WrittenItem) for outcome in outcomes)
    version = at.service.collection.version
    return BulkAnswer(results=results, written=written, refused=len(results) - written, version=version)


@router.post(
    "/bulk",
    status_code=202,
    responses=error_responses(413, 415, 422, 429, 503),
    openapi_extra=describe_body(BulkBody),
)
async def write_later(request: Request, at: At) -> JobAnswer:
    """Write any number of items after the answer, which names the job that does it."""
    body = await json_body(request, at, BulkBody)
    spec = {"items": body.items}
    job = await at.office.jobs.add(INGEST_JOB, at.service.name, spec, len(body.items))
    return JobAnswer(job=shown_job(job))


@router.post("/delete", responses=error_responses(413, 422, 429, 503))
async def delete(at: At, body: ItemDeleteBody) -> ItemRemoval:
    """Remove the items of these ids, or those that a filter lets through."""
    chosen = parse_filter(body.filter)
    if (body.ids is None) == (chosen is None):
        raise ApiError(422, "bad_request", "say which items to remove by 'ids' or by a 'filter', one of both")
    if chosen is not None:
        removed = await at.run(lambda: at.service.delete_where(chosen))
    else:
        removed = await at.run(lambda: at.service.delete(body.ids or []))
    at.audit("delete", body.ids or [json.dumps(body.filter)], removed)
    return ItemRemoval(removed=removed)


@router.post("/scroll", responses=error_responses(413, 422, 429, 503))
async def scroll(at: At, body: ItemScrollBody) -> ItemPage:
    """A page of items in the order of their ids, or in another one; its `next` begins the following page."""
    found, last = await at.run(lambda: _page(at.service.collection, body))
    return ItemPage(items=[serialization.serialize_item(item, at.address) for item in found], next=last)


@router.post("/count", responses=error_responses(413, 422, 429, 503))
async def count(at: At, body: ItemFilterBody) -> ItemCount:
    """How many items there are, or how many of them a filter lets through."""
    chosen = parse_filter(body.filter)
    return ItemCount(count=await at.run(lambda: at.service.collection.count(chosen)))


def _page(collection: Collection, body: ItemScrollBody) -> tuple[list[Item], str | None]:
    chosen = parse_filter(body.filter)
    if body.sort != "id":
        return collection.sorted(browse.parse_order(body.sort), body.after, body.limit, chosen)
    found = collection.scroll(body.after, body.limit, chosen)
    return found, found[-1].id if len(found) == body.limit else None


def _entry(raw: dict[str, Any], outcome: WrittenItem | MultifoldError) -> BulkItemOutcome:
    if isinstance(outcome, WrittenItem):
        return BulkItemOutcome(id=outcome.made.item.id, written=serialization.serialize_written(outcome))
    name = raw.get("id")
    trouble = ErrorSummary(code=error_code(outcome), message=str(outcome))
    return BulkItemOutcome(id=name if isinstance(name, str) else None, error=trouble)
