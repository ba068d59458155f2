"""/v1/items as a whole: write and remove many, page through them, count them."""

import asyncio
import json
from typing import Annotated, Any

from app import shown
from app.bodies import described, json_body
from app.drafting import parts_from_json
from app.errors import ApiError, code_of
from app.ingest import Made
from app.offload import Desk, desk
from app.parsing import where
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
from app.service import Stored
from multifold.errors import MultifoldError, needs_extra

with needs_extra("serve"):
    from fastapi import APIRouter, Depends, Request

router = APIRouter(prefix="/v1/items", tags=["items"])
At = Annotated[Desk, Depends(desk)]
AT_ONCE = 4  # items of one request that are made side by side; others shall have their turn


@router.post("", responses=refusals(413, 415, 422, 429, 503), openapi_extra=described(BulkBody))
async def write(request: Request, at: At) -> BulkAnswer:
    """Write items, each in place of its former self; one that is refused does not keep the others out."""
    body = await json_body(request, at, BulkBody)
    at.check_many(len(body.items), "items")
    turns = asyncio.Semaphore(AT_ONCE)
    made = await asyncio.gather(*(_made(at, raw, turns) for raw in body.items))
    fit = [one for one in made if isinstance(one, Made)]
    stored = iter(await at.run(lambda: at.service.put(fit)) if fit else [])
    outcomes = [next(stored) if isinstance(one, Made) else one for one in made]
    results = [_entry(raw, outcome) for raw, outcome in zip(body.items, outcomes, strict=True)]
    written = [outcome.made.item.id for outcome in outcomes if isinstance(outcome, Stored)]
    if written:
        at.audit("put", written, len(written))
    version = at.service.collection.version
    refused = len(results) - len(written)
    return BulkAnswer(results=results, written=len(written), refused=refused, version=version)


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
    """A page of items in the order of their ids; its `next` begins the following page."""
    chosen = where(body.filter)
    found = await at.run(lambda: at.service.collection.scroll(body.after, body.limit, chosen))
    last = found[-1].id if len(found) == body.limit else None
    return Page(items=[shown.item(item, at.address) for item in found], next=last)


@router.post("/count", responses=refusals(413, 422, 429, 503))
async def count(at: At, body: Chosen) -> Counted:
    """How many items there are, or how many of them a filter lets through."""
    chosen = where(body.filter)
    return Counted(count=await at.run(lambda: at.service.collection.count(chosen)))


async def _made(at: Desk, raw: dict[str, Any], turns: asyncio.Semaphore) -> Made | MultifoldError:
    settings = at.service.settings
    async with turns:
        try:
            return await at.put(parts_from_json(raw, settings.max_text, settings.max_files))
        except MultifoldError as error:
            return error


def _entry(raw: dict[str, Any], outcome: Stored | MultifoldError) -> BulkEntry:
    if isinstance(outcome, Stored):
        return BulkEntry(id=outcome.made.item.id, written=shown.written(outcome))
    name = raw.get("id")
    trouble = Trouble(code=code_of(outcome), message=str(outcome))
    return BulkEntry(id=name if isinstance(name, str) else None, error=trouble)
