"""Turns hits, items, observations and jobs into the types of the wire."""

from collections import Counter
from datetime import UTC, datetime
from urllib.parse import quote

from app.errors import status_and_code
from app.ingest.pipeline import WrittenItem
from app.runtime.runtime import CollectionRuntime
from app.search.query import SearchHits
from index.jobs import JobRecord
from multifold.errors import MultifoldError
from multifold.types import KIND_OF, Hit, Item, Observation
from multifold.wire.administration import JobAnswer, JobStatus
from multifold.wire.items import ItemFile, ItemWriteAnswer, ObservationInfo, Refusal, StoredItem
from multifold.wire.search import DuplicateItem, EvidenceShare, SearchAnswer, SearchHit, SearchTimings

PICTURE_FOLDERS = {"view": "views", "photo": "photos"}
TAG_LENGTH = 12
HASH_LENGTH = 64


def serialize_answer(found: SearchHits, runtime: CollectionRuntime) -> SearchAnswer:
    encode, search = 1000 * found.encode_seconds, 1000 * found.search_seconds
    return SearchAnswer(
        hits=tuple(serialize_hit(hit, runtime.address) for hit in found.hits),
        took_ms=SearchTimings(round(encode, 2), round(search, 2), round(encode + search, 2)),
        version=found.version,
        bundle=runtime.service.encoder.bundle.name,
        calibrated_by=found.basis,
        matches_well=found.matches_well,
        warnings=found.warnings,
        next=found.next,
    )


def serialize_hit(hit: Hit, address: str) -> SearchHit:
    """One hit; `address` is that of the collection."""
    return SearchHit(
        id=hit.id,
        score=hit.score,
        confidence=hit.confidence,
        chance=hit.chance,
        modality=hit.side,
        matched=serialize_observation(hit.id, hit.matched, address),
        payload=dict(hit.payload),
        sides=None if hit.sides is None else dict(hit.sides),
        words=tuple(hit.words),
        evidence=tuple(
            EvidenceShare(
                one.leg,
                one.value,
                None if one.matched is None else serialize_observation(hit.id, one.matched, address),
                one.field,
            )
            for one in hit.evidence
        ),
        duplicates=tuple(DuplicateItem(one.id, dict(one.payload)) for one in hit.same),
    )


def serialize_item(item: Item, address: str) -> StoredItem:
    files = f"{address}/items/{quote(item.id, safe='')}/files"
    return StoredItem(
        id=item.id,
        payload=dict(item.payload),
        observations=tuple(serialize_observation(item.id, one, address) for one in item.observations),
        files=tuple(
            ItemFile(index, f"{files}/{index}?v={key[:TAG_LENGTH]}", key[HASH_LENGTH:].lstrip("."))
            for index, key in enumerate(item.files)
        ),
        notes=item.notes,
    )


def serialize_written(written: WrittenItem) -> ItemWriteAnswer:
    kinds = [observation.kind for observation in written.item.observations]
    counts = dict.fromkeys(KIND_OF.values(), 0) | Counter(kinds)
    return ItemWriteAnswer(written.item.id, written.version, counts, tuple(written.warnings))


def serialize_observation(owner: str, observation: Observation, address: str) -> ObservationInfo:
    """An observation with the address of its picture, which changes when the picture does."""
    kind, index, blob = observation.kind, observation.index, observation.blob
    picture = f"{address}/items/{quote(owner, safe='')}/{PICTURE_FOLDERS.get(kind)}/{index}"
    url = f"{picture}?v={blob[:TAG_LENGTH]}" if blob is not None else None
    return ObservationInfo(kind, index, url, observation.text)


def serialize_refusal(error: MultifoldError) -> Refusal:
    return Refusal(status_and_code(error)[1], str(error))


def serialize_job(job: JobRecord) -> JobStatus:
    progress = job.progress
    return JobStatus(
        id=job.id,
        kind=job.kind,
        collection=job.collection,
        state=job.state,
        done=progress.done,
        total=progress.total,
        errors=tuple(progress.errors),
        result=progress.result,
        created=datetime.fromtimestamp(job.created, UTC),
        ended=None if job.ended is None else datetime.fromtimestamp(job.ended, UTC),
    )


def job_answer(job: JobRecord) -> JobAnswer:
    return JobAnswer(serialize_job(job))
