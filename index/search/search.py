"""From queries to hits: filter, ask the legs, rank, and read what the store has of the items."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from index.contracts import Ids, Space
from index.engine_set.engine_queries import engine_query
from index.engine_set.engine_set import Candidates, EngineSet
from index.legs.contracts import Asked, no_sizes
from index.legs.examples import ExampleScorer, example_scorer
from index.legs.table import TARGET_LEGS, TEXT_LEGS
from index.search.background import BackgroundSample
from index.search.diversity import MOVED, diversify, likeness_of
from index.search.edition_cache import EditionCache
from index.search.filter_cache import FilterCache
from index.search.page import PageReader, match_texts
from index.search.query import Query
from index.search.ranking import Ranking, rank
from index.store.browse import editions_of
from index.store.item_rows import read_summaries
from index.store.metadata import last_change
from index.store.store import Store
from index.texts.pictures import PictureTexts
from index.texts.text_indexes import TextIndexes, TextIndexSet
from multifold.errors import needs_extra
from multifold.types import ASPECTS, Examples, Hit, Leg, Verdict

with needs_extra("serve"):
    from sqlalchemy import Connection


@dataclass(frozen=True)
class Searcher:
    """What is searched: the engines, and the store for what they do not hold."""

    space: Space
    store: Store
    engines: EngineSet
    bitmaps: FilterCache
    texts: TextIndexes
    background: BackgroundSample
    cache: EditionCache
    writing: PictureTexts | None = None

    def answers(self, queries: Sequence[Query]) -> list[list[Hit] | None]:
        """The hits of each; None if the engines have to catch up, or went on meanwhile."""
        strong = any(query.strong for query in queries)
        with self.engines.gate.reading(), self.store.moment() as now:
            version = self.engines.seen_at(now, strong=strong)
            if version is None:
                return [None] * len(queries)
            pages = [self._page(query, now, version) for query in queries]
            newest = version == self.store.known_version
            return PageReader(self.engines, self.cache, now, newest).read(pages)

    def asked(self, query: Query, now: Connection, names: Sequence[Leg] | None = None) -> Asked:
        """A query as its legs, or these, are asked it at one moment."""
        names = query.legs if names is None else tuple(names)
        return Asked(
            space=self.space,
            engines=self.engines,
            vector=query.vector,
            texts=self._texts,
            text=query.text,
            side=query.side,
            pool=query.pool,
            exact=query.exact,
            own=query.own,
            sizes=_sizes_of(now) if query.pool == "max" else no_sizes,
            finds_itself=not {*names} & {*TEXT_LEGS},
            text_weight=query.text_weight,
            background=self.background_of(now),
            names=tuple(names),
            shown=tuple(aspect for aspect in ASPECTS if aspect in TARGET_LEGS[query.target]),
            as_whole=query.target == "item" and query.words != "only",
        )

    @property
    def _texts(self) -> TextIndexSet:
        current = self.texts.current
        return current if self.writing is None else replace(current, writing=self.writing.words)

    def background_of(self, now: Connection) -> Ids:
        """The editions that stand for all others."""
        return self.background.editions(now, self.engines.size(), self.engines.version_at(now))

    def _page(self, query: Query, now: Connection, version: int) -> Ranking | None:
        if query.pool == "max" and last_change(now) != version:  # sizes are those of another moment
            return None
        among = None
        if query.where is not None:
            strong = query.strong or self.engines.staleness is None
            among = self.bitmaps.candidates(now, query.where, version, strong=strong)
            if among is None:
                return None
        asked = self.asked(query, now)
        return match_texts(asked, self._ranked(query, asked, among, self._examples(query.examples, now)))

    def _ranked(
        self, query: Query, asked: Asked, among: Candidates | None, examples: ExampleScorer | None
    ) -> Ranking:
        """The items of a query's page, best first."""
        page = range(query.offset, query.offset + query.limit)
        wide = range(max(page.stop, MOVED)) if query.diversity else page
        ranking = rank(asked, query.model.of(query.side), wide, among, examples, query.error)
        if query.diversity:
            return self._diverse(ranking, query.diversity, examples).take(slice(page.start, page.stop))
        return ranking

    def _examples(self, examples: Examples, now: Connection) -> ExampleScorer | None:
        """What scores by the examples that are there."""
        if not (examples.good or examples.bad):
            return None
        editions = editions_of(now, [*examples.good, *examples.bad])
        verdicts: dict[int, Verdict] = {editions[one]: "good" for one in examples.good if one in editions}
        verdicts |= {editions[one]: "bad" for one in examples.bad if one in editions}
        return example_scorer(self.engines, verdicts, partial(engine_query, self.space))

    def _diverse(self, ranking: Ranking, diversity: float, examples: ExampleScorer | None) -> Ranking:
        """The best items in an order in which look-alikes give way; bad examples stay where they are."""
        bad = np.isin(ranking.editions[:MOVED], [*examples.bad] if examples else [])
        best = np.flatnonzero(~bad)
        likeness = likeness_of(self.space, self.engines, ranking.editions[best].tolist())
        order = diversify(ranking.evidence[best], diversity, likeness)
        rest = np.arange(min(MOVED, len(ranking)), len(ranking))
        return ranking.take(np.concatenate([best[order], np.flatnonzero(bad), rest]))


def _sizes_of(now: Connection) -> Callable[[Ids], Ids]:
    """What tells how many observations editions have."""

    def sizes(editions: Ids) -> Ids:
        summaries = read_summaries(now, editions.tolist())
        return np.array([summaries[one].size if one in summaries else 0 for one in editions.tolist()])

    return sizes
