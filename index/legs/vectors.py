"""The vectors of one side, or of points: how near they are to the query's."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float32

from index.contracts import Ids, RowKind
from index.engine_set.engine_set import Candidates, EngineQuery
from index.engines.exact_engine import score_blocks
from index.engines.scoring import cosines
from index.legs.contracts import (
    Asked,
    Background,
    LabelColumn,
    LegDeclaration,
    Raw,
    Table,
    Thing,
    weighed_columns,
)
from index.legs.standard import standardise
from index.store.item_rows import edition_of
from index.texts.contracts import TextMatch
from multifold.scores import VectorScorer, apply_signs, index_scores, similarities
from multifold.types import Aspect, Mix, Side, Vector

SCORE, SAME = 0, 1  # columns of the scores
EQUAL = 1e-6  # below 1, from which a cosine is that of equal vectors
SEEN: tuple[Side, ...] = ("image", "shape")  # sides of pictures
LOOKED_AT = 32  # observations nearest to a query of the same side, of which one may be the very same


@dataclass(frozen=True, eq=False)
class VectorLeg:
    """One side or the points of items.

    A query of the same side is compared by the cosine, so what is asked with itself is nearest to itself in
    every geometry. Across sides the similarity is the geometry's own.
    """

    name: Aspect
    asked: Asked

    @property
    def _query(self) -> EngineQuery:
        return self.asked.engine_queries[self.name]

    @property
    def _own(self) -> Vector | None:
        return self.asked.own.get(self.name)

    def count(self) -> int:
        return self.asked.engines.choice(self.name)

    def ranked(self, limit: int, among: Candidates | None) -> tuple[Ids, Float32[np.ndarray, " n"]]:
        """The best editions with the scores of the engines, best first."""
        asked = self.asked
        return asked.engines.ranked(self._query, self.name, limit, asked.pool, among, exact=asked.exact)

    def candidates(self, limit: int, among: Candidates | None) -> Ids:
        """The best editions, and those of the nearest observations where like is compared with like."""
        best = self.ranked(limit, among)[0]
        if self._own is None or not self.asked.finds_itself:
            return best
        near = self.asked.engines.ranked(self._query, self.name, LOOKED_AT, "max", among)[0]
        return np.concatenate([best, near])

    def scores(self, editions: Ids) -> Raw:
        """The similarity of each edition, and whether it has the very same observation."""
        asked, raw = self.asked, np.zeros((len(editions), 2), np.float32)
        if not self.count():
            raw[:, SCORE] = np.nan
            return raw
        among = Candidates(editions, asked.sizes(editions))
        if self._own is not None and asked.pool == "mean":
            rows, engine = among.pooled(self.name), asked.engines.engines[self.name, "pooled"]
            raw[:, SCORE] = score_blocks(engine.blocks(rows), rows, partial(cosines, self._own))
        else:
            raw[:, SCORE] = asked.engines.scores(self._query, self.name, asked.pool, among)
        if self._own is not None and asked.finds_itself:
            raw[:, SAME] = self._is_same(self._own, editions)
            if asked.pool == "mean":  # also where vectors are short, and others nearer by the inner product
                raw[:, SAME] = np.maximum(raw[:, SAME], raw[:, SCORE] >= 1 - EQUAL)
        return raw

    def scores_of(self, things: Sequence[Thing]) -> Raw:
        """The similarity of what is no item."""
        raw = np.full((len(things), 2), np.nan, np.float32)
        every = [one.vectors.get(self.name) for one in things]
        there = [place for place, one in enumerate(every) if one is not None]
        if not there:
            return raw
        vectors = np.stack([one for one in every if one is not None])
        raw[there, SAME] = 0.0
        if self._own is not None:
            raw[there, SCORE] = near = cosines(self._own, vectors)
            raw[there, SAME] = near >= 1 - EQUAL
            return raw
        space, vector = self.asked.space, self.asked.vector_of(self.name)
        raw[there, SCORE] = 0.0
        for part, weight in vector.parts if isinstance(vector, Mix) else ((vector, 1.0),):
            if isinstance(space, VectorScorer):
                scores = similarities(space, part[None], vectors)
            else:  # of a collection without an encoder
                scores = index_scores(apply_signs(part[None], space.query_signs), vectors, space.metric)
            raw[there, SCORE] += np.float32(weight) * scores[0]
        return raw

    def columns(self, raw: Raw, background: Background) -> Table:
        """Standard scores, and of pictures what they are worth alone, as far as the encoder sees."""
        standard = standardise(raw[:, SCORE], background)
        columns = weighed_columns(standard, self.asked.length)
        if self.name not in SEEN:
            return columns
        return np.column_stack([columns, standard * np.float32(self.asked.space.sees.get(self.name, 0.0))])

    def matches(self, editions: Ids) -> Sequence[TextMatch]:
        """None; which observation matched, the rows of the engines tell."""
        return [TextMatch(None)] * len(editions)

    def _is_same(self, vector: Vector, editions: Ids) -> Float32[np.ndarray, " n"]:
        """Which editions have the query itself as an observation or, with the pool `max`, as all of them."""
        same = np.zeros(len(editions), np.float32)
        kinds: tuple[RowKind, ...] = (
            ("observation",) if self.asked.pool == "mean" else ("pooled", "observation")
        )
        for key in ((self.name, kind) for kind in kinds):
            engine = self.asked.engines.engines.get(key)
            count = 0 if engine is None else engine.count()
            if engine is None or not count:
                continue
            rows = np.sort(self._query.search(engine, min(LOOKED_AT, count))[1])
            for found, vectors in engine.blocks(rows):
                equal = edition_of(found[cosines(vector, vectors) >= 1 - EQUAL])
                same[np.isin(editions, equal)] = 1.0
        return same


CAPTION, PICTURE = LabelColumn("text", 0.8), LabelColumn("picture", 1.0)
TEXT = LegDeclaration(
    name="text",
    make=partial(VectorLeg, "text"),
    columns=("text", "text long", "text far"),
    prior={"text": {"text": 0.13, "text long": 0.02}, "image": {"text": 0.1}, "shape": {"text": 0.1}},
    wordless={"text": 0.02},
    targets=frozenset({"item", "any", "text"}),
    label=CAPTION,
    of_texts=True,
    knows_same=True,
)
IMAGE = LegDeclaration(
    name="image",
    make=partial(VectorLeg, "image"),
    columns=("image", "image long", "image far", "image bare"),
    prior={
        "text": {"image": 0.02, "image long": 0.06, "image far": 0.4, "image bare": 1.0},
        "image": {"image": 1.5},
        "shape": {"image": 1.0},
    },
    wordless={"image": 0.02, "image long": 0.12, "image far": 0.6, "image bare": 1.0},
    targets=frozenset({"item", "any", "image"}),
    label=PICTURE,
    bare="image bare",
    knows_same=True,
)
SHAPE = LegDeclaration(
    name="shape",
    make=partial(VectorLeg, "shape"),
    columns=("shape", "shape long", "shape far", "shape bare"),
    prior={
        "text": {"shape": 0.02, "shape long": 0.06, "shape far": 0.4, "shape bare": 1.0},
        "image": {"shape": 1.0},
        "shape": {"shape": 2.0},
    },
    wordless={"shape": 0.02, "shape long": 0.12, "shape far": 0.6, "shape bare": 1.0},
    targets=frozenset({"item", "any", "shape"}),
    label=PICTURE,
    bare="shape bare",
    knows_same=True,
)
POINTS = LegDeclaration(  # pictures find less with them
    name="points",
    make=partial(VectorLeg, "points"),
    columns=("points", "points long", "points far"),
    prior={"text": {"points long": 0.3, "points far": 0.5}, "shape": {"points": 1.0}},
    wordless={"points long": 0.06, "points far": 1.2},
    targets=frozenset({"item", "any", "shape"}),
    label=PICTURE,
    knows_same=True,
)
