"""Reranking, classification and proposed tags, for one collection."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from sqlalchemy import Connection

from app.collections.machine_tags import tags_in
from app.collections.service import CollectionService
from app.errors import ApiError
from app.queries.encoding import EncodedPart
from app.queries.parts import ItemQueryPart, QueryPart, TextQueryPart
from index.contracts import Ids
from index.legs.table import LEGS
from index.legs.words import WORDS
from index.search.confidence import WHOLE
from index.search.labels import Answers, LabelChances, LabelQuery, LabelScorer, LegTable, judge_labels
from index.search.query import Query
from index.search.reranking import OutsideThing, RankedCandidate, RerankCandidate, rerank
from index.store import browse
from index.store.database import is_storable
from index.store.filters import Filter
from index.store.item_rows import facts_of, read_summaries
from index.texts.analysis import chunks, stop_words
from index.texts.text_indexes import texts_of
from multifold.analysis.zero_shot import label_vectors
from multifold.bundle.encoder import Encoder

SAID = LEGS.index(WORDS.name)
LEAST_WORD = 3  # letters of a word that may be a tag


@dataclass(frozen=True)
class Label:
    """A label and the prompts that name it."""

    text: str
    prompts: tuple[str, ...]


def rank_candidates(
    service: CollectionService, query: Query, candidates: Sequence[str | OutsideThing]
) -> list[RankedCandidate]:
    """Candidates, which are ids of items or things that are none, best first."""
    query.check(service.encoder.dim)
    with service.collection.scoring() as (searcher, now):
        editions = _editions(now, [one for one in candidates if isinstance(one, str)])
        named: list[RerankCandidate] = [editions[one] if isinstance(one, str) else one for one in candidates]
        return rerank(searcher.asked(query, now), query.model.of(query.side), named)


def classify(
    service: CollectionService, subject: str | OutsideThing, labels: Sequence[Label], key: str | None
) -> tuple[LabelChances, LegTable]:
    """Which of the labels an item, or a thing that is none, is, and what each leg says of it in nats."""
    queries = label_queries(service.encoder, tuple(labels))
    with service.collection.scoring() as (searcher, now):
        inside = np.array([*_editions(now, [subject]).values()] if isinstance(subject, str) else [], np.int64)
        outside = [] if isinstance(subject, str) else [subject]
        subjects, background, legs = LabelScorer(searcher, now, queries).table(inside, outside)
        answers = None if key is None else known_answers(now, searcher.background_of(now), labels, key)
    chances = judge_labels(subjects, background, answers, exclusive=True)
    return chances, chances.shares(legs)


@dataclass(frozen=True)
class Proposals:
    """Tags for a page of items, each with its confidence, the surest first."""

    tags: Mapping[str, Sequence[tuple[str, float]]]
    next: str | None
    chances: LabelChances | None


def propose_tags(
    service: CollectionService,
    names: Sequence[str] | None,
    where: Filter | None,
    after: str | None,
    limit: int,
    labels: Sequence[Label],
    key: str | None,
    several: bool | None,
) -> Proposals:
    """The tags that items do not have yet; what an item's captions say already is left out too."""
    queries = label_queries(service.encoder, tuple(labels))
    with service.collection.scoring() as (searcher, now):
        listed, following = _page(now, names, where, after, limit)
        if not listed:
            return Proposals({}, None, None)
        editions = _editions(now, listed)
        order = sorted(editions, key=editions.__getitem__)
        inside = np.array([editions[name] for name in order], np.int64)
        subjects, background, legs = LabelScorer(searcher, now, queries).table(inside)
        answers = None if key is None else known_answers(now, searcher.background_of(now), labels, key)
        having = {name: _tags_of(now, editions[name], key) for name in order}
    if several is None:
        several = answers is None or any(len(one) > 1 for one in answers)
    chances = judge_labels(subjects, background, answers, exclusive=not several)
    said = legs[:, :, SAID]
    every: dict[str, Sequence[tuple[str, float]]] = {}
    for place, name in enumerate(order):
        sure = chances.confidence[place]
        new = [
            (labels[one].text, float(sure[one]))
            for one in np.argsort(-sure, kind="stable").tolist()
            if labels[one].text.casefold() not in having[name]
            and (key is not None or said[place, one] <= WHOLE)
        ]
        every[name] = new
    return Proposals({name: every[name] for name in listed}, following, chances)


@lru_cache(maxsize=32)
def label_queries(encoder: Encoder, labels: tuple[Label, ...]) -> tuple[LabelQuery, ...]:
    prompts = [label.prompts for label in labels]
    vectors = label_vectors(encoder, encoder.bundle.geometry.name, prompts)
    return tuple(LabelQuery(label.text, some) for label, some in zip(labels, vectors, strict=True))


def values_of(service: CollectionService, key: str, most: int) -> list[str]:
    """The commonest texts that a key of the payload has."""
    if not is_storable(key):
        return []
    counts = service.collection.facets([key], limit=most)[key]
    return [one.value for one in counts if isinstance(one.value, str) and one.value.strip()]


def common_words(service: CollectionService, most: int) -> list[str]:
    """The commonest words of the captions of a sample of the collection."""
    counts: Counter[str] = Counter()
    with service.collection.scoring() as (searcher, now):
        languages = searcher.texts.current.words.languages
        for one in texts_of(now, searcher.background_of(now).tolist()):
            counts.update(
                {piece for text in one.captions for chunk in chunks(text) for piece in chunk.pieces}
            )
    left_out = frozenset().union(*map(stop_words, languages))
    telling = (word for word, _ in counts.most_common() if word.isalpha() and word not in left_out)
    return [word for word in telling if len(word) >= LEAST_WORD][:most]


def known_answers(now: Connection, background: Ids, labels: Sequence[Label], key: str) -> Answers:
    """Which of the labels each item of the background has under a key of its payload."""
    places = {label.text.casefold(): place for place, label in enumerate(labels)}
    summaries = read_summaries(now, background.tolist())
    payloads = [summaries[one].payload if one in summaries else {} for one in background.tolist()]
    return [frozenset(places[text] for text in _texts_at(one, key) if text in places) for one in payloads]


def _tags_of(now: Connection, edition: int, key: str | None) -> set[str]:
    """The tags that an item has, by people and by models."""
    payload = read_summaries(now, [edition])[edition].payload
    own = set() if key is None else set(_texts_at(payload, key))
    return own | {tag.casefold() for tag in tags_in(payload, key or "tags")}


def _texts_at(payload: Mapping[str, object], key: str) -> Iterable[str]:
    facts = (fact.value.content for fact in facts_of(payload) if fact.key == key)
    return (content.casefold() for content in facts if isinstance(content, str))


def _editions(now: Connection, names: Sequence[str]) -> dict[str, int]:
    found = browse.editions_of(now, names)
    for name in names:
        if name not in found:
            raise ApiError(404, "not_found", f"there is no item {name!r}")
    return found


def _page(
    now: Connection, names: Sequence[str] | None, where: Filter | None, after: str | None, limit: int
) -> tuple[list[str], str | None]:
    """So many of the chosen items in the order of their ids, and where to go on."""
    chosen = browse.list_ids(now, where) if names is None or where is not None else sorted(set(names))
    wanted = None if names is None else set(names)
    every = [one for one in chosen if (after is None or one > after) and (wanted is None or one in wanted)]
    return every[:limit], every[limit - 1] if len(every) > limit else None


def as_candidate(part: QueryPart, encoded: EncodedPart | None) -> str | OutsideThing:
    if isinstance(part, ItemQueryPart):
        return part.id
    assert encoded is not None
    assert part.side is not None
    text = part.text if isinstance(part, TextQueryPart) else None
    return OutsideThing(part.side, encoded.vector, text, encoded.own)
