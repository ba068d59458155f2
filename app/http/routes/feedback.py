"""/v1/feedback: keep, list and remove verdicts on hits."""

from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

from app.errors import ApiError
from app.feedback import recording
from app.http.bodies import BINARY_FILE, describe_body, json_body
from app.http.openapi import error_responses
from app.http.parsing import parse_search
from app.http.schemas.feedback import (
    FeedbackBody,
    FeedbackPage,
    FeedbackPartResource,
    FeedbackRemoval,
    FeedbackResource,
    ObservationReference,
)
from app.http.schemas.items import MAX_PAGE
from app.ingest.uploads import PICTURE_TYPES
from app.runtime.runtime import CollectionRuntime, collection_runtime
from index.store.feedback import FeedbackFilter, Judgement, Verdict
from multifold.errors import needs_extra

with needs_extra("serve"):
    from fastapi import APIRouter, Depends, Query, Request, Response

router = APIRouter(prefix="/feedback", tags=["feedback"])
At = Annotated[CollectionRuntime, Depends(collection_runtime)]
BYTES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {"schema": BINARY_FILE}}, "description": "the file"}
}


@router.post(
    "",
    responses=error_responses(403, 404, 413, 415, 422, 429, 503),
    openapi_extra=describe_body(FeedbackBody),
)
async def write(request: Request, at: At) -> FeedbackResource:
    """Say that an item is good or bad for a query; who says something else of both later, changes it."""
    body = await json_body(request, at, FeedbackBody)
    question = parse_search(body.query, at.service.settings.max_text)
    shown = body.observation
    seen = None if shown is None else (shown.kind, shown.index)
    judged = await at.run(
        partial(recording.record_verdict, at.service, question, body.item, seen, body.verdict, body.by)
    )
    at.office.telemetry.verdict(at.service.name, body.verdict)
    at.audit(f"feedback {body.verdict}", [body.item], 1)
    return _shown(judged, at.address)


@router.get("", responses=error_responses(422, 503))
async def scroll(
    at: At,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
    item: str | None = None,
    verdict: Verdict | None = None,
) -> FeedbackPage:
    """A page of verdicts, of one item or of one kind; its `next` begins the following page."""
    chosen = FeedbackFilter(item, verdict)
    found = await at.run(lambda: at.service.collection.judgements(after, limit, chosen))
    last = found[-1].id if len(found) == limit else None
    return FeedbackPage(feedback=[_shown(one, at.address) for one in found], next=last)


@router.get(
    "/{feedback_id}/files/{index}", responses={**BYTES, **error_responses(404, 422)}, response_class=Response
)
async def file(at: At, feedback_id: str, index: int) -> Response:
    """The picture or mesh that was asked with, where it is kept; parts of a mix are counted from 0."""
    found = await at.run(lambda: at.service.collection.judgement(feedback_id))
    blob = found.query[index].blob if found and 0 <= index < len(found.query) else None
    if blob is None:
        raise ApiError(404, "not_found", f"no file {index} of a feedback {feedback_id[:40]!r} is kept")
    data = await at.run(lambda: at.service.collection.blobs.get(blob))
    media = PICTURE_TYPES.get(blob[64:], "application/octet-stream")
    return Response(data, media_type=media, headers={"cache-control": "private, no-cache"})


@router.delete("/{feedback_id}", responses=error_responses(422, 503))
async def remove(at: At, feedback_id: str) -> FeedbackRemoval:
    """Forget a verdict. Removing one that is not there removes 0."""
    removed = await at.run(lambda: at.service.collection.withdraw(feedback_id))
    at.audit("remove feedback", [feedback_id], removed)
    return FeedbackRemoval(removed=removed)


def _shown(judged: Judgement, address: str) -> FeedbackResource:
    given = datetime.fromtimestamp(judged.given, UTC).isoformat(timespec="milliseconds")
    query = [
        FeedbackPartResource(
            means=part.means,
            weight=part.weight,
            text=part.text,
            id=part.id,
            side=part.side,
            url=f"{address}/feedback/{judged.id}/files/{index}" if part.blob else None,
        )
        for index, part in enumerate(judged.query)
    ]
    return FeedbackResource(
        id=judged.id,
        item=judged.item,
        observation=judged.seen and ObservationReference(kind=judged.seen[0], index=judged.seen[1]),
        verdict=judged.verdict,
        by=judged.author,
        given=given,
        target=judged.target,
        query=query,
    )
