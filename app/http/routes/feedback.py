"""/v1/feedback: keep, list and remove verdicts on hits."""

from datetime import UTC, datetime
from functools import partial
from typing import Annotated

from app.errors import ApiError
from app.feedback import recording
from app.http.dependencies import CollectionDep
from app.http.openapi import FILE_RESPONSE, describe_body, error_responses
from app.http.parsing import parse_parts, read_body
from app.http.schemas.items import MAX_PAGE
from app.http.schemas.search import FeedbackBody
from app.ingest.uploads import PICTURE_TYPES
from index.store.feedback import FeedbackFilter, Judgement
from multifold.errors import needs_extra
from multifold.types import Verdict
from multifold.wire.items import RemovalAnswer
from multifold.wire.search import FeedbackEntry, FeedbackPage, FeedbackPart, ObservationReference

with needs_extra("serve"):
    from fastapi import APIRouter, Query, Request, Response

router = APIRouter(prefix="/feedback", tags=["feedback"])


@router.post(
    "",
    responses=error_responses(403, 404, 413, 415, 422, 429, 503),
    openapi_extra=describe_body(FeedbackBody),
)
async def write(request: Request, runtime: CollectionDep) -> FeedbackEntry:
    """Say that an item is good or bad for a query; who says something else of both later, changes it."""
    body = await read_body(request, FeedbackBody, runtime.run)
    parts, shown = parse_parts(body.query, runtime.service.settings.max_text), body.observation
    observation = None if shown is None else (shown.kind, shown.index)
    judgement = await runtime.run(
        partial(
            recording.record_verdict,
            runtime.service,
            parts,
            body.query.target,
            body.item,
            observation,
            body.verdict,
            body.by,
        )
    )
    runtime.parent.telemetry.verdict(runtime.service.name, body.verdict)
    runtime.audit(f"feedback {body.verdict}", [body.item], 1)
    return _serialize(judgement, runtime.address)


@router.get("", responses=error_responses(422, 503))
async def scroll(
    runtime: CollectionDep,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
    item: str | None = None,
    verdict: Verdict | None = None,
) -> FeedbackPage:
    """A page of verdicts, of one item or of one kind; its `next` begins the following page."""
    chosen = FeedbackFilter(item, verdict)
    judgements = await runtime.run(lambda: runtime.service.collection.judgements(after, limit, chosen))
    last = judgements[-1].id if len(judgements) == limit else None
    return FeedbackPage(tuple(_serialize(one, runtime.address) for one in judgements), last)


@router.get(
    "/{feedback_id}/files/{index}",
    responses={**FILE_RESPONSE, **error_responses(404, 422)},
    response_class=Response,
)
async def file(runtime: CollectionDep, feedback_id: str, index: int) -> Response:
    """The picture or mesh that was asked with, where it is kept; parts of a mix are counted from 0."""
    judgement = await runtime.run(lambda: runtime.service.collection.judgement(feedback_id))
    parts = judgement.query if judgement else ()
    blob = parts[index].blob if 0 <= index < len(parts) else None
    if blob is None:
        raise ApiError(404, "not_found", f"no file {index} of a feedback {feedback_id[:40]!r} is kept")
    data = await runtime.run(lambda: runtime.service.collection.blobs.get(blob))
    media = PICTURE_TYPES.get(blob[64:], "application/octet-stream")
    return Response(data, media_type=media, headers={"cache-control": "private, no-cache"})


@router.delete("/{feedback_id}", responses=error_responses(422, 503))
async def remove(runtime: CollectionDep, feedback_id: str) -> RemovalAnswer:
    """Forget a verdict. Removing one that is not there removes 0."""
    removed = await runtime.run(lambda: runtime.service.collection.withdraw(feedback_id))
    runtime.audit("remove feedback", [feedback_id], removed)
    return RemovalAnswer(removed)


def _serialize(judgement: Judgement, address: str) -> FeedbackEntry:
    files = f"{address}/feedback/{judgement.id}/files"
    return FeedbackEntry(
        id=judgement.id,
        item=judgement.item,
        observation=judgement.seen and ObservationReference(*judgement.seen),
        verdict=judgement.verdict,
        by=judgement.author,
        given=datetime.fromtimestamp(judgement.given, UTC).isoformat(timespec="milliseconds"),
        target=judgement.target,
        query=tuple(
            FeedbackPart(
                part.means,
                part.weight,
                part.text,
                part.id,
                part.side,
                f"{files}/{index}" if part.blob else None,
            )
            for index, part in enumerate(judgement.query)
        ),
    )
