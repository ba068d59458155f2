"""/v1/feedback: keep, list and remove verdicts on hits."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import Query, Response

from app.errors import ApiError
from app.feedback import recording
from app.http.dependencies import AddressDep, CollectionDep
from app.http.openapi import FILE, body_errors, error_responses
from app.http.routers import collection_router
from app.ingest.uploads import PICTURE_TYPES
from app.queries.parts import read_parts
from app.search.cursors import checksum_body, read_mark, write_mark
from index.store.blobs import BlobKey
from index.store.feedback import (
    FeedbackFilter,
    FeedbackQueryPart,
    Judgement,
    get_judgement,
    page_of_judgements,
)
from multifold.types import Verdict
from multifold.wire.items import MAX_PAGE, RemovalAnswer
from multifold.wire.search import (
    FeedbackBody,
    FeedbackEntry,
    FeedbackPage,
    FeedbackPart,
    ObservationReference,
)

router = collection_router(prefix="/feedback", tags=["feedback"])
After = Annotated[str | None, Query(description="the `next` of the page before")]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="most verdicts of the page")]
OfItem = Annotated[str | None, Query(description="only those on this item")]
OfKind = Annotated[Verdict | None, Query(description="only these")]


@router.post("", responses=body_errors(403, 404))
async def judge_hit(service: CollectionDep, address: AddressDep, body: FeedbackBody) -> FeedbackEntry:
    """Say that an item is good or bad for a query; who says something else of both later, changes it."""
    parts = read_parts(body.query, service.settings.max_text)
    judgement = await service.changes.run(lambda: recording.record_verdict(service, parts, body))
    service.workers.telemetry.verdict(service.name, body.verdict)
    service.audit(f"feedback {body.verdict}", [body.item], 1)
    return _serialize(judgement, address)


@router.get("", responses=error_responses(422, 503))
async def list_verdicts(
    service: CollectionDep,
    address: AddressDep,
    after: After = None,
    limit: Limit = 100,
    item: OfItem = None,
    verdict: OfKind = None,
) -> FeedbackPage:
    """A page of verdicts, of one item or of one kind; its `next` begins the following page."""
    chosen = FeedbackFilter(item, verdict)
    belongs = checksum_body("feedback", service.name, chosen)
    mark = read_mark(after, belongs)
    judgements = await service.run(lambda: service.collection.read(page_of_judgements, mark, limit, chosen))
    last = judgements[-1].id if len(judgements) == limit else None
    return FeedbackPage(tuple(_serialize(one, address) for one in judgements), write_mark(last, belongs))


@router.get("/{feedback_id}/files/{index}", **FILE)
async def get_verdict_file(service: CollectionDep, feedback_id: str, index: int) -> Response:
    """The picture or mesh that was asked with, where it is kept; parts of a mix are counted from 0."""
    judgement = await service.run(lambda: service.collection.read(get_judgement, feedback_id))
    parts = judgement.query if judgement else ()
    blob = parts[index].blob if 0 <= index < len(parts) else None
    if blob is None:
        raise ApiError(404, "not_found", f"no file {index} of a feedback {feedback_id[:40]!r} is kept")
    data = await service.run(lambda: service.collection.blobs.get(blob))
    media = PICTURE_TYPES.get(BlobKey(blob).suffix, "application/octet-stream")
    return Response(data, media_type=media, headers={"cache-control": "private, no-cache"})


@router.delete("/{feedback_id}", responses=error_responses(422, 503))
async def delete_verdict(service: CollectionDep, feedback_id: str) -> RemovalAnswer:
    """Forget a verdict. Removing one that is not there removes 0."""
    removed = await service.changes.run(lambda: service.collection.withdraw(feedback_id))
    service.audit("remove feedback", [feedback_id], removed)
    return RemovalAnswer(removed)


def _serialize(judgement: Judgement, address: str) -> FeedbackEntry:
    files = f"{address}/feedback/{judgement.id}/files"

    def describe(index: int, part: FeedbackQueryPart) -> FeedbackPart:
        address = f"{files}/{index}" if part.blob else None
        return FeedbackPart(part.means, part.weight, part.text, part.id, part.side, address)

    return FeedbackEntry(
        id=judgement.id,
        item=judgement.item,
        observation=judgement.seen and ObservationReference(*judgement.seen),
        verdict=judgement.verdict,
        by=judgement.author,
        given=datetime.fromtimestamp(judgement.given, UTC).isoformat(timespec="milliseconds"),
        target=judgement.target,
        query=tuple(describe(index, part) for index, part in enumerate(judgement.query)),
    )
