"""Which of some labels an item is, or a thing that is no item: the evidence of every leg for every label.

The encoder compares the prompts of a label with each side; its scores are standardised by those of all labels
with all of the background, so labels are compared as the encoder compares them. Captions and names say
whether they have the words of a label, and a text reader how near they are. Payloads are not looked at: they
may hold the answer. Where enough items of the background have an answer, the weights are fitted on these;
else they hold without a fit. They are fitted for what a subject has: for a picture alone on the pictures of
the background alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Bool, Float32, Float64

from index.contracts import Ids
from index.legs.contracts import LabelColumn
from index.legs.standard import standardise_by
from index.legs.table import BY_NAME, DECLARED, LEGS, make_legs
from index.legs.vectors import SCORE
from index.legs.words import WORDS
from index.search.query import Query
from index.search.reranking import SAMPLE_ITEMS, OutsideThing
from index.search.search import Searcher
from index.texts.contracts import ItemTexts
from index.texts.text_indexes import texts_of
from index.texts.words import WordIndex
from multifold.errors import needs_extra
from multifold.logistic import moments, newton, softmax, steps_until
from multifold.types import Leg, Vectors

with needs_extra("serve"):
    from sqlalchemy import Connection

NO_LABEL = LabelColumn("none", 1.4)  # that it is none of the labels
LABEL_COLUMNS = (*dict.fromkeys(leg.label for leg in DECLARED), NO_LABEL)  # what is weighted
COLUMNS = tuple(column.name for column in LABEL_COLUMNS)
PRIOR = np.array([column.weight for column in LABEL_COLUMNS])
COLUMN_OF: Mapping[Leg, int] = {leg.name: COLUMNS.index(leg.label.name) for leg in DECLARED}
WORD_COLUMN, NONE = COLUMN_OF[WORDS.name], COLUMNS.index(NO_LABEL.name)
TEXT_COLUMNS = sorted({COLUMN_OF[leg.name] for leg in DECLARED if leg.of_texts})
PRIOR_SPREAD = 2.0
FEWEST_ANSWERS = 40  # from which the weights are fitted
LABELS_FOR_A_MISS = 8  # one in so many of them is asked without the right label too
SETTLED_CHANGE = 1e-4  # the change of a weight at which a fit ends

LabelBasis: TypeAlias = Literal["collection", "prior"]
LabelWeights: TypeAlias = Float64[np.ndarray, " w"]
LegTable: TypeAlias = Float64[np.ndarray, "n l legs"]  # what each leg says of a label, before it is weighted
LabelTable: TypeAlias = Float64[np.ndarray, "_ _ w"]  # of each subject and label; the last label is "none"
Answers: TypeAlias = Sequence[frozenset[int]]  # which labels each item of the background is known to be


@dataclass(frozen=True, eq=False)
class LabelQuery:
    """A label, and the index vectors of its prompts, whose scores are averaged."""

    text: str
    vectors: Vectors


@dataclass(frozen=True, eq=False)
class LabelChances:
    """How sure each label is for each subject."""

    confidence: Float64[np.ndarray, "n l"]
    none: Float64[np.ndarray, " n"]  # that it is none of them; of labels that exclude one another
    weights: Float64[np.ndarray, "n w"]
    basis: LabelBasis

    def shares(self, legs: LegTable) -> LegTable:
        """What each leg says of each label, in nats."""
        shares: LegTable = legs * self.weights[:, None, [COLUMN_OF[leg] for leg in LEGS]]
        return shares


class LabelScorer:
    """Compares subjects and the background of a collection with labels."""

    def __init__(self, searcher: Searcher, now: Connection, labels: Sequence[LabelQuery]) -> None:
        self._searcher, self._now, self._labels = searcher, now, labels
        self._background = searcher.background_of(now)

    def table(
        self, inside: Ids, outside: Sequence[OutsideThing] = ()
    ) -> tuple[LabelTable, LabelTable, LegTable]:
        """Of the subjects, which are editions that rise and things that are no items; and of the background;
        and how the columns of each subject are made of its legs.
        """
        editions = np.union1d(inside, self._background)
        background = np.flatnonzero(np.isin(editions, self._background))
        others = np.arange(len(editions), len(editions) + len(outside))
        subjects = np.concatenate([np.searchsorted(editions, inside), others]).astype(np.int64)
        legs = np.zeros((len(editions) + len(outside), len(self._labels), len(LEGS)))
        for place, leg in enumerate(LEGS):
            if leg == WORDS.name:
                legs[:, :, place] = self._words(editions, outside)
            else:
                legs[:, :, place] = _standardised(self._scores(leg, editions, outside), background, subjects)
        for column in {*COLUMN_OF.values()}:  # its legs count together as much as one
            alike = [place for place, leg in enumerate(LEGS) if COLUMN_OF[leg] == column]
            seen = np.any(legs[:, :, alike], axis=1).sum(axis=1)
            legs[:, :, alike] /= np.maximum(seen, 1)[:, None, None]
        values = np.zeros((len(legs), len(self._labels) + 1, len(COLUMNS)))
        for place, leg in enumerate(LEGS):
            values[:, :-1, COLUMN_OF[leg]] += legs[:, :, place]
        values[:, -1, NONE] = 1.0
        return values[subjects], values[background], legs[subjects]

    def _scores(self, leg: Leg, editions: Ids, outside: Sequence[OutsideThing]) -> Float32[np.ndarray, "n l"]:
        """The mean score of a label's prompts; what compares texts reads the label itself."""
        things = [one.thing(place) for place, one in enumerate(outside)]
        columns = []
        for label in self._labels:
            each = []
            for vector in label.vectors[:1] if BY_NAME[leg].needs_text else label.vectors:
                asked = self._searcher.asked(Query(vector, text=label.text), self._now)
                each += [
                    np.concatenate([one.scores(editions), one.scores_of(things)])[:, SCORE]
                    for one in make_legs(asked, [leg])
                ]
            nothing = np.full(len(editions) + len(outside), np.nan, np.float32)
            columns.append(np.mean(each, axis=0) if each else nothing)
        return np.stack(columns, axis=1)

    def _words(self, editions: Ids, outside: Sequence[OutsideThing]) -> Float32[np.ndarray, "n l"]:
        """The share of a label's words that captions and name have."""
        known = {one.edition: one for one in texts_of(self._now, editions.tolist())}
        texts = [replace(one, edition=place, values=()) for place, one in enumerate(known.values())]
        texts += [
            ItemTexts(place, "", captions=() if one.text is None else (one.text,))
            for place, one in enumerate(outside, len(texts))
        ]
        index = WordIndex(self._searcher.texts.current.words.languages)
        index.add(texts)
        places = np.arange(len(texts), dtype=np.int64)
        there = np.concatenate([np.isin(editions, list(known)), np.ones(len(outside), np.bool_)])
        scores = np.zeros((len(there), len(self._labels)), np.float32)
        for column, label in enumerate(self._labels):
            scores[there, column] = index.weigh(label.text, places).shares
        return scores


def _standardised(
    scores: Float32[np.ndarray, "n l"], background: Ids, subjects: Ids
) -> Float32[np.ndarray, "n l"]:
    """How many deviations of the background each score lies above its median; 0 where missing."""
    known = scores[background]
    if (~np.isnan(known)).any(axis=1).sum() < SAMPLE_ITEMS:
        known = scores[np.union1d(background, subjects)]
    return standardise_by(scores, known)


def judge_labels(
    subjects: LabelTable, background: LabelTable, answers: Answers | None, *, exclusive: bool
) -> LabelChances:
    """How sure each label is for each subject; `answers` are those of the background, where there are any."""
    weights = np.tile(PRIOR, (len(subjects), 1))
    fitted = np.zeros(len(subjects), np.bool_)
    if answers is not None:
        having, known = _columns_of(subjects), np.array([bool(one) for one in answers], np.bool_)
        for pattern in np.unique(having, axis=0):
            chosen = np.flatnonzero(known & (_columns_of(background) >= pattern).all(axis=1))
            if len(chosen) >= FEWEST_ANSWERS:
                alike = (having == pattern).all(axis=1)
                of_chosen = [answers[place] for place in chosen.tolist()]
                weights[alike] = fit_labels(background[chosen] * pattern, of_chosen, exclusive)
                fitted |= alike
    evidence = np.einsum("nlw,nw->nl", subjects, weights)
    if not exclusive:  # each label is one of so many
        evidence[~fitted, -1] += np.log(subjects.shape[1])
    chances = softmax(evidence) if exclusive else 1 / (1 + np.exp(evidence[:, -1:] - evidence))
    basis: LabelBasis = "collection" if fitted.all() and len(fitted) else "prior"
    return LabelChances(chances[:, :-1], chances[:, -1], weights, basis)


def _columns_of(table: LabelTable) -> Bool[np.ndarray, "_ w"]:
    """Which columns each subject has anything in; words are there where there may be a text."""
    there: Bool[np.ndarray, "_ w"] = np.any(table != 0, axis=1)
    there[:, WORD_COLUMN] = there[:, TEXT_COLUMNS].any(axis=1)
    return there


def fit_labels(table: LabelTable, answers: Answers, exclusive: bool) -> LabelWeights:
    """The weights under which the answers are likeliest, near those that hold without a fit.

    Labels that exclude one another are asked with the right one, some again without it, where the answer
    is "none of them". Others are asked one by one.
    """
    right = np.zeros(table.shape[:2], np.bool_)
    for place, some in enumerate(answers):
        right[place, list(some)] = True
    if exclusive:
        values = np.concatenate([table, table[::LABELS_FOR_A_MISS]])
        there = np.ones(values.shape[:2], np.bool_)
        there[len(table) :][right[::LABELS_FOR_A_MISS]] = False
        wanted = np.concatenate([right, np.zeros_like(right[::LABELS_FOR_A_MISS])])
        wanted[len(table) :, -1] = True
    else:
        one_by_one = table[:, :-1].reshape(-1, 1, len(COLUMNS))
        nothing = np.broadcast_to(table[0, -1], one_by_one.shape)
        values = np.concatenate([one_by_one, nothing], axis=1)
        there = np.ones(values.shape[:2], np.bool_)
        wanted = np.stack([right[:, :-1].ravel(), ~right[:, :-1].ravel()], axis=1)
    return _likeliest(values, there, wanted)


def _likeliest(
    values: LabelTable, there: Bool[np.ndarray, "n l"], wanted: Bool[np.ndarray, "n l"]
) -> LabelWeights:
    """A conditional logistic model, with no weight of a leg below 0."""
    target = np.einsum("nl,nlw->w", wanted / np.maximum(wanted.sum(axis=1, keepdims=True), 1), values)
    stiffness = 1 / PRIOR_SPREAD**2
    least = np.where(np.arange(len(COLUMNS)) == NONE, -np.inf, 0.0)

    def derivatives(weights: LabelWeights) -> tuple[LabelWeights, Float64[np.ndarray, "w w"]]:
        shares = softmax(np.where(there, values @ weights, -np.inf))
        mean, bend = moments(values, shares, np.ones(len(values)))
        slope = mean.sum(axis=0) - target + stiffness * (weights - PRIOR)
        return slope, bend + stiffness * np.eye(len(COLUMNS))

    return newton(PRIOR, derivatives, least, steps_until(SETTLED_CHANGE, least))
