"""POST /v1/rerank and /v1/classify, and tags that are proposed, accepted and removed."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from app.collections import machine_tags
from app.collections.machine_tags import NO_KEY
from app.collections.service import CollectionService
from app.errors import ApiError
from app.http.dependencies import CollectionDep
from app.http.openapi import body_errors
from app.http.routers import collection_router
from app.ingest.uploads import check_many, check_text
from app.queries.encoding import EncodedPart
from app.queries.parts import ItemQueryPart, QueryPart, read_part, read_parts, side_of
from app.search import labelling
from app.search.cursors import checksum_body, read_mark, write_mark
from app.search.labelling import Label, as_candidate
from app.search.search import check_words, make_query
from index.legs.table import LEGS
from multifold.analysis.zero_shot import PROMPTS, fill_prompts
from multifold.types import ConfidenceBasis, Leg
from multifold.wire import labels as wire
from multifold.wire.labels import (
    MAX_LABELS,
    ClassifyBody,
    LabelBody,
    RerankBody,
    TagAcceptBody,
    TagProposalBody,
    TagRemoveBody,
    VocabularyBody,
)
from multifold.wire.search import EvidenceShare, SearchOptions

MOST_PROMPTS = MAX_LABELS * len(PROMPTS)  # of all labels of a request
router = collection_router(tags=["labels"])


@router.post("/rerank", responses=body_errors(404))
async def rerank(service: CollectionDep, body: RerankBody) -> wire.RerankAnswer:
    """Put candidates in the order of their evidence for a query: items, texts, images and meshes."""
    service.workers.labelling.refuse_if_full()
    check_many(len(body.candidates), "candidates", service.settings.max_batch)
    parts = read_parts(body, service.settings.max_text)
    named = [read_part(one, "item", service.settings.max_text) for one in body.candidates]
    asked = await asyncio.gather(*(service.encode(part) for part, _ in parts))
    encoded = await asyncio.gather(*(_encode(service, part) for part in named))
    candidates = [as_candidate(part, one) for part, one in zip(named, encoded, strict=True)]
    evidence = service.evidence_model()
    settings = service.settings
    check_words(parts, body.lexical or settings.lexical)
    query = make_query(parts, asked, SearchOptions(lexical=body.lexical), None, evidence, settings)
    version = service.collection.version
    work = partial(labelling.rank_candidates, service, query, candidates)
    async with service.workers.labelling.turn():
        ranked = await service.run(work, admitted=True)
    side = side_of(parts)
    basis: ConfidenceBasis = "collection" if side in evidence.sides else "prior"
    return wire.RerankAnswer(
        candidates=tuple(
            wire.RerankedCandidate(
                index=one.place,
                id=body.candidates[one.place].id,
                score=one.evidence,
                confidence=one.confidence if side else None,
                evidence=_shares(one.legs),
            )
            for one in ranked[: body.limit]
        ),
        calibrated_by=basis if side else None,
        version=version,
        bundle=service.encoder.bundle.name,
        warnings=_warnings([*asked, *encoded]),
    )


@router.post("/classify", responses=body_errors(404))
async def classify(service: CollectionDep, body: ClassifyBody) -> wire.ClassifyAnswer:
    """Which of some labels an item, a text, an image or a mesh is, or none of them."""
    service.workers.labelling.refuse_if_full()
    part = read_part(body, "item", service.settings.max_text)
    labels = await _labels(service, body)
    encoded = await _encode(service, part)
    version = service.collection.version
    subject = as_candidate(part, encoded)
    work = partial(labelling.classify, service, subject, labels, body.key)
    async with service.workers.labelling.turn():
        found, legs = await service.run(work, admitted=True)
    chances = [
        wire.LabelChance(
            label=label.text,
            confidence=float(found.confidence[0, place]),
            evidence=_shares(dict(zip(LEGS, legs[0, place].tolist(), strict=True))),
        )
        for place, label in enumerate(labels)
    ]
    return wire.ClassifyAnswer(
        labels=tuple(sorted(chances, key=lambda one: -one.confidence)),
        none=float(found.none[0]),
        calibrated_by=found.basis,
        version=version,
        bundle=service.encoder.bundle.name,
        warnings=_warnings([encoded]),
    )


@router.post("/items/tags:propose", responses=body_errors(404))
async def propose_tags(service: CollectionDep, body: TagProposalBody) -> wire.TagProposalAnswer:
    """Tags that items may have, each with its confidence. Nothing is written."""
    service.workers.labelling.refuse_if_full()
    labels = await _labels(service, body, body.words)
    where = await service.filter_of(body.filter)
    version = service.collection.version
    belongs = checksum_body("tags", service.name, body)
    after = read_mark(body.after, belongs)
    work = partial(labelling.propose_tags, service, body.ids, where, after, body.limit)
    async with service.workers.labelling.turn():
        found = await service.run(lambda: work(labels, body.key, body.several))
    items = {
        name: [tag for tag in tags if tag[1] >= body.min_confidence][: body.best]
        for name, tags in found.tags.items()
    }
    return wire.TagProposalAnswer(
        items=tuple(
            wire.ProposedTags(name, tuple(wire.ProposedTag(tag=tag, confidence=sure) for tag, sure in tags))
            for name, tags in items.items()
        ),
        key=body.key,
        next=write_mark(found.next, belongs),
        calibrated_by="prior" if found.chances is None else found.chances.basis,
        version=version,
        bundle=service.encoder.bundle.name,
    )


@router.post("/items/tags:accept", responses=body_errors())
async def accept_tags(service: CollectionDep, body: TagAcceptBody) -> wire.TagChangeAnswer:
    """Write proposed tags into the payload of items, where they are marked as machine-made."""
    tags: dict[str, list[str]] = {}
    for one in body.items:
        every = [(tag, 1.0) if isinstance(tag, str) else (tag.tag, tag.confidence) for tag in one.tags]
        sure = [tag for tag, confidence in every if confidence >= body.min_confidence]
        tags.setdefault(one.id, []).extend(sure)
    work = partial(machine_tags.accept_tags, service, tags, body.key or NO_KEY)
    changed, missing = await service.changes.run(work)
    service.audit("tag", changed, len(changed))
    return wire.TagChangeAnswer(len(changed), tuple(missing), service.collection.newest)


@router.post("/items/tags:remove", responses=body_errors())
async def remove_tags(service: CollectionDep, body: TagRemoveBody) -> wire.TagChangeAnswer:
    """Remove machine-made tags: all of them, or those of some items, of a key, or some tags."""
    where = await service.filter_of(body.filter)
    work = partial(machine_tags.remove_tags, service, body.ids, where, body.key, body.tags)
    changed = await service.changes.run(work)
    service.audit("untag", changed, len(changed))
    return wire.TagChangeAnswer(len(changed), (), service.collection.newest)


async def _labels(service: CollectionService, body: VocabularyBody, words: int | None = None) -> list[Label]:
    """The labels that a body names, each once."""
    templates = body.templates or PROMPTS
    named: Iterable[str | LabelBody] = body.labels or []
    if body.labels is None and words is not None:
        named = await service.run(lambda: labelling.common_words(service, words))
    elif body.labels is None and body.key is not None:
        key = body.key
        named = await service.run(lambda: labelling.values_of(service, key, MAX_LABELS))
    every: dict[str, Label] = {}
    for one in named:
        text = one if isinstance(one, str) else one.label
        prompts = fill_prompts(text, templates) if isinstance(one, str) else tuple(one.prompts)
        for checked in (text, *prompts):
            check_text(checked, service.settings.max_text)
        every.setdefault(text.casefold(), Label(text, prompts))
    if not every:
        raise ApiError(422, "no_labels", "name 'labels', or a 'key' of the payload that has texts")
    check_many(sum(len(one.prompts) for one in every.values()), "prompts of labels", MOST_PROMPTS)
    return list(every.values())


async def _encode(service: CollectionService, part: QueryPart) -> EncodedPart | None:
    return None if isinstance(part, ItemQueryPart) else await service.encode(part)


def _shares(legs: Mapping[Leg, float]) -> tuple[EvidenceShare, ...]:
    said = sorted(legs.items(), key=lambda pair: -pair[1])
    return tuple(EvidenceShare(leg, value) for leg, value in said if value)


def _warnings(encoded: Sequence[EncodedPart | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for part in encoded if part is not None for one in part.warnings))
