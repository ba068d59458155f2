"""/v1/items as a whole: write and remove many, page through them, count them."""

import json
from typing import Annotated, Any

from app import shown
from app.bodies import described, json_body
from app.errors import ApiError, code_of
from app.many import write_many
from app.offload import Desk, desk
from app.parsing import where
from app.routes.jobs import shown as shown_job
from app.routes.refusals import refusals
from app.schemas.errors import Trouble
from app.schemas.items import (
    BulkAnswer,
    BulkBody,
    BulkEntry,
    Chosen,
    Counted,
    DeleteBody,
    ItemsRemoved,
    Page,
    ScrollBody,
)
from app.schemas.jobs import JobAnswer
from app.service import Stored
from app.workers import INGEST
from index.collection import Collection
from index.truth import ordering
from multifold.errors import MultifoldError, needs_extra
from multifold.types import Item

with needs_extra("serve"):
    from fastapi import APIRouter, Depends, Request

router = APIRouter(prefix="/v1/items", tags=["items"])
At = Annotated[Desk, Depends(desk)]


@router.post("", responses=refusals(413, 415, 422, 429, 503), openapi_extra=described(BulkBody))
async def write(request: Request, at: At) -> BulkAnswer:
    """Write items, each in place of its former self; one that is refused does not keep the others out."""
    body = await json_body(request, at, BulkBody)
    at.check_many(len(body.items), "items")
    outcomes = await write_many(at, body.items)
    results = [_entry(raw, outcome) for raw, outcome in zip(body.items, outcomes, strict=True)]
    written = sum(isinstance(outcome, Stored) for outcome in outcomes)
    version = at.service.collection.version
    return BulkAnswer(results=results, written=written, refused=len(results) - written, version=version)


@router.post(
    "/bulk", status_code=202, responses=refusals(413, 415, 422, 429, 503), openapi_extra=described(BulkBody)
)
async def write_later(request: Request, at: At) -> JobAnswer:
    """Write any number of items after the answer, which names the job that does it."""
    body = await json_body(request, at, BulkBody)
    spec = {"items": body.items}
    job = await at.office.jobs.add(INGEST, at.service.name, spec, len(body.items))
    return JobAnswer(job=shown_job(job))


@router.post("/delete", responses=refusals(413, 422, 429, 503))
async def delete(at: At, body: DeleteBody) -> ItemsRemoved:
    """Remove the items of these ids, or those that a filter lets through."""
    chosen = where(body.filter)
    if (body.ids is None) == (chosen is None):
        raise ApiError(422, "bad_request", "say which items to remove by 'ids' or by a 'filter', one of both")
    if chosen is not None:
        removed = await at.run(lambda: at.service.delete_where(chosen))
    else:
        removed = await at.run(lambda: at.service.delete(body.ids or []))
    at.audit("delete", body.ids or [json.dumps(body.filter)], removed)
    return ItemsRemoved(removed=removed)


@router.post("/scroll", responses=refusals(413, 422, 429, 503))
async def scroll(at: At, body: ScrollBody) -> Page:
    """A page of items in the order of their ids, or in another one; its `next` begins the following page."""
    found, last = await at.run(lambda: _page(at.service.collection, body))
    return Page(items=[shown.item(item, at.address) for item in found], next=last)


@router.post("/count", responses=refusals(413, 422, 429, 503))
async def count(at: At, body: Chosen) -> Counted:
    """How many items there are, or how many of them a filter lets through."""
    chosen = where(body.filter)
    return Counted(count=await at.run(lambda: at.service.collection.count(chosen)))


def _page(collection: Collection, body: ScrollBody) -> tuple[list[Item], str | None]:
    chosen = where(body.filter)
    if body.sort != "id":
        return collection.sorted(ordering.parse(body.sort), body.after, body.limit, chosen)
    found = collection.scroll(body.after, body.limit, chosen)
    return found, found[-1].id if len(found) == body.limit else None


def _entry(raw: dict[str, Any], outcome: Stored | MultifoldError) -> BulkEntry:
    if isinstance(outcome, Stored):
        return BulkEntry(id=outcome.made.item.id, written=shown.written(outcome))
    name = raw.get("id")
    trouble = Trouble(code=code_of(outcome), message=str(outcome))
    return BulkEntry(id=name if isinstance(name, str) else None, error=trouble)
