"""What the items of a collection are asked with, to fit how evidence is weighted.

One side of an item asks for it: a caption that is hidden for the moment, a few words of one, its name, a
photo, half of its views. The rest of the item is known. A text that people judged items good for asks too.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from index.fit.kinds import (
    BARE_NAME,
    CAPTION,
    JUDGED,
    LONE_PICTURE,
    MESH,
    NAME,
    NEW_PICTURE,
    NO_TEXTS,
    OTHER_WORDS,
    PICTURE,
    QUOTE,
    SOME_WORDS,
    STRANGE_WORDS,
    UNWRITTEN,
    QuestionKind,
)
from index.store.browse import editions_of, read_items, sample_editions
from index.store.feedback import every_judgement, text_or_picture
from index.store.schema import items as items_table
from index.texts.analysis import path_steps, words_of_name
from index.texts.contracts import ItemTexts
from index.texts.text_indexes import texts_of
from multifold.errors import needs_extra
from multifold.types import Feature, Features, Item, Side, features_of, pool_mean

with needs_extra("serve"):
    from sqlalchemy import Connection, select

MOST_ITEMS = 200  # that ask
MOST_JUDGED = 200  # texts that people asked with, those that were judged last
SHORT_QUERY_WORDS = 3  # words of a short query
SHORT = 2  # letters of a word that no short query is made of

MEANINGLESS_QUERIES, LETTERS = 32, "abcdefghijklmnopqrstuvwxyz"
TextEncoder = Callable[[Sequence[str]], Features]


@dataclass(frozen=True)
class KnownItem:
    """An item that may ask, with its edition and its texts."""

    edition: int
    item: Item
    texts: ItemTexts

    def features(self, side: Side) -> list[Feature]:
        return features_of(self.item.observations, side)


@dataclass(frozen=True)
class Question:
    """What an item is asked with, and what is known of it meanwhile; None leaves a side as it is."""

    owner: int  # its edition
    side: Side
    feature: Feature | None  # None until its text is encoded
    kind: QuestionKind
    text: str | None = None
    known: Sequence[Feature] | None = None  # of the side that it is taken from
    texts: ItemTexts | None = None
    good: frozenset[int] = frozenset()  # editions that are as right as the owner
    bad: frozenset[int] = frozenset()  # that are wrong
    votes: int = 0  # of people
    taken_from: Side | None = None  # if that is not the side that asks


def read_known_items(now: Connection, most: int = MOST_ITEMS) -> list[KnownItem]:
    """The items that may ask, evenly spread over the collection."""
    editions = sample_editions(now, most).tolist()
    rows = now.execute(select(items_table).where(items_table.c.edition.in_(editions))).mappings().all()
    texts = {one.edition: one for one in texts_of(now, editions)}
    return [
        KnownItem(row["edition"], item, texts[row["edition"]])
        for row, item in zip(rows, read_items(now, rows), strict=True)
    ]


def questions(items: Sequence[KnownItem], encode: TextEncoder | None, seed: int = 0) -> list[Question]:
    random = np.random.default_rng(seed)
    common = common_words(text for item in items for text in item.texts.captions)
    unwritten = sum(says_nothing(item.texts) for item in items) / max(len(items), 1)
    every = [one for item in items for one in _hidden_captions(item, unwritten, random)]
    every += [one for item in items for side in ("image", "shape") for one in _pictures(item, side, random)]
    short = [one for item in items for one in _short_texts(item, common, random)]
    return every + _encoded(short, encode)


def _encoded(short: Sequence[Question], encode: TextEncoder | None) -> list[Question]:
    """Texts with their features; none without an encoder."""
    if encode is None or not short:
        return []
    features = encode([question.text or "" for question in short])
    return [replace(one, feature=feature) for one, feature in zip(short, features, strict=True)]


def judged_questions(now: Connection, encode: TextEncoder | None) -> list[Question]:
    """The texts that items were judged good for, of late. The majority counts; a tie is left out."""
    texts: dict[str, str] = {}
    balance: dict[str, Counter[str]] = defaultdict(Counter)
    votes, latest = Counter[str](), defaultdict[str, float](float)
    for judgement in every_judgement(now):
        means, text = text_or_picture(judgement.query) or ("", "")
        if means == "text" and (wanted := fold_caption(text)):
            texts.setdefault(wanted, text)
            balance[wanted][judgement.item] += 1 if judgement.verdict == "good" else -1
            votes[wanted] += 1
            latest[wanted] = max(latest[wanted], judgement.given)
    chosen = sorted(texts, key=lambda wanted: -latest[wanted])[:MOST_JUDGED]
    editions = editions_of(now, sorted({item for wanted in chosen for item in balance[wanted]}))
    every = []
    for wanted in chosen:
        of_query = {editions[item]: sign for item, sign in balance[wanted].items() if item in editions}
        good = frozenset(edition for edition, sign in of_query.items() if sign > 0)
        bad = frozenset(edition for edition, sign in of_query.items() if sign < 0)
        if good:
            owner = min(good)
            asked = Question(owner, "text", None, JUDGED, texts[wanted])
            every.append(replace(asked, good=good, bad=bad, votes=votes[wanted]))
    return _encoded(every, encode)


def _hidden_captions(one: KnownItem, unwritten: float, random: np.random.Generator) -> Iterator[Question]:
    """A whole caption, with all others known, where no item has a text and, for the share of items that have
    none, where only its own has none.
    """
    captions, features = one.texts.captions, one.features("text")
    saying = places_that_say_something(one.texts)
    if not saying or len(captions) != len(features):
        return
    hidden = int(random.choice(saying))
    if len(captions) > 1:
        yield _hiding(one, hidden, features[hidden], CAPTION, captions[hidden])
    whole = Question(one.edition, "text", features[hidden], NO_TEXTS, captions[hidden])
    yield whole
    if random.random() < unwritten / (1 - unwritten):
        yield replace(whole, kind=UNWRITTEN, known=[], texts=ItemTexts(one.edition, ""))


def _hiding(one: KnownItem, hidden: int, feature: Feature | None, kind: QuestionKind, text: str) -> Question:
    """A question of which one caption of its owner says more than is known."""
    rest = [place for place in range(len(one.texts.captions)) if place != hidden]
    texts = replace(one.texts, captions=tuple(one.texts.captions[place] for place in rest))
    features = one.features("text")
    return Question(one.edition, "text", feature, kind, text, [features[place] for place in rest], texts)


def says_nothing(texts: ItemTexts) -> bool:
    """Whether nobody wrote anything of an item: it has no caption, and its name is a number or a camera's."""
    return not texts.captions and not written_name(texts)


def common_words(texts: Iterable[str]) -> set[str]:
    """Words that a tenth of all texts have."""
    captions = [set(fold_caption(text).split()) for text in texts]
    counts = Counter(word for words in captions for word in words)
    return {word for word, count in counts.items() if count * 10 > len(captions)}


def _short_texts(one: KnownItem, common: set[str], random: np.random.Generator) -> Iterator[Question]:
    """A few words of a hidden caption, of a known one, and the name; their features come later."""
    captions, features = one.texts.captions, one.features("text")
    if captions and len(captions) == len(features):
        if saying := places_that_say_something(one.texts):
            hidden = int(random.choice(saying))
            # of no text of its owner
            kind = SOME_WORDS if len(captions) > 1 else STRANGE_WORDS
            yield _hiding(
                one, hidden, None, kind, cut_words(captions[hidden], SHORT_QUERY_WORDS, common, random)
            )
            if others := _words_of_no_other(one.texts, hidden):
                yield _hiding(one, hidden, None, OTHER_WORDS, others)
        stored = captions[int(random.integers(len(captions)))]
        count = int(random.integers(1, SHORT_QUERY_WORDS + 1))  # of one word, others have as much
        yield Question(one.edition, "text", None, QUOTE, cut_words(stored, count, common, random))
    name = written_name(one.texts)
    if name:
        yield Question(one.edition, "text", None, NAME, name)
        if not captions:
            yield Question(one.edition, "text", None, BARE_NAME, name)


def places_that_say_something(texts: ItemTexts) -> list[int]:
    """The captions of which half of the words, at least, are not in the name or the path.

    Others were made of these by a program. They are no questions: nobody hides what the name says too.
    """
    written = "".join(filter(str.isalnum, f"{texts.path or ''}{texts.name}".casefold()))
    places = []
    for place, caption in enumerate(texts.captions):
        words = fold_caption(caption).split()
        if 2 * sum(word not in written for word in words) >= len(words) > 0:
            places.append(place)
    return places


def cut_words(text: str, count: int, common: set[str], random: np.random.Generator) -> str:
    """So many words of a text, in their order. Every other time they are none of the common ones, if there
    are enough; people ask either way.
    """
    words = text.split()
    telling = [place for place, word in enumerate(words) if word.casefold() not in common]
    long = [place for place, word in enumerate(words) if len(word) > SHORT] or list(range(len(words)))
    places = telling if len(telling) >= count and random.random() < 0.5 else long
    chosen = sorted(random.permutation(len(places))[:count].tolist())
    return " ".join(words[places[place]] for place in chosen)


def _words_of_no_other(texts: ItemTexts, hidden: int) -> str:
    """The words of a caption that no other text of the item has; nothing if it has no other caption."""
    captions = [*texts.captions[:hidden], *texts.captions[hidden + 1 :]]
    known = {word for text in (*captions, texts.name, *texts.values) for word in fold_caption(text).split()}
    words = [word for word in texts.captions[hidden].split() if word.casefold() not in known]
    return " ".join(words) if captions else ""


def meaningless_queries(seed: int = 0) -> list[str]:
    """Queries of one to four words of random letters."""
    random = np.random.default_rng(seed)

    def word() -> str:
        return "".join(random.choice([*LETTERS], random.integers(4, 8)))

    return [" ".join(word() for _ in range(random.integers(1, 5))) for _ in range(MEANINGLESS_QUERIES)]


def written_name(texts: ItemTexts) -> str:
    """The words of the last step of its path or name, as people write them; nothing if there are none."""
    return words_of_name(path_steps(texts.path or texts.name)[-1].rsplit(".", 1)[0])


def _pictures(one: KnownItem, side: Side, random: np.random.Generator) -> Iterator[Question]:
    """One photo or, without any, one view; half of the views as a mesh has them. The others are known.

    One picture asks again where only the half of the others is known that is least like it: a picture that
    people ask with is no neighbour of those that are there. A lone picture asks for what has none meanwhile.
    """
    source: Side = "image" if side == "image" and one.features("image") else "shape"
    features = one.features(source)
    if not features:
        return
    order = random.permutation(len(features)).tolist()
    asked = order[:1] if side == "image" else order[: max(1, len(order) // 2)]
    known = [features[place] for place in order[len(asked) :]]
    feature = pool_mean(np.stack([features[place] for place in asked]))
    kind = LONE_PICTURE if not known else PICTURE if side == "image" else MESH
    question = Question(one.edition, side, feature, kind, known=known, taken_from=source)
    yield question
    if kind is PICTURE:
        yield replace(question, kind=NEW_PICTURE, known=_least_alike(feature, known))


def _least_alike(feature: Feature, others: Sequence[Feature]) -> list[Feature]:
    """The half of some features, rounded up, that is least like another."""
    rising = sorted(others, key=lambda one: float(np.vdot(feature, one) / (np.linalg.norm(one) or 1.0)))
    return rising[: (len(rising) + 1) // 2]


def fold_caption(text: str) -> str:
    return " ".join(text.split()).casefold()
