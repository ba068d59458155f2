"""One search of several collections: each answers by itself, with its own encoder, and their hits are merged.

Hits are ordered by how likely each is what is meant: by its share of the evidence of its collection, times
the chance that this collection has what is meant (see shares.py). A score is the evidence as the likeliest
collection would give it, and a confidence is that of the item's own collection times that chance.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from heapq import merge
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from app.errors import ApiError
from app.ingest.uploads import read_mesh_file, read_upload
from app.queries.parts import WeightedParts
from app.search.cursors import NO_CURSOR, write_cursor
from app.search.paging import SearchPage
from app.search.search import passes_thresholds
from app.search.shares import log_chances
from app.settings import RemoteCollection
from multifold.client import AsyncClient, ServiceError
from multifold.errors import MultifoldError
from multifold.wire.items import ObservationInfo, Refusal
from multifold.wire.search import MAX_OFFSET, Search, SearchAnswer, SearchHit, SearchTimings, SubjectBody

AskMember: TypeAlias = Callable[[Search], Awaitable[SearchAnswer]]
Subject = TypeVar("Subject", bound=SubjectBody)
REMOTE_SECONDS = 5.0  # after which a collection elsewhere is left out


async def search_several(
    members: Mapping[str, AskMember], body: Search, parts: WeightedParts
) -> SearchAnswer:
    """The merged answer of collections; those that cannot answer are named in its warnings."""
    started = time.perf_counter()
    page = SearchPage.of("search", "\n".join(members), parts, body)
    before = read_places(page.last, members)
    whole = replace(body, collections=None, after=None, min_confidence=None, min_score=None)
    bodies = [replace(whole, offset=before[name].taken) for name in members]
    found = await asyncio.gather(*map(attempt, members.values(), bodies))
    told = dict(zip(members, found, strict=True))
    refusals = {name: one for name, one in told.items() if isinstance(one, MultifoldError)}
    if len(refusals) == len(told):
        raise next(iter(refusals.values()))
    answers, lacking = without_lacking(
        {name: one for name, one in told.items() if isinstance(one, SearchAnswer)}
    )
    new = log_chances(answers)
    places = {
        name: MemberPlace(place.taken, new[name], answers[name].everything or 0.0)
        if place.chance is None and name in new
        else place
        for name, place in before.items()
    }
    hits = merge_hits(answers, places)[: body.limit]
    kept = tuple(hit for hit in hits if passes_thresholds(hit, body))
    counts = Counter(hit.collection for hit in hits)
    after = {name: place._replace(taken=place.taken + counts[name]) for name, place in places.items()}
    more = len(kept) == body.limit and max(one.taken for one in after.values()) <= MAX_OFFSET
    first = answers[kept[0].collection or ""] if kept else next(iter(answers.values()))
    fitted = all(one.calibrated_by == "collection" for one in answers.values())
    seconds = 1000 * (time.perf_counter() - started)
    return SearchAnswer(
        hits=kept,
        took_ms=SearchTimings(0.0, round(seconds, 2), round(seconds, 2)),
        version=max(one.version for one in answers.values()),
        versions={name: one.version for name, one in answers.items()},
        bundle=", ".join(dict.fromkeys(one.bundle for one in answers.values())),
        calibrated_by="collection" if fitted else "prior",
        matches_well=first.matches_well,
        understood=first.understood,
        everything=all_evidence(places),
        warnings=(
            *(f"{name} did not answer: {error}" for name, error in refusals.items()),
            *(f"{name} has nothing of which {words} could be true" for name, words in lacking.items()),
            *(f"{name}: {warning}" for name, one in answers.items() for warning in one.warnings),
        ),
        next=write_cursor(page.asked, sum(counts.values()) + page.place, json.dumps(after)) if more else None,
    )


class MemberPlace(NamedTuple):
    """How many hits of a collection come before a page, and how likely it has what is meant."""

    taken: int = 0
    chance: float | None = None  # its logarithm; None: not known yet, or it has nothing to show
    everything: float = 0.0  # nats that all of its items say together


def read_places(mark: str | None, members: Mapping[str, AskMember]) -> dict[str, MemberPlace]:
    """Where a page begins in each collection."""
    if mark is None:
        return dict.fromkeys(members, MemberPlace())
    with suppress(ValueError, TypeError, KeyError):
        told = json.loads(mark)
        places = {name: MemberPlace(*told[name]) for name in members}
        numbers = [(one.chance or 0.0, one.everything) for one in places.values()]
        taken = [one.taken for one in places.values()]
        if np.isfinite(numbers).all() and all(type(one) is int and 0 <= one <= MAX_OFFSET for one in taken):
            return places
    raise ApiError(422, "bad_cursor", NO_CURSOR)


async def attempt(ask: AskMember, body: Search) -> SearchAnswer | MultifoldError:
    try:
        return await ask(body)
    except MultifoldError as error:
        return error


def without_lacking(answers: Mapping[str, SearchAnswer]) -> tuple[dict[str, SearchAnswer], dict[str, str]]:
    """The answers but those of collections without a key that others read a filter of; and these words."""
    read = {
        name: {one.words for one in answer.understood.conditions} if answer.understood else set[str]()
        for name, answer in answers.items()
    }
    every = set[str]().union(*read.values())
    kept = {name: one for name, one in answers.items() if read[name] == every}
    if not kept:  # each has a part of them
        return {**answers}, {}
    lacking = {
        name: " and ".join(map(repr, sorted(every - words))) for name, words in read.items() if words != every
    }
    return kept, lacking


def level_of(places: Mapping[str, MemberPlace]) -> float:
    """What the evidence of the likeliest collection has beyond the logarithm of its chance."""
    known = [(one.chance, one.everything) for one in places.values() if one.chance is not None]
    chance, everything = max(known, default=(0.0, 0.0))
    return everything - chance


def all_evidence(places: Mapping[str, MemberPlace]) -> float | None:
    """Nats that all items of all say together."""
    chances = [one.chance for one in places.values() if one.chance is not None]
    return level_of(places) + float(np.logaddexp.reduce(chances)) if chances else None


def merge_hits(answers: Mapping[str, SearchAnswer], places: Mapping[str, MemberPlace]) -> list[SearchHit]:
    """The hits of all, best first, and none surer than one before it."""
    level, total = level_of(places), all_evidence(places) or 0.0
    each = []
    for name, answer in answers.items():
        place = places[name]
        if place.chance is not None:
            among_all = place.chance + level
            share, more = float(np.exp(among_all - total)), among_all - place.everything
            each.append([of_collection(hit, name, share, more) for hit in answer.hits])
    ranked = [*merge(*each, key=attrgetter("score"), reverse=True)]
    if any(hit.confidence is None for hit in ranked):
        return ranked
    falling = accumulate((hit.confidence or 0.0 for hit in ranked), min)
    return [replace(hit, confidence=sure) for hit, sure in zip(ranked, falling, strict=True)]


def of_collection(hit: SearchHit, name: str, share: float, more: float) -> SearchHit:
    """A hit of a collection with this share of the chance, and so much more evidence among all."""
    sure = None if hit.confidence is None else hit.confidence * share
    return replace(hit, collection=name, score=hit.score + more, confidence=sure)


def check_several(body: Search) -> None:
    """Refuse what only one collection can answer."""
    for name in ("id", "vector"):
        if getattr(body, name) is not None or any(getattr(part, name) is not None for part in body.mix or ()):
            raise ApiError(
                422, "bad_query", f"several collections are asked with texts and files, not by {name!r}"
            )
    whole = body.target == "item" and body.lexical in (None, "auto") and body.pool == "mean"
    if not whole or body.examples or body.diversity or body.error is not None:
        sentence = (
            "several collections are compared by their evidence: with the target 'item', and without "
            "'examples', 'diversity', 'error', 'pool' and 'lexical'"
        )
        raise ApiError(422, "needs_evidence", sentence)
    if body.seen is not None:
        raise ApiError(422, "bad_query", "each collection has versions of its own: ask without 'seen'")
    if body.offset or body.duplicates == "fold":
        sentence = "several collections are read page by page with 'after', and without folding duplicates"
        raise ApiError(422, "bad_query", sentence)


@asynccontextmanager
async def open_remotes(remotes: Mapping[str, RemoteCollection]) -> AsyncIterator[dict[str, AskMember]]:
    """How each collection of another service is asked, as long as the block lasts."""
    async with AsyncExitStack() as stack:
        members: dict[str, AskMember] = {}
        for name, one in remotes.items():
            client = AsyncClient(one.url, REMOTE_SECONDS, one.key, one.collection)
            members[name] = partial(ask_remote, await stack.enter_async_context(client), one)
        yield members


async def ask_remote(client: AsyncClient, remote: RemoteCollection, body: Search) -> SearchAnswer:
    """The answer of a collection of another service; addresses of pictures lead there."""
    mix = None if body.mix is None else [with_files(part) for part in body.mix]
    try:
        (answer,) = await client.search_many([replace(with_files(body), mix=mix)])
    except ServiceError as error:
        raise ApiError(503, "not_ready", error.message) from error
    if isinstance(answer, Refusal):
        raise ApiError(422, answer.code, answer.message)
    if answer.hits and answer.everything is None:
        sentence = f"{remote.url} is of an older version, whose hits cannot be merged"
        raise ApiError(503, "not_ready", sentence)
    return replace(answer, hits=tuple(with_address(hit, remote.url) for hit in answer.hits))


def with_files(body: Subject) -> Subject:
    """A body whose files are no texts, which a client would take for paths of this machine."""
    if body.image is not None:
        return replace(body, image=read_upload(body.image, "image"))
    if body.mesh is not None:
        mesh = read_upload(body.mesh, "mesh")
        form = read_mesh_file(mesh, body.mesh_format).suffix.lstrip(".")
        return replace(body, mesh=mesh, mesh_format=form)
    return body


def with_address(hit: SearchHit, url: str) -> SearchHit:
    """A hit whose pictures lie on another service."""

    def moved(seen: ObservationInfo) -> ObservationInfo:
        return seen if seen.url is None else replace(seen, url=f"{url}{seen.url}")

    evidence = tuple(
        one if one.matched is None else replace(one, matched=moved(one.matched)) for one in hit.evidence
    )
    return replace(hit, matched=moved(hit.matched), evidence=evidence)
