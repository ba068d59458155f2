"""Fits the weights of evidence on a collection's own items, without labels.

One side of an item asks for it (see evidence_questions.py), and what is known of it meanwhile must stand out
of the best strangers of every leg. The weights of all legs are fitted together by the likelihood of the right
item among these candidates (a conditional logistic model, no weight below 0), drawn towards the weights that
hold without any fit. A text that people asked with counts as several of those that the fit makes up.

Half of the items judge the weights that the other half gave: that is what the recall and the confidence of a
collection rest on. A leg without which the held-out items are found as well is switched off. So are all but
the best, where together they are better by no more than chance.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float32, Float64

from index.contracts import Ids, Space
from index.search.evidence import EvidenceQuery, EvidenceScorer, EvidenceTable, LegScores, no_sizes
from index.search.evidence_model import (
    COLUMNS,
    CONFIDENCE_PRIOR,
    LEGS,
    NAMES,
    PLACES,
    PRIOR_SPREAD,
    EvidenceModel,
    LegQuality,
    SideModel,
    Weights,
    confidence_facts,
    find_rivals,
    prior_weights,
)
from index.search.evidence_questions import (
    Question,
    QuestionKind,
    TextEncoder,
    fold_caption,
    judged_questions,
    questions,
    read_known_items,
    readable_name,
)
from index.search.logistic import fit_logistic
from index.search.search import engine_query
from index.store.metadata import last_change, read_note, write_note
from index.store.store import Store
from index.texts.text_indexes import texts_of
from multifold.errors import needs_extra
from multifold.scores import VectorScorer, similarities
from multifold.types import SIDES, Leg, Side, Vector, pool_mean

with needs_extra("serve"):
    from sqlalchemy import Connection

FEWEST_TRIALS = 8  # of a side, for a fit
FEWEST_JUDGED = 40  # trials from which held-out halves say how good a fit is
NOTE = "evidence"  # of the store, with the model
RIVALS = 50  # of the best of each leg
BREATH = 0.002  # seconds after each question, for those who search meanwhile
JUDGED = 5  # best candidates that a confidence is fitted on
CURVE_SPREAD = 0.18  # how far a fit may carry what a fact adds to a confidence (std. dev.)
STEPS, NEAR, TINY = 40, 1e-3, 1e-30  # of Newton's method: the most, when it ends, against 0/0
JUDGED_WEIGHT = 3.0  # of a text that people judged items for
QUOTE_WEIGHT = 8.0  # by which words of a text teach, so that other legs do not drown what an item says,
LONE_QUOTE_WEIGHT = 0.3  # and where no caption can be hidden: then they are all that speaks for words
RISING = (
    np.arange(np.size(CONFIDENCE_PRIOR)) % 7 < 4
)  # facts of a confidence of which more never makes less sure
SOUND = 0.002  # nats a query that a leg must be worth
BEYOND = 1.28  # standard errors by which several must beat the best by itself: by chance one in ten does


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
    def weight(self) -> float:
        """How much it counts."""
        return JUDGED_WEIGHT if self.kind == "judged" else 1.0


EachEvidence: TypeAlias = Sequence[Float64[np.ndarray, " _"]]  # of each trial, in nats
HeldOut: TypeAlias = tuple[EachEvidence, Sequence[Trial]]  # by weights that other items gave
ReadScorer: TypeAlias = Callable[[], AbstractContextManager[tuple[EvidenceScorer, Connection]]]


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
            if question.taken_from == "shape":  # what is made of all views knows those that ask
                scores.scores["together"][place] = np.nan
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


def read_model(now: Connection) -> EvidenceModel | None:
    """The model that was fitted last."""
    note = read_note(now, NOTE)
    return None if note is None else EvidenceModel.from_json(note)


def fit_collection(
    store: Store,
    space: Space,
    reading: ReadScorer,
    encode: TextEncoder | None,
    most: int,
    writes: bool,
) -> EvidenceModel:
    """Fit the model of a collection, on at most so many items, and store it."""
    with store.moment() as now:
        items, version = read_known_items(now, most), last_change(now)
        judged = judged_questions(now, encode)
    trials = TrialMaker(space, reading).trials([*questions(items, encode), *judged])
    model = fit_evidence(trials, len(items), version)
    if writes:
        with store.writing() as connection:
            write_note(connection, NOTE, model.to_json())
    return model


def fit_evidence(trials: Mapping[Side, Sequence[Trial]], items: int, version: int) -> EvidenceModel:
    """The models of the sides of which there are trials enough."""
    enough = {side: some for side, some in trials.items() if len(some) >= FEWEST_TRIALS}
    return EvidenceModel({side: _fit_side(side, some) for side, some in enough.items()}, items, version)


def _fit_side(side: Side, trials: Sequence[Trial]) -> SideModel:
    heard = [leg for leg in LEGS if any(trial.table.values[:, PLACES[leg]].any() for trial in trials)]
    votes = sum(trial.votes for trial in trials)
    halves = [[t for t in trials if t.owner % 2 == half] for half in (0, 1)]
    if len(trials) < FEWEST_JUDGED or not all(halves):
        return SideModel(fit_weights(side, teaching(trials), heard), queries=len(trials), judgements=votes)

    def held_out(legs: Sequence[Leg]) -> HeldOut:
        """The evidence for the candidates of every trial, by the weights that the other half gave."""
        evidence, asked = [], []
        for half, others in (halves, halves[::-1]):
            fitted = fit_weights(side, teaching(others), legs)
            evidence += [trial.table.by_leg(fitted).sum(axis=1) for trial in half]
            asked += half
        return evidence, asked

    legs, off, whole = list(heard), dict[Leg, str](), held_out(heard)
    without = {leg: held_out([one for one in heard if one != leg]) for leg in heard}
    alone = {leg: held_out([leg]) for leg in heard}
    recalls = {leg: (_recall(*alone[leg], 1), _recall(*without[leg], 1)) for leg in heard}
    while len(legs) > 1:  # one by one: of two that say the same, each is needless beside the other
        gains = {leg: _gain(without[leg], whole)[0] for leg in legs}
        weakest = min(legs, key=lambda leg: gains[leg])
        if gains[weakest] >= SOUND:
            break
        off[weakest] = f"held-out items are found as well without it ({gains[weakest]:+.3f} nats a query)"
        legs.remove(weakest)
        whole = without[weakest]
        without = {leg: held_out([one for one in legs if one != leg]) for leg in legs}
    best = min(legs, key=lambda leg: loss_of(*alone[leg]))
    gain, noise = _gain(alone[best], whole)
    if len(legs) > 1 and gain < BEYOND * noise:
        reason = f"held-out items are found as well by {best} alone ({gain:+.3f} ± {noise:.4f} nats a query)"
        off |= dict.fromkeys([leg for leg in legs if leg != best], reason)
        legs, whole = [best], alone[best]
    quality = {leg: LegQuality(*recalls[leg], off.get(leg)) for leg in heard}
    weights = fit_weights(side, teaching(trials), legs)
    recall = {"1": _recall(*whole, 1), "10": _recall(*whole, 10)}
    return SideModel(weights, fit_confidence(*whole), len(trials), recall, quality, votes)


def teaching(trials: Sequence[Trial]) -> Sequence[Trial]:
    """Those that weights are fitted on. Where no caption can be hidden, names would make words count too much
    for other queries, and hidden words too little.
    """
    if _hides_captions(trials):
        return trials
    return [trial for trial in trials if trial.kind not in ("name", "strange words")]


def _hides_captions(trials: Sequence[Trial]) -> bool:
    return any(trial.kind in ("caption", "some words") for trial in trials)


def _counts(trials: Sequence[Trial]) -> Float64[np.ndarray, " t"]:
    """How much each counts for the weights."""
    quote = QUOTE_WEIGHT if _hides_captions(trials) else LONE_QUOTE_WEIGHT
    return np.array([quote if trial.kind == "quote" else trial.weight for trial in trials])


def answerable(evidence: EachEvidence, trials: Sequence[Trial]) -> tuple[EachEvidence, Sequence[Trial]]:
    """Without the words of which an item has no other text: no leg of words can answer these."""
    places = [place for place, trial in enumerate(trials) if trial.kind != "strange words"]
    return [evidence[place] for place in places], [trials[place] for place in places]


def fit_weights(side: Side, trials: Sequence[Trial], legs: Sequence[Leg]) -> Weights:
    """The weights under which the right items are likeliest, near those that hold without a fit."""
    prior = prior_weights(side)
    heard = np.isin(NAMES, [name for leg in legs for name in COLUMNS[leg]])
    weights = np.where(heard, prior, 0.0)
    if not trials:
        return weights
    values, there, right = _stacked(trials)
    counts = _counts(trials)
    for _ in range(STEPS):
        evidence = np.where(there, values @ weights, -np.inf)
        likely = np.exp(evidence - evidence.max(axis=1, keepdims=True))
        of_all = likely / likely.sum(axis=1, keepdims=True)
        of_right = np.where(right, likely, 0)
        of_right /= of_right.sum(axis=1, keepdims=True) + TINY
        mean = np.einsum("tn,tnw->tw", of_all, values)
        slope = (weights - prior) / PRIOR_SPREAD**2
        slope += counts @ (mean - np.einsum("tn,tnw->tw", of_right, values))
        weighted = (values * (counts[:, None] * of_all)[:, :, None]).reshape(-1, len(NAMES))
        bend = weighted.T @ values.reshape(-1, len(NAMES)) - (counts[:, None] * mean).T @ mean
        bend += np.eye(len(NAMES)) / PRIOR_SPREAD**2
        free = heard & ((weights > 0) | (slope < 0))
        step = np.zeros(len(NAMES))
        step[free] = np.linalg.solve(bend[np.ix_(free, free)], slope[free])
        moved = np.clip(weights - np.clip(step, -1, 1), 0, None)
        if np.abs(moved - weights).max(initial=0) < NEAR:
            break
        weights = moved
    return weights


def _stacked(
    trials: Sequence[Trial],
) -> tuple[Float32[np.ndarray, "t n w"], Bool[np.ndarray, "t n"], Bool[np.ndarray, "t n"]]:
    """What is weighted of the candidates of all trials, which are there, and which are right."""
    most = max(int(trial.candidates.sum()) for trial in trials)
    values = np.zeros((len(trials), most, len(NAMES)), np.float32)
    there, right = (np.zeros((len(trials), most), np.bool_) for _ in range(2))
    for place, trial in enumerate(trials):
        count = int(trial.candidates.sum())
        values[place, :count] = trial.table.values[trial.candidates]
        there[place, :count], right[place, :count] = True, trial.right[trial.candidates]
    return values, there, right


def loss_of(evidence: EachEvidence, trials: Sequence[Trial]) -> float:
    """Nats by which the right items fall short of certainty, a query."""
    return float(np.average(_losses(evidence, trials), weights=np.maximum(_counts(trials), 1)))


def _losses(evidence: EachEvidence, trials: Sequence[Trial]) -> Float64[np.ndarray, " t"]:
    losses = [
        np.logaddexp.reduce(values[t.candidates]) - np.logaddexp.reduce(values[t.candidates & t.right])
        for values, t in zip(evidence, trials, strict=True)
    ]
    return np.array(losses)


def _gain(less: HeldOut, more: HeldOut) -> tuple[float, float]:
    """By how many nats a query the right items are likelier by more legs, and the standard error of it."""
    (fewer, trials), (every, _) = answerable(*less), answerable(*more)
    counts = np.maximum(_counts(trials), 1)  # what is stored has to be found
    gains = _losses(fewer, trials) - _losses(every, trials)
    gain = float(np.average(gains, weights=counts))
    owners = np.unique([trial.owner for trial in trials], return_inverse=True)[1]
    noise = np.linalg.norm(np.bincount(owners, counts * (gains - gain))) / counts.sum()
    return gain, float(noise)


def _recall(evidence: EachEvidence, trials: Sequence[Trial], first: int) -> float:
    """The share of queries with a right item among the first; ties go to the wrong ones."""
    ranks = [
        np.sum(values[t.candidates & ~t.right] >= values[t.right].max())
        for values, t in zip(evidence, trials, strict=True)
    ]
    return round(float(np.mean(np.array(ranks) < first)), 4)


def fit_confidence(evidence: EachEvidence, trials: Sequence[Trial]) -> tuple[tuple[float, ...], ...]:
    """The logistic curves of the best candidates, right or not: of the first, and of the others."""
    facts, right, counts = [], [], list[float]()
    for of_trial, trial in zip(evidence, trials, strict=True):
        chosen = of_trial[trial.candidates]
        rivals = find_rivals(chosen, trial.items, trial.table.length, trial.table.strange)
        first = np.argsort(-chosen)[:JUDGED]
        facts.append(confidence_facts(chosen, trial.table.whole[trial.candidates], rivals)[first])
        right.append(trial.right[trial.candidates][first])
        counts += [trial.weight] * len(first)
    curve = fit_logistic(
        np.concatenate(facts),
        np.concatenate(right),
        np.array(counts),
        np.ravel(CONFIDENCE_PRIOR),
        CURVE_SPREAD,
        RISING,
    )
    return tuple(map(tuple, curve.reshape(np.shape(CONFIDENCE_PRIOR)).tolist()))
