"""No caption lies, and captions differ."""

from dataclasses import replace

import numpy as np
import pytest

from tests.training.data.pieces import mixed
from tests.training.data.reader import Lexicon, Reader, lexicon
from training.data.furniture.captions import CaptionWriter
from training.data.furniture.modeling.facts import FurnitureFact
from training.data.furniture.modeling.palette import COLOURS, words_of_colour
from training.data.furniture.modeling.piece import FurnitureCaption, FurniturePiece


def captions() -> list[tuple[FurniturePiece, FurnitureCaption]]:
    """Each with the piece that it is about."""
    return [(piece, caption) for piece in mixed() for caption in piece.captions]


@pytest.fixture(scope="module")
def words() -> Lexicon:
    return lexicon()


def test_every_caption_claims_its_facts_and_nothing_else(words: Lexicon) -> None:
    for piece, caption in captions():
        claims = Reader(piece, words).read(caption.text)
        recorded = set(caption.facts)
        assert all(claim & recorded for claim in claims), caption
        assert recorded <= set().union(*claims), caption


def test_captions_name_facts_that_the_piece_has() -> None:
    for piece, caption in captions():
        known = {fact.id for fact in piece.facts} | {f"whole.kind={piece.kind}"}
        assert set(caption.facts) <= known
        assert 2 <= len(set(caption.facts) - {f"whole.kind={piece.kind}"}) <= 5


def test_a_lie_is_caught(words: Lexicon) -> None:
    """The reader itself: change one colour in a caption, and it fails."""
    caught = tried = 0
    for piece, caption in captions()[:200]:
        colours = {part.finish.colour for part in piece.parts}
        free = next(name for name in COLOURS if name not in colours)
        for colour in sorted(colours):
            for word in words_of_colour(colour):
                if f" {word} " in caption.text:
                    tried += 1
                    lie = caption.text.replace(f" {word} ", f" {free} ", 1)
                    caught += _fails(piece, lie, words)
    assert tried > 100
    assert caught == tried


def _fails(piece: FurniturePiece, text: str, words: Lexicon) -> bool:
    try:
        Reader(piece, words).read(text)
    except AssertionError:
        return True
    return False


def test_the_kind_is_nearly_always_named() -> None:
    named = sum(f"whole.kind={piece.kind}" in caption.facts for piece, caption in captions())
    assert 0.9 < named / len(captions()) < 1


def test_captions_of_a_piece_differ_in_words_and_facts() -> None:
    for piece in mixed():
        assert len({caption.text for caption in piece.captions}) == len(piece.captions) == 8
        assert len({frozenset(caption.facts) for caption in piece.captions}) >= 4


def test_some_captions_match_some_views_only() -> None:
    partial = 0
    for piece, caption in captions():
        sides = [fact.sides for fact in piece.facts if fact.id in caption.facts]
        around = frozenset(("front", "back", "left", "right"))
        partial += not around <= frozenset.intersection(*sides)
    assert 0.3 < partial / len(captions()) < 0.9


def test_one_thing_and_its_facts_become_one_phrase() -> None:
    """'four black legs' is one phrase, whatever the order in which the facts were chosen."""
    piece = next(piece for piece in mixed() if _legged(piece))
    kind = FurnitureFact(piece.whole, "kind", piece.kind, piece.whole.nouns, ())
    legs = tuple(replace(fact, tails=()) for fact in _legged(piece))
    texts = {
        CaptionWriter(np.random.default_rng(seed), kind, legs[::-1]).write(1)[0].text for seed in range(40)
    }
    colour = words_of_colour(legs[1].value)[0]
    assert any(f"four {colour} legs" in text for text in texts)


def _legged(piece: FurniturePiece) -> list[FurnitureFact]:
    found = {fact.attribute: fact for fact in piece.facts if fact.thing.id == "legs"}
    four = "count" in found and found["count"].value == "4"
    return [found["count"], found["colour"]] if four else []


def test_few_facts_give_few_captions_and_no_endless_search() -> None:
    piece = mixed()[0]
    kind = FurnitureFact(piece.whole, "kind", piece.kind, ("thing",), ())
    fact = replace(piece.facts[0], words=("red",), tails=())
    written = CaptionWriter(np.random.default_rng(0), kind, (fact,)).write(100)
    assert 1 < len(written) < 100
