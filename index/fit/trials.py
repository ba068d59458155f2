"""Asks the questions from which evidence is fitted, each among the best others of every leg."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool

from index.contracts import Ids, Space
from index.fit.kinds import CAPTION, QuestionKind
from index.fit.questions import Question, fold_caption, written_name
from index.legs.contracts import Raw, SearchLeg, Thing
from index.legs.table import BY_NAME, COLUMNS_OF, TEXT_LEGS
from index.legs.vectors import SAME
from index.legs.words import WORDS
from index.search.candidates import find_candidates, legs_of
from index.search.query import Query
from index.search.scores import Scores, find_bare, score_editions, weigh
from index.search.search import Searcher
from index.texts.text_indexes import texts_of
from multifold.errors import needs_extra
from multifold.types import SIDES, Aspect, Leg, Side, pool_mean

with needs_extra("serve"):
    from sqlalchemy import Connection

RIVALS = 50  # of the best of each leg
BREATH = 0.002  # seconds after each question, for those who search meanwhile
ReadSearcher: TypeAlias = Callable[[], AbstractContextManager[tuple[Searcher, Connection]]]


@dataclass(frozen=True, eq=False)
class Trial:
    """The candidates of one question, and which of them are right."""

    owner: int  # its edition
    scores: Scores
    candidates: Bool[np.ndarray, " n"]
    right: Bool[np.ndarray, " n"]  # its owner, and what has the same caption or name
    items: int  # of the collection
    kind: QuestionKind = CAPTION
    votes: int = 0

    @property
    def tells(self) -> bool:
        """Whether it teaches anything: something speaks for what is right, and most things are not."""
        few = 2 * self.right.sum() <= self.candidates.sum()
        return bool(few and np.abs(self.scores.values[self.right]).any())

    @property
    def has_words(self) -> bool:
        """Whether what is right has any word of the question."""
        return bool(self.scores.values[self.right, COLUMNS_OF[WORDS.name].start].any())


class TrialMaker:
    """Asks the questions of a collection's items, each among the best others of every leg."""

    def __init__(self, space: Space, reading: ReadSearcher) -> None:
        self._space, self._reading = space, reading
        self._texts: dict[
            int, tuple[frozenset[str], str]
        ] = {}  # captions and name of candidates, as compared

    def trials(self, every: Sequence[Question]) -> dict[Side, list[Trial]]:
        """The trials of all questions, by the side that asks."""
        trials: dict[Side, list[Trial]] = {side: [] for side in SIDES}
        for question in every:
            with self._reading() as (searcher, now):  # changes come in between
                trial = self._ask(question, searcher, now)
            time.sleep(BREATH)
            trials[question.side].append(trial)
        return trials

    def _ask(self, question: Question, searcher: Searcher, now: Connection) -> Trial:
        """The candidates of a question; its owner is scored by what is known of it."""
        owner, judged = question.owner, np.array([*question.good, *question.bad], np.int64)
        assert question.feature is not None
        vector = self._space.vectors(question.feature[None])[0]
        query = Query(vector, text=question.text, side=question.side, own={question.side: vector})
        asked = searcher.asked(query, now)
        legs = legs_of(asked)
        candidates = np.union1d(find_candidates(legs, RIVALS, None), np.append(judged, owner))
        scored = score_editions(asked, candidates, legs)
        editions, raw = scored.editions, dict(scored.raw)
        place = int(np.searchsorted(editions, owner))
        self._hide(question, legs, raw, place)
        background = scored.background.copy()
        background[place] = False
        right = np.zeros(len(editions), np.bool_)
        right[place] = True
        if question.kind.right_by == "verdicts":
            right |= np.isin(editions, [*question.good])
            background &= ~right
        elif question.text is not None:
            right |= self._equal(question, editions, now)
        bare = find_bare(asked, editions, raw)
        bare |= question.kind.hides == "every text"
        bare[place] |= question.kind.hides == "its texts"
        scores = weigh(asked, editions, raw, background, legs, bare)
        allowed = np.isin(editions, candidates) | right
        size = searcher.engines.size()
        return Trial(owner, scores, allowed, right, size, question.kind, question.votes)

    def _hide(self, question: Question, legs: Sequence[SearchLeg], raw: dict[Leg, Raw], place: int) -> None:
        """Score the owner by what is known of it, and nothing else."""
        if question.kind.hides == "every text":
            for leg in [leg for leg in raw if BY_NAME[leg].of_texts]:
                del raw[leg]
        for one in legs:
            if one.name in raw and BY_NAME[one.name].knows_same:
                raw[one.name][:, SAME] = 0.0  # it would find itself
        vectors: dict[Aspect, np.ndarray] = {}
        hidden: set[Leg] = set()
        if question.known is not None:
            hidden.add(question.taken_from or question.side)
            if question.known:
                known = self._space.vectors(pool_mean(np.stack(question.known))[None])
                vectors[question.taken_from or question.side] = known[0]
        if question.texts is not None and question.text is not None:
            hidden |= {*TEXT_LEGS}
        owner = Thing(vectors, question.texts)
        for one in legs:
            if one.name in hidden and one.name in raw:
                raw[one.name][place] = one.scores_of([owner])[0]

    def _equal(self, question: Question, editions: Ids, now: Connection) -> Bool[np.ndarray, " n"]:
        """Which items have the question's text too, as a caption or, if it is a name, as their name."""
        wanted = fold_caption(question.text or "")
        missing = [edition for edition in editions.tolist() if edition not in self._texts]
        self._texts |= dict.fromkeys(missing, (frozenset[str](), ""))  # for those that have ended meanwhile
        for one in texts_of(now, missing):
            self._texts[one.edition] = (
                frozenset(map(fold_caption, one.captions)),
                fold_caption(written_name(one)),
            )
        texts = [self._texts[edition] for edition in editions.tolist()]
        by_name = question.kind.right_by == "names"
        equal = [wanted == name if by_name else wanted in captions for captions, name in texts]
        return np.array(equal, np.bool_)
