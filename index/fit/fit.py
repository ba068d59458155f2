"""Fits the weights of evidence on a collection's own items, without labels.

One side of an item asks for it (see questions.py), and what is known of it meanwhile must stand out
of the best others of every leg. The weights of all legs are fitted together by the likelihood of the right
item among these candidates (a conditional logistic model, no weight below 0), drawn towards the weights that
hold without any fit. A text that people asked with counts as several of those that the fit makes up.

Queries whose words no item has get weights of their own: from words that only the hidden caption has, and
from captions of items whose texts are all hidden.

Half of the items judge the weights that the other half gave: that is what the recall and the confidence of a
collection rest on. No leg falls below its prior weight: the questions are made of names and captions, which
words answer by themselves, so they cannot tell what a leg is worth to users who say it otherwise.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np

from index.contracts import Space
from index.fit.questions import (
    TextEncoder,
    judged_questions,
    meaningless_queries,
    questions,
    read_known_items,
)
from index.fit.sight import measure_sight
from index.fit.trials import ReadSearcher, Trial, TrialMaker
from index.fit.weights import fit_weights, has_lone_captions, teaching
from index.legs.table import BY_NAME, COLUMNS_OF, LEGS
from index.search.confidence import (
    CONFIDENCE_PRIOR,
    RISING,
    Curves,
    Evidence,
    as_curves,
    confidence_facts,
)
from index.search.model import (
    MEANINGLESS,
    EvidenceModel,
    LegQuality,
    SideModel,
    prior_model,
)
from index.search.promise import Outcome, QueryClass, class_of
from index.search.query import Query
from index.search.ranking import rank
from index.store.metadata import last_change, read_note, write_note
from index.store.store import Store
from multifold.errors import needs_extra
from multifold.logistic import fit_logistic
from multifold.types import Leg, Side

with needs_extra("serve"):
    from sqlalchemy import Connection

FEWEST_TRIALS = 8  # of a side, for a fit
FEWEST_JUDGED = 40  # trials from which held-out halves say how good a fit is
NOTE = "evidence"  # of the store, with the model
JUDGED = 5  # best candidates that a confidence is fitted on
# How far a fit may carry what a fact adds to a confidence (std. dev.). Pictures are asked as people ask with
# them; what people say in other words no question tells.
CURVE_SPREAD: Mapping[Side, float] = {"text": 0.07, "image": 0.3, "shape": 0.3}
AS_PEOPLE_ASK = 0.5  # how much a question counts for a confidence that tells how an answer is to be cut
DIGITS = 4  # of what is kept of an outcome
MOST_GAINS = 0.9  # the share of queries without a meaning that are known as such

HeldOut: TypeAlias = Sequence[tuple[Evidence, Trial]]  # the evidence by weights that other items gave


def read_model(now: Connection, made_with: str) -> EvidenceModel | None:
    """The model that was fitted last; None if other parts gave its scores."""
    note = read_note(now, NOTE)
    model = None if note is None else EvidenceModel.from_json(note)
    return model if model is not None and model.made_with == made_with else None


def fit_collection(
    store: Store,
    space: Space,
    reading: ReadSearcher,
    encode: TextEncoder | None,
    most: int,
    made_with: str,
    alone: Callable[[], AbstractContextManager[None]] | None,
) -> EvidenceModel:
    """Fit the model of a collection, on so many items, and store it `alone`, if it is not closed by then."""
    with store.moment() as now:
        items, version = read_known_items(now, most), last_change(now)
        judged = judged_questions(now, encode)
    trials = TrialMaker(space, reading).trials([*questions(items, encode), *judged])
    model = replace(fit_evidence(trials, len(items), version), made_with=made_with)
    if encode is not None and "text" in model.sides:
        text = model.of("text")
        text = replace(text, meaningless=_meaningless_gain(space, reading, encode, text))
        model = replace(model, sides={**model.sides, "text": text})
    if alone is not None:
        with alone(), store.writing() as connection:
            write_note(connection, NOTE, model.to_json())
    return model


def _meaningless_gain(space: Space, reading: ReadSearcher, encode: TextEncoder, model: SideModel) -> float:
    """The gain that most queries without a meaning stay below."""
    texts, gains = meaningless_queries(), []
    for text, vector in zip(texts, space.vectors(encode(texts)), strict=True):
        query = Query(vector, text=text, own={"text": vector})
        with reading() as (searcher, now):
            found = rank(searcher.asked(query, now), replace(model, meaningless=0.0), range(1))
        if found.presence is not None:
            gains.append(found.presence.gain)
    return max(MEANINGLESS, float(np.quantile(gains, MOST_GAINS))) if gains else MEANINGLESS


def fit_evidence(trials: Mapping[Side, Sequence[Trial]], items: int, version: int) -> EvidenceModel:
    """The models of the sides of which there are trials enough."""
    sides = {}
    for side, some in trials.items():
        if len(_usual(_telling(some))) >= FEWEST_TRIALS:
            sides[side] = _fit_side(side, some)
    if (sight := measure_sight(trials.get("text", ()))) is not None:
        sides["image"] = replace(sides.get("image") or prior_model("image"), sight=sight)
    return EvidenceModel(sides, items, version)


def _telling(trials: Sequence[Trial]) -> Sequence[Trial]:
    return [trial for trial in trials if trial.tells]


def _usual(trials: Sequence[Trial]) -> Sequence[Trial]:
    return [trial for trial in trials if trial.kind.usual]


def _fit_both(prior: SideModel, trials: Sequence[Trial]) -> SideModel:
    """The weights of all legs, and those of queries whose words no item has.

    A leg of which the questions say nothing keeps its prior weight.
    """
    unheard = [trial for trial in trials if trial.kind.wordless and not trial.has_words]
    weights = fit_weights(prior.weights, teaching(_usual(trials)), LEGS)
    return SideModel(weights, wordless=fit_weights(prior.wordless, unheard, LEGS))


def _fit_side(side: Side, asked: Sequence[Trial]) -> SideModel:
    prior, every = prior_model(side), _telling(asked)
    trials = _usual(every)
    heard = [leg for leg in LEGS if any(trial.scores.values[:, COLUMNS_OF[leg]].any() for trial in trials)]
    fitted = replace(
        _fit_both(prior, every), queries=len(trials), judgements=sum(trial.votes for trial in trials)
    )
    if len(trials) < FEWEST_JUDGED or len({trial.owner % 2 for trial in trials}) < 2:
        return fitted

    def held_out(legs: Sequence[Leg]) -> HeldOut:
        """The usual questions, by the weights of these legs alone."""
        return _held_out(
            trials, trials, lambda some: SideModel(fit_weights(prior.weights, teaching(some), legs))
        )

    whole = held_out(heard)
    quality: dict[Leg, LegQuality] = {
        leg: LegQuality(
            recall_alone=_recall(held_out([leg]), 1),
            recall_without=_recall(held_out([one for one in heard if one != leg]), 1),
        )
        for leg in heard
        if not BY_NAME[leg].takes_long  # usual questions tell little of it: an item has their words
    }
    recall = {"1": _recall(whole, 1), "10": _recall(whole, 10)}
    judged = _held_out(every, asked, partial(_fit_both, prior))
    told = [(evidence, trial) for evidence, trial in judged if trial.tells]
    return replace(
        fitted,
        confidence=CONFIDENCE_PRIOR if has_lone_captions(every) else fit_confidence(told, CURVE_SPREAD[side]),
        recall=recall,
        legs=quality,
        outcomes=_outcomes(judged),
    )


def _held_out(
    taught: Sequence[Trial], asked: Sequence[Trial], fit: Callable[[Sequence[Trial]], SideModel]
) -> HeldOut:
    """What is asked of each half of the items, by what was fitted on the other half."""
    judged = []
    for half in (0, 1):
        model = fit([trial for trial in taught if trial.owner % 2 != half])
        mine = [trial for trial in asked if trial.owner % 2 == half]
        judged += [(trial.scores.ratios(model).sum(axis=1), trial) for trial in mine]
    return judged


def _outcomes(judged: HeldOut) -> dict[QueryClass, tuple[Outcome, ...]]:
    """How the questions went that are as people ask, those that gained least first."""
    outcomes: dict[QueryClass, list[Outcome]] = {}
    for evidence, trial in judged:
        scores, chosen = trial.scores, evidence[trial.candidates]
        counts = trial.kind.counts_for_confidence(scores.strange)
        if trial.kind.as_people_ask and counts >= AS_PEOPLE_ASK:
            gain = scores.rivals(chosen, trial.items).gain
            behind = float(chosen.max() - evidence[trial.right].max())
            place = _count_before(evidence, trial)
            like_it = outcomes.setdefault(class_of(scores.length, scores.strange), [])
            like_it.append(Outcome(round(gain, DIGITS), round(behind, DIGITS), place))
    return {name: tuple(sorted(some)) for name, some in outcomes.items()}


def _recall(judged: HeldOut, first: int) -> float:
    """The share of queries with a right item among the first."""
    places = np.array([_count_before(evidence, trial) for evidence, trial in judged])
    return round(float(np.mean(places < first)), 4)


def _count_before(evidence: Evidence, trial: Trial) -> int:
    """How many wrong items come before the first right one; ties go to the wrong ones."""
    return int(np.sum(evidence[trial.candidates & ~trial.right] >= evidence[trial.right].max()))


def fit_confidence(judged: HeldOut, spread: float) -> Curves:
    """The logistic curves of the best candidates, right or not: of the first, and of the others."""
    facts, right, counts = [], [], list[float]()
    for of_trial, trial in judged:
        scores, chosen = trial.scores, of_trial[trial.candidates]
        rivals = scores.rivals(chosen, trial.items)
        first = np.argsort(-chosen)[:JUDGED]
        stated, bare = scores.stated[trial.candidates], scores.bare[trial.candidates]
        facts.append(confidence_facts(chosen, stated, bare, rivals)[first])
        right.append(trial.right[trial.candidates][first])
        counts += [trial.kind.weight * trial.kind.counts_for_confidence(scores.strange)] * len(first)
    curve = fit_logistic(
        np.concatenate(facts),
        np.concatenate(right),
        np.array(counts),
        np.ravel(CONFIDENCE_PRIOR),
        spread,
        RISING,
    )
    return as_curves(curve)
