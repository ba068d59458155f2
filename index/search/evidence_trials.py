"""Asks the questions from which evidence is fitted, each among the best strangers of every leg."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool

from index.contracts import Ids, Space
from index.search.evidence import EvidenceQuery, EvidenceScorer, EvidenceTable, LegScores, no_sizes
from index.search.evidence_model import PLACES
from index.search.evidence_questions import Question, QuestionKind, fold_caption, readable_name
from index.search.search import engine_query
from index.texts.text_indexes import texts_of
from multifold.errors import needs_extra
from multifold.scores import VectorScorer, similarities
from multifold.types import SIDES, Leg, Side, Vector, pool_mean

with needs_extra("serve"):
    from sqlalchemy import Connection

RIVALS = 50  # of the best of each leg
BREATH = 0.002  # seconds after each question, for those who search meanwhile
JUDGED_WEIGHT = 3.0  # of a text that people judged items for
ReadScorer: TypeAlias = Callable[[], AbstractContextManager[tuple[EvidenceScorer, Connection]]]


@dataclass(frozen=True, eq=False)
class Trial:
    """The candidates of one question, and which of them are right."""

    owner: int  # its edition
    table: EvidenceTable
    candidates: Bool[np.ndarray, " n"]
    right: Bool[np.ndarray, " n"]  # its owner, and what has the same caption or name
    items: int  # of the collection
    kind: QuestionKind = "caption"
    votes: int = 0

    @property
    def tells(self) -> bool:
        """Whether it teaches anything: something speaks for what is right, and most things are not."""
        few = 2 * self.right.sum() <= self.candidates.sum()
        return bool(few and np.abs(self.table.values[self.right]).any())

    @property
    def has_words(self) -> bool:
        """Whether what is right has any word of the question."""
        return bool(self.table.values[self.right, PLACES["words"].start].any())

    @property
    def weight(self) -> float:
        """How much it counts."""
        return JUDGED_WEIGHT if self.kind == "judged" else 1.0


class TrialMaker:
    """Asks the questions of a collection's items, each among the best strangers of every leg."""

    def __init__(self, space: Space, reading: ReadScorer) -> None:
        self._space, self._reading = space, reading
        self._texts: dict[
            int, tuple[frozenset[str], str]
        ] = {}  # captions and name of candidates, as compared

    def trials(self, every: Sequence[Question]) -> dict[Side, list[Trial]]:
        """The trials of all questions that tell anything, by the side that asks."""
        trials: dict[Side, list[Trial]] = {side: [] for side in SIDES}
        for question in every:
            with self._reading() as (scorer, now):  # changes come in between
                trial = self._ask(question, scorer, now)
            time.sleep(BREATH)
            if trial.tells:
                trials[question.side].append(trial)
        return trials

    def _ask(self, question: Question, scorer: EvidenceScorer, now: Connection) -> Trial:
        """The candidates of a question; its owner is scored by what is known of it."""
        owner, judged = question.owner, np.array([*question.good, *question.bad], np.int64)
        assert question.feature is not None
        vector = self._space.vectors(question.feature[None])[0]
        query = EvidenceQuery(engine_query(self._space, vector), question.side, question.text)
        candidates = np.union1d(scorer.candidates(query, RIVALS), np.append(judged, owner))
        editions = np.union1d(candidates, scorer.strangers)
        scores = scorer.scores(query, editions, no_sizes(editions))
        place = int(np.searchsorted(editions, owner))
        self._hide(question, vector, scorer, scores, place)
        strangers = np.isin(editions, scorer.strangers)
        strangers[place] = False
        right = np.zeros(len(editions), np.bool_)
        right[place] = True
        if question.kind == "judged":
            right |= np.isin(editions, [*question.good])
            strangers &= ~right
        elif question.text is not None:
            right |= self._equal(question, editions, now)
        table, allowed = scores.table(strangers), np.isin(editions, candidates) | right
        size = scorer.engines.size()
        return Trial(owner, table, allowed, right, size, question.kind, question.votes)

    def _hide(
        self, question: Question, vector: Vector, scorer: EvidenceScorer, scores: LegScores, place: int
    ) -> None:
        """Score the owner by what is known of it, and nothing else."""
        if question.kind == "no texts":
            text_legs: tuple[Leg, ...] = ("text", "words", "reader")
            for leg in text_legs:
                scores.scores.pop(leg, None)
            scores.coverage[:] = 0
        if question.known is not None:
            of_side = scores.scores[question.taken_from or question.side]
            of_side[place] = np.nan
            if question.known and isinstance(self._space, VectorScorer):
                known = self._space.vectors(pool_mean(np.stack(question.known))[None])
                of_side[place] = similarities(self._space, vector[None], known)[0, 0]
        if question.texts is not None and question.text is not None:
            if scorer.words is not None:
                weighed = scorer.words.weigh_texts(question.text, [question.texts])
                scores.scores["words"][place], scores.coverage[place] = weighed[0][0], weighed[1][0]
            if scorer.reader is not None:
                read = scorer.reader.scores_of(question.text, [question.texts])[0]
                scores.scores["reader"][place] = read or np.float32(np.nan)

    def _equal(self, question: Question, editions: Ids, now: Connection) -> Bool[np.ndarray, " n"]:
        """Which items have the question's text too, as a caption or, if it is a name, as their name."""
        wanted = fold_caption(question.text or "")
        missing = [edition for edition in editions.tolist() if edition not in self._texts]
        self._texts |= dict.fromkeys(missing, (frozenset[str](), ""))  # for those that have ended meanwhile
        for one in texts_of(now, missing):
            self._texts[one.edition] = (
                frozenset(map(fold_caption, one.captions)),
                fold_caption(readable_name(one)),
            )
        texts = [self._texts[edition] for edition in editions.tolist()]
        equal = [
            wanted == name if question.kind == "name" else wanted in captions for captions, name in texts
        ]
        return np.array(equal, np.bool_)
