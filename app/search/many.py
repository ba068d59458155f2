"""One search of several collections: each answers by itself, with its own encoder, and their hits are merged.

The evidence of a hit is in nats beyond chance, whatever the collection, so hits are ordered by it. What all
items of a collection say together says how likely it is that what is meant is there: the confidence of a hit
is that of its own collection, times the share that this collection has of all.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from heapq import merge
from itertools import accumulate, islice
from operator import attrgetter
from typing import TypeAlias

import numpy as np

from app.errors import ApiError
from app.queries.parts import WeightedParts
from app.search.cursors import NO_CURSOR, write_cursor
from app.search.paging import SearchPage
from app.settings import RemoteCollection
from multifold.client import AsyncClient, ServiceError
from multifold.errors import MultifoldError
from multifold.wire.items import ObservationInfo, Refusal
from multifold.wire.search import MAX_OFFSET, Search, SearchAnswer, SearchHit, SearchTimings

AskMember: TypeAlias = Callable[[Search], Awaitable[SearchAnswer]]
REMOTE_SECONDS = 5.0  # after which a collection elsewhere is left out


async def search_several(
    members: Mapping[str, AskMember], body: Search, parts: WeightedParts
) -> SearchAnswer:
    """The merged answer of collections; those that cannot answer are named in its warnings."""
    started = time.perf_counter()
    page = SearchPage.of("search", "\n".join(members), parts, body)
    taken = read_taken(page.last, members)
    found = await asyncio.gather(
        *(
            attempt(ask, replace(body, collections=None, after=None, offset=taken[name]))
            for name, ask in members.items()
        )
    )
    told = dict(zip(members, found, strict=True))
    answers = {name: one for name, one in told.items() if isinstance(one, SearchAnswer)}
    refusals = {name: one for name, one in told.items() if isinstance(one, MultifoldError)}
    if not answers:
        raise next(iter(refusals.values()))
    answers, lacking = without_lacking(answers)
    ranked = merge_hits(answers)
    hits = tuple(islice(ranked, body.limit))
    for hit in hits:
        assert hit.collection is not None
        taken[hit.collection] += 1
    kept = tuple(hit for hit in hits if body.min_confidence is None or is_sure(hit, body.min_confidence))
    more = len(kept) == body.limit and max(taken.values()) <= MAX_OFFSET
    first = answers[kept[0].collection or ""] if kept else next(iter(answers.values()))
    seconds = 1000 * (time.perf_counter() - started)
    return SearchAnswer(
        hits=kept,
        took_ms=SearchTimings(0.0, round(seconds, 2), round(seconds, 2)),
        version=max(one.version for one in answers.values()),
        versions={name: one.version for name, one in answers.items()},
        bundle=", ".join(dict.fromkeys(one.bundle for one in answers.values())),
        calibrated_by="prior"
        if any(one.calibrated_by != "collection" for one in answers.values())
        else "collection",
        matches_well=first.matches_well,
        understood=first.understood,
        everything=float(np.logaddexp.reduce([everything_of(one) for one in answers.values()])),
        warnings=(
            *(f"{name} did not answer: {error}" for name, error in refusals.items()),
            *(f"{name} has nothing of which {words} could be true" for name, words in lacking.items()),
            *(f"{name}: {warning}" for name, one in answers.items() for warning in one.warnings),
        ),
        next=write_cursor(page.asked, sum(taken.values()), json.dumps(taken)) if more else None,
    )


def read_taken(mark: str | None, members: Mapping[str, AskMember]) -> dict[str, int]:
    """How many hits of each collection come before the page."""
    taken = dict.fromkeys(members, 0)
    if mark is None:
        return taken
    try:
        told = json.loads(mark)
        if told.keys() == taken.keys() and all(type(one) is int and one >= 0 for one in told.values()):
            return {name: told[name] for name in taken}
    except (ValueError, AttributeError):
        pass
    raise ApiError(422, "bad_cursor", NO_CURSOR)


async def attempt(ask: AskMember, body: Search) -> SearchAnswer | MultifoldError:
    try:
        return await ask(body)
    except MultifoldError as error:
        return error


def without_lacking(
    answers: Mapping[str, SearchAnswer],
) -> tuple[dict[str, SearchAnswer], dict[str, str]]:
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


def merge_hits(answers: Mapping[str, SearchAnswer]) -> Sequence[SearchHit]:
    """The hits of all, best first, and none surer than one before it."""
    whole = np.array([everything_of(one) for one in answers.values()])
    shares = np.exp(whole - np.logaddexp.reduce(whole)).tolist()
    each = [
        [replace(hit, collection=name, confidence=scaled(hit.confidence, share)) for hit in one.hits]
        for (name, one), share in zip(answers.items(), shares, strict=True)
    ]
    ranked = [*merge(*each, key=attrgetter("score"), reverse=True)]
    if any(hit.confidence is None for hit in ranked):
        return ranked
    falling = accumulate((hit.confidence or 0.0 for hit in ranked), min)
    return [replace(hit, confidence=sure) for hit, sure in zip(ranked, falling, strict=True)]


def everything_of(answer: SearchAnswer) -> float:
    """What all items of a collection say; less than anything where it has none to show."""
    return -np.inf if answer.everything is None else answer.everything


def scaled(confidence: float | None, share: float) -> float | None:
    return None if confidence is None else confidence * share


def is_sure(hit: SearchHit, least: float) -> bool:
    return hit.confidence is not None and hit.confidence >= least


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
    (answer,) = await client.search_many([body])
    if isinstance(answer, Refusal):
        raise ServiceError(answer.message, answer.code)
    if answer.hits and answer.everything is None:
        raise ServiceError(f"{remote.url} is of an older version, whose hits cannot be merged", "bad_answer")
    return replace(answer, hits=tuple(with_address(hit, remote.url) for hit in answer.hits))


def with_address(hit: SearchHit, url: str) -> SearchHit:
    """A hit whose pictures lie on another service."""

    def moved(seen: ObservationInfo) -> ObservationInfo:
        return seen if seen.url is None else replace(seen, url=f"{url}{seen.url}")

    evidence = tuple(
        one if one.matched is None else replace(one, matched=moved(one.matched)) for one in hit.evidence
    )
    return replace(hit, matched=moved(hit.matched), evidence=evidence)
