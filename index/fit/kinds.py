"""The kinds of questions that a collection's items ask: a row for each, with all that a fit makes of it.

What makes them is in questions.py, which yields each kind by its row.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

RightBy: TypeAlias = Literal["captions", "names", "verdicts"]  # the same ones as the owner's; good ones
# Which texts are hidden: one caption of its owner, whose others are known; all of its owner's; all there are.
HiddenTexts: TypeAlias = Literal["nothing", "caption", "its texts", "every text"]


@dataclass(frozen=True)
class QuestionKind:
    """What a kind of question teaches, and how much it counts."""

    name: str
    right_by: RightBy = "captions"  # which items are right beside its owner
    usual: bool = True  # it teaches the weights of most queries
    wordless: bool = False  # it teaches those of queries whose words no item has
    hides: HiddenTexts = "nothing"
    needs_captions: bool = False  # it teaches only where other questions hide captions
    weight: float = 1.0  # how much it counts
    teaches: float = 1.0  # so many times its weight it counts for weights,
    teaches_alone: float = 1.0  # and so many times where no caption can be hidden
    # How much it says of how sure the search may be of queries like it: whose words items have, and whose
    # words none has.
    confidence: float = 1.0
    wordless_confidence: float = 1.0
    as_people_ask: bool = True  # how it goes tells how an answer is to be cut

    def counts_for_confidence(self, strange: float) -> float:
        """How much it says of a confidence of queries that are so strange."""
        return self.confidence + (self.wordless_confidence - self.confidence) * strange


CAPTION = QuestionKind("caption", hides="caption")
NO_TEXTS = QuestionKind("no texts", wordless=True, hides="every text", wordless_confidence=0.0)
# Of an item that has no text beside others that have some: as many as there are such items.
UNWRITTEN = QuestionKind("unwritten", wordless=True, hides="its texts")
SOME_WORDS = QuestionKind("some words", hides="caption")
# Of an item with one caption. Without questions that hide captions, names would make words count too much for
# other queries, and hidden words too little.
STRANGE_WORDS = QuestionKind("strange words", needs_captions=True, wordless_confidence=0.0)
# What pictures say of names, where nobody wrote any. It tells nothing of queries by words.
BARE_NAME = QuestionKind(
    "bare name", right_by="names", usual=False, wordless=True, hides="every text", confidence=0.0,
    wordless_confidence=0.0,
)  # fmt: skip
NAME = QuestionKind("name", right_by="names", needs_captions=True, wordless_confidence=0.0)
# Words of a caption that no other text of the item has. The item has a text that a reader could know, so they
# say something of a confidence where they are strange to the collection, and only there.
OTHER_WORDS = QuestionKind("other words", usual=False, wordless=True, confidence=0.0)
# Words of a known text teach so much that other legs do not drown what an item says. Where no caption can be
# hidden, they are all that speaks for words. Few people say the very words that are written.
QUOTE = QuestionKind("quote", teaches=8.0, teaches_alone=0.3, confidence=0.5, wordless_confidence=0.5)
# A picture asks twice, and people ask with new ones.
PICTURE = QuestionKind("picture", confidence=0.5, wordless_confidence=0.5, as_people_ask=False)
NEW_PICTURE = QuestionKind("new picture", usual=False, confidence=0.5, wordless_confidence=0.5)
# It finds nothing that is like it, as no picture that people ask with.
LONE_PICTURE = QuestionKind("lone picture", confidence=0.0, wordless_confidence=0.0)
MESH = QuestionKind("mesh")
JUDGED = QuestionKind("judged", right_by="verdicts", weight=3.0)
