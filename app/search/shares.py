"""Which of several collections has what a query means: how likely each is, by what it answers.

Evidence is what an item has beyond others of its own collection, so it does not tell collections apart:
"wooden" says little among furniture, and much among faces. For a text it is told by the chance that one of
its first hits is what is meant, whether the first stands out, and how many items have the words.
"""

from collections.abc import Mapping

import numpy as np

from multifold.wire.search import SearchAnswer

FIRST_HITS = 0.5  # nats for one of the odds that what is meant is among the first hits,
MATCH = 1.0  # for an answer that matches well,
WORDS = 0.4  # for one by which more items have the words,
EVIDENCE = 0.15  # and for one of all evidence, which grows with a collection: one item stands out of nothing
LEAST_CHANCE = 1e-3  # of the first hits, and of all others
MOST_BY_WORDS = 8.0  # nats, before they are weighed


def log_chances(answers: Mapping[str, SearchAnswer]) -> dict[str, float]:
    """How likely each collection with hits has what is meant: a logarithm, but for what all have in common.

    Queries that are no text, and answers of older versions, are compared by their evidence.
    """
    shown = {name: one for name, one in answers.items() if one.hits and one.everything is not None}
    if any(one.items_with_words is None or one.hits[0].confidence is None for one in shown.values()):
        return {name: one.everything or 0.0 for name, one in shown.items()}
    words = word_ratios(shown)
    return {
        name: FIRST_HITS * log_odds(one.chance or 0.0)
        + MATCH * bool(one.matches_well)
        + WORDS * words[name]
        + EVIDENCE * (one.everything or 0.0)
        for name, one in shown.items()
    }


def log_odds(chance: float) -> float:
    known = min(max(chance, LEAST_CHANCE), 1 - LEAST_CHANCE)
    return float(np.log(known / (1 - known)))


def word_ratios(answers: Mapping[str, SearchAnswer]) -> dict[str, float]:
    """Nats by which more items of each have the words than are usual; 0 of a collection without texts."""
    having = {name: one.items_with_words or {} for name, one in answers.items() if one.items_with_texts}
    words = sorted(set[str].intersection(*map(set, having.values()))) if having else []
    items = np.array([[answers[name].items_with_texts or 0] for name in having], float)
    found = np.array([[one[word] for word in words] for one in having.values()], float)
    if not words:
        return dict.fromkeys(answers, 0.0)
    usual = items * found.sum(axis=0) / items.sum()
    ratios = np.log((found + 1) / (usual + 1)).sum(axis=1).clip(-MOST_BY_WORDS, MOST_BY_WORDS)
    return dict.fromkeys(answers, 0.0) | dict(zip(having, ratios.tolist(), strict=True))
