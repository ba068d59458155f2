"""The grammar: a random subset of the facts, in different words and orders; nothing that is not a fact."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from training.data.furniture.modeling.facts import ATTRIBUTES, Attribute, FactSubject, FurnitureFact
from training.data.furniture.modeling.piece import FurnitureCaption

SIZES, SIZE_ODDS = (2, 3, 4, 5), (0.2, 0.35, 0.3, 0.15)
WEIGHTS: dict[Attribute, float] = {"colour": 4.0, "count": 2.5, "shape": 2.5, "place": 2.5, "pattern": 2.0}
WHOLE_WEIGHT = 1.6  # people say first what a piece is as a whole
NAMELESS = 0.04  # how often a caption does not say the kind
NAMELESS_NOUNS = ("piece", "object", "item")
OPENINGS = ("", "", "", "there is ", "this is ", "i am looking for ", "find me ", "a picture of ")
CAPTION_ATTEMPTS = 20


@dataclass(frozen=True)
class CaptionWriter:
    """Writes about one piece; `kind` is the fact that says what it is."""

    rng: np.random.Generator
    kind: FurnitureFact
    facts: tuple[FurnitureFact, ...]

    def write(self, number: int) -> tuple[FurnitureCaption, ...]:
        """That many captions, all different if the facts allow it."""
        written: dict[str, FurnitureCaption] = {}
        for _ in range(number * CAPTION_ATTEMPTS):
            caption = self._caption()
            written.setdefault(caption.text, caption)
            if len(written) == number:
                break
        return tuple(written.values())

    def _caption(self) -> FurnitureCaption:
        facts = self._choose()
        named = self.rng.random() >= NAMELESS
        whole = FactSubject("whole", self.kind.thing.nouns if named else NAMELESS_NOUNS, ())
        by_thing: dict[str, list[FurnitureFact]] = {"whole": []}
        for fact in facts:
            by_thing.setdefault(fact.thing.id, []).append(fact)
        own = by_thing.pop("whole")
        rest = [self._phrase(group[0].thing, group) for group in by_thing.values()]
        claimed = [fact.id for fact in ((self.kind, *facts) if named else facts)]
        return FurnitureCaption(self._sentence(whole, own, rest), tuple(claimed))

    def _choose(self) -> list[FurnitureFact]:
        if not self.facts:
            return []
        number = min(int(self.rng.choice(SIZES, p=SIZE_ODDS)), len(self.facts))
        weights = np.array([WEIGHTS.get(fact.attribute, 1.0) for fact in self.facts])
        weights *= [WHOLE_WEIGHT if fact.thing.id == "whole" else 1.0 for fact in self.facts]
        places = self.rng.choice(len(self.facts), number, replace=False, p=weights / weights.sum())
        return [self.facts[place] for place in places]

    def _sentence(self, whole: FactSubject, own: Sequence[FurnitureFact], rest: Sequence[str]) -> str:
        if not rest:
            return self._pick(OPENINGS) + self._phrase(whole, own)
        if own and self.rng.random() < 0.2:
            noun = self._pick(whole.nouns)
            predicates = [self._pick(fact.words) for fact in own]
            return f"this {noun} is {_listed(predicates)} and has {_listed(rest)}"
        head = self._phrase(whole, own)
        tail = _listed(rest)
        forms = (f"{head} with {tail}", f"{head} that has {tail}", f"{head}, {', '.join(rest)}")
        odd = (f"with {tail}: {head}", f"{head}. it has {tail}")
        form = self._pick(forms if self.rng.random() < 0.8 else odd)
        return form if form.startswith("with ") else self._pick(OPENINGS) + form

    def _phrase(self, thing: FactSubject, facts: Sequence[FurnitureFact]) -> str:
        """A noun with its attributes: "four thin black legs", "a ball on the seat"."""
        before: list[str] = []
        after: list[str] = []
        for fact in sorted(facts, key=lambda fact: ATTRIBUTES.index(fact.attribute)):
            tail = fact.tails and (not fact.words or (not after and self.rng.random() < 0.2))
            (after if tail else before).append(self._pick(fact.tails if tail else fact.words))
        phrase = " ".join([*before, self._pick(thing.nouns), *after])
        settled = thing.plural or any(fact.attribute in ("count", "absent") for fact in facts)
        return phrase if settled else f"{article(phrase)} {phrase}"

    def _pick(self, options: Sequence[str]) -> str:
        return options[int(self.rng.integers(len(options)))]


def _listed(phrases: Sequence[str]) -> str:
    *first, last = phrases
    return f"{', '.join(first)} and {last}" if first else last


def article(phrase: str) -> str:
    return "an" if phrase[0] in "aeiou" else "a"
