"""Fits the weights of evidence on a collection's own items, without labels.

One side of an item asks for it (see evidence_questions.py), and what is known of it meanwhile must stand out
of the best strangers of every leg. The weights of all legs are fitted together by the likelihood of the right
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
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float32, Float64

from index.contracts import Space
from index.search.evidence import EvidenceQuery
from index.search.evidence_model import (
    COLUMNS,
    CONFIDENCE_PRIOR,
    LEGS,
    MEANINGLESS,
    NAMES,
    PLACES,
    PRIOR_SPREAD,
    WORDLESS,
    Curves,
    EvidenceModel,
    LegQuality,
    SideModel,
    Weights,
    confidence_facts,
    find_rivals,
    in_order,
    prior_weights,
)
from index.search.evidence_questions import (
    QuestionKind,
    TextEncoder,
    judged_questions,
    meaningless_queries,
    questions,
    read_known_items,
)
from index.search.evidence_trials import ReadScorer, Trial, TrialMaker
from index.search.search import engine_query
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
CURVE_SPREAD = 0.18  # how far a fit may carry what a fact adds to a confidence (std. dev.)
STEPS, NEAR, TINY = 40, 1e-3, 1e-30  # of Newton's method: the most, when it ends, against 0/0
QUOTE_WEIGHT = 8.0  # by which words of a text teach, so that other legs do not drown what an item says,
LONE_QUOTE_WEIGHT = 0.3  # and where no caption can be hidden: then they are all that speaks for words
# Facts of a confidence of which more never makes less sure, in each of its curves.
RISING = np.tile(np.isin(np.arange(len(CONFIDENCE_PRIOR[0])), (1, 2, 3)), len(CONFIDENCE_PRIOR))
TEXTLESS: frozenset[QuestionKind] = frozenset({"no texts", "strange words"})  # no text of the item answers
UNHEARD_KINDS: frozenset[QuestionKind] = frozenset({"no texts", "other words"})
MOST_GAINS = 0.9  # the share of queries without a meaning that are known as such

EachEvidence: TypeAlias = Sequence[Float64[np.ndarray, " _"]]  # of each trial, in nats
HeldOut: TypeAlias = tuple[EachEvidence, Sequence[Trial]]  # by weights that other items gave


def read_model(now: Connection, made_with: str) -> EvidenceModel | None:
    """The model that was fitted last; None if other parts gave its scores."""
    note = read_note(now, NOTE)
    model = None if note is None else EvidenceModel.from_json(note)
    return model if model is not None and model.made_with == made_with else None


def fit_collection(
    store: Store,
    space: Space,
    reading: ReadScorer,
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


def _meaningless_gain(space: Space, reading: ReadScorer, encode: TextEncoder, model: SideModel) -> float:
    """The gain that most queries without a meaning stay below."""
    texts, gains = meaningless_queries(), []
    for text, vector in zip(texts, space.vectors(encode(texts)), strict=True):
        with reading() as (scorer, _):
            query = EvidenceQuery(engine_query(space, vector), "text", text)
            hits = scorer.rank(query, replace(model, meaningless=0.0), range(1))
        gains += [hit.gain for hit in hits]
    return max(MEANINGLESS, float(np.quantile(gains, MOST_GAINS))) if gains else MEANINGLESS


def fit_evidence(trials: Mapping[Side, Sequence[Trial]], items: int, version: int) -> EvidenceModel:
    """The models of the sides of which there are trials enough."""
    sides = {}
    for side, some in trials.items():
        if len(_usual(some)) >= FEWEST_TRIALS:
            sides[side] = _fit_side(prior_weights(side), some)
    shapes: dict[Side, SideModel] = {}
    if any(trial.table.present[:, LEGS.index("points")].any() for some in trials.values() for trial in some):
        from index.search.shape_ranking import fit_shapes  # most collections do without

        shapes = fit_shapes(trials, _fit_side, FEWEST_TRIALS)
    return EvidenceModel(sides, items, version, shapes=shapes)


def _usual(trials: Sequence[Trial]) -> Sequence[Trial]:
    return [trial for trial in trials if trial.kind != "other words"]


def _fit_both(prior: Weights, trials: Sequence[Trial], legs: Sequence[Leg]) -> SideModel:
    """The weights of these legs, and those of queries whose words no item has."""
    weights = fit_weights(prior, teaching(_usual(trials)), legs)
    return SideModel(weights, wordless=_fit_wordless(weights, trials))


def _fit_wordless(usual: Weights, every: Sequence[Trial]) -> Weights:
    """The weights of queries whose words no item has: near the usual ones where words say nothing anyway."""
    prior = in_order(WORDLESS) if usual[PLACES["words"]].any() else usual
    unheard = [trial for trial in every if trial.kind in UNHEARD_KINDS and not trial.has_words]
    return fit_weights(prior, unheard, [leg for leg in LEGS if prior[PLACES[leg]].any()])


def _fit_side(prior: Weights, every: Sequence[Trial], among: Sequence[Leg] = LEGS) -> SideModel:
    trials = _usual(every)
    heard = [leg for leg in among if any(trial.table.values[:, PLACES[leg]].any() for trial in trials)]
    queries, votes = len(trials), sum(trial.votes for trial in trials)
    halves = [[t for t in trials if t.owner % 2 == half] for half in (0, 1)]
    if len(trials) < FEWEST_JUDGED or not all(halves):
        return replace(_fit_both(prior, every, heard), queries=queries, judgements=votes)

    def held_out(legs: Sequence[Leg]) -> HeldOut:
        """The evidence for the candidates of every trial, by the weights that the other half gave."""
        evidence, asked = [], []
        for half, others in (halves, halves[::-1]):
            fitted = SideModel(fit_weights(prior, teaching(others), legs))
            evidence += [trial.table.by_leg(fitted).sum(axis=1) for trial in half]
            asked += half
        return evidence, asked

    whole = held_out(heard)
    quality = {
        leg: LegQuality(
            recall_alone=_recall(*held_out([leg]), 1),
            recall_without=_recall(*held_out([one for one in heard if one != leg]), 1),
        )
        for leg in heard
    }
    recall = {"1": _recall(*whole, 1), "10": _recall(*whole, 10)}
    confidence = _held_out_confidence(prior, every, heard)
    return replace(
        _fit_both(prior, every, heard),
        confidence=confidence,
        queries=queries,
        recall=recall,
        legs=quality,
        judgements=votes,
    )


def _held_out_confidence(prior: Weights, trials: Sequence[Trial], legs: Sequence[Leg]) -> Curves:
    """The confidence of each half of the items by all weights that the other half gave."""
    evidence, asked = [], []
    for half in (0, 1):
        fitted = _fit_both(prior, [t for t in trials if t.owner % 2 != half], legs)
        mine = [t for t in trials if t.owner % 2 == half]
        evidence += [trial.table.by_leg(fitted).sum(axis=1) for trial in mine]
        asked += mine
    return fit_confidence(evidence, asked)


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


def fit_weights(prior: Weights, trials: Sequence[Trial], legs: Sequence[Leg]) -> Weights:
    """The weights under which the right items are likeliest, near those that hold without a fit.

    Vectors and readers keep at least their prior weight; only that of words may fall.
    """
    heard = np.isin(NAMES, [name for leg in legs for name in COLUMNS[leg]])
    weights = np.where(heard, prior, 0.0)
    least = np.where(np.isin(NAMES, COLUMNS["words"]), 0.0, weights)
    if not trials:
        return weights
    (values, there, right), counts = _stacked(trials), _counts(trials)
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
        free = heard & ((weights > least) | (slope < 0))
        step = np.zeros(len(NAMES))
        step[free] = np.linalg.solve(bend[np.ix_(free, free)], slope[free])
        moved = np.maximum(weights - np.clip(step, -1, 1), least)
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


def _recall(evidence: EachEvidence, trials: Sequence[Trial], first: int) -> float:
    """The share of queries with a right item among the first; ties go to the wrong ones."""
    ranks = [
        np.sum(values[t.candidates & ~t.right] >= values[t.right].max())
        for values, t in zip(evidence, trials, strict=True)
    ]
    return round(float(np.mean(np.array(ranks) < first)), 4)


def _counts_for_confidence(trial: Trial) -> float:
    """How much a query says of how sure the search may be of others like it: other words only where they are
    strange to the collection; and strange ones only where the item has a text that a reader could know.
    """
    strange = trial.table.strange
    return strange if trial.kind == "other words" else 1 - strange if trial.kind in TEXTLESS else 1.0


def fit_confidence(evidence: EachEvidence, trials: Sequence[Trial]) -> Curves:
    """The logistic curves of the best candidates, right or not: of the first, and of the others."""
    facts, right, counts = [], [], list[float]()
    for of_trial, trial in zip(evidence, trials, strict=True):
        chosen = of_trial[trial.candidates]
        rivals = find_rivals(chosen, trial.items, trial.table.length, trial.table.strange)
        first = np.argsort(-chosen)[:JUDGED]
        facts.append(confidence_facts(chosen, trial.table.whole[trial.candidates], rivals)[first])
        right.append(trial.right[trial.candidates][first])
        counts += [trial.weight * _counts_for_confidence(trial)] * len(first)
    curve = fit_logistic(
        np.concatenate(facts),
        np.concatenate(right),
        np.array(counts),
        np.ravel(CONFIDENCE_PRIOR),
        CURVE_SPREAD,
        RISING,
    )
    return tuple(map(tuple, curve.reshape(np.shape(CONFIDENCE_PRIOR)).tolist()))
