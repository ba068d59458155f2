"""What a text says of measured facts and payloads: words to search with, and conditions.

"a wooden chair under 80 cm, by Kenney" asks for a wooden chair, no side of which is 0.8 metres or more, and
whose `creator` is Kenney. A grammar of English and German finds that, with the keys and values that the
collection has. What it does not know, or what may mean something else, stays text.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from app.collections.vocabulary import PayloadVocabulary
from app.search import phrases
from app.search.phrases import Token
from index.store.keys import KeyValues

FilterBody: TypeAlias = dict[str, Any]  # a filter in JSON
Bounds: TypeAlias = dict[str, float]  # of a range in it

WIDTH, HEIGHT, DEPTH = "measured.width", "measured.height", "measured.depth"
KEYS_OF = {  # what a dimension looks at: the greatest of these
    "size": (WIDTH, HEIGHT, DEPTH),
    "width": (WIDTH,),
    "height": (HEIGHT,),
    "depth": (DEPTH,),
    "length": (WIDTH, DEPTH),
}
MODEL_BYTES, FILE_BYTES = "measured.bytes", "size"  # of a mesh with what it names, and of any file
TRIANGLES = "measured.triangles"
LONGEST_VALUE = 4  # tokens
NEAR = 0.15  # how far "about" reaches
DIGIT = re.compile(r"\d")
CODED = re.compile(r"licen[cs]e|format", re.IGNORECASE)  # keys whose values are codes
YEAR = re.compile(r"(?:19|20)\d\d")
CODE = re.compile(r"[A-Z]{2,}[\w.-]*|[A-Z]+\d[\w.-]*")  # a value that is no word of a language: CC0, MIT


@dataclass(frozen=True)
class Condition:
    """What some words of a text ask of an item: a filter, and the keys that it looks at."""

    words: str
    filter: FilterBody
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Reading:
    """A text, the words of it that are searched with, and the conditions that others are."""

    whole: str
    text: str
    conditions: tuple[Condition, ...] = ()


Found: TypeAlias = tuple[Condition, int] | None  # a condition, and the place where its words end


class ConditionReader:
    """Finds the conditions in the tokens of one text, from each place on."""

    def __init__(
        self, tokens: Sequence[Token], vocabulary: PayloadVocabulary, in_captions: Callable[[str], bool]
    ) -> None:
        self._tokens, self._vocabulary, self._in_captions = tokens, vocabulary, in_captions

    def condition(self, at: int) -> Found:
        """The condition whose words begin at a place, if one does."""
        if not may_begin(self._tokens[at], self._vocabulary):
            return None
        rules = (
            self._measure,
            self._count,
            self._price,
            self._own_number,
            self._state,
            self._date,
            self._value,
        )
        return next((found for rule in rules if (found := rule(at)) is not None), None)

    def _measure(self, at: int) -> Found:
        """Sizes: "under 80 cm", "1.5 m tall", "a height between 1 and 2 m", "smaller than 2 MB"."""
        dimension, place = phrases.DIMENSIONS.find(self._tokens, at)
        if dimension is not None:
            place = phrases.IS.skip(self._tokens, place)
        compared, after = phrases.COMPARED_DIMENSIONS.find(self._tokens, place)
        if compared is not None and (amount := self._amount(after)) is not None:
            dimension = dimension or compared[1]
            bounds, place = {compared[0]: amount[0]}, amount[1]
        elif (range_ := self._range(place)) is not None:
            bounds, place = range_
        else:
            return None
        unit, end = self._unit(place)
        if unit is None:
            return None
        in_unit = {name: float(f"{value * unit:.6g}") for name, value in bounds.items()}
        if phrases.BYTES.find(self._tokens, place)[0] is not None:
            return None if "is" in bounds else self._bytes(at, end, in_unit)
        if dimension is None:
            dimension, after = phrases.DIMENSIONS.find(self._tokens, end + (self._word(end) == "in"))
            end = end if dimension is None else after
        if dimension is None and "is" in bounds:
            return None  # "a 2 m table" may be long, wide or high
        keys = KEYS_OF[dimension or "size"]
        return self._found(at, end, keys, range_filter(keys, nearly(rounded(in_unit))))

    def _bytes(self, at: int, end: int, bounds: Bounds) -> Found:
        there = [key for key in (MODEL_BYTES, FILE_BYTES) if key in self._vocabulary.keys]
        if len(there) < 2:
            return self._found(at, end, there, dict.fromkeys(there, bounds))
        of_file = {MODEL_BYTES: {"exists": False}, FILE_BYTES: bounds}
        return self._found(at, end, there, {"or": [{MODEL_BYTES: bounds}, of_file]})

    def _count(self, at: int) -> Found:
        """What a mesh has a number of: "less than 5k triangles", "with a single material"."""
        if (range_ := self._range(at)) is None:
            return None
        bounds, place = range_
        key, end = phrases.COUNTED.find(self._tokens, place)
        article = self._tokens[at].word in phrases.ARTICLES  # "a triangle" is no count
        if key is None or article:
            return None
        return self._numbers(at, end, key, rounded(bounds) if key == TRIANGLES else bounds)

    def _price(self, at: int) -> Found:
        """Money: "less than 20 €", "at most $150"."""
        comparison, place = phrases.COMPARISONS.find(self._tokens, at)
        sign = self._word(place) in phrases.MONEY
        amount = self._amount(place + sign)
        keys = filter(None, map(self._vocabulary.named, phrases.PRICES))
        key = next(keys, None)
        if comparison is None or amount is None or key is None:
            return None
        end = amount[1] + (self._word(amount[1]) in phrases.MONEY)
        if not sign and end == amount[1]:
            return None
        return self._numbers(at, end, key, {comparison: amount[0]})

    def _own_number(self, at: int) -> Found:
        """A key with numbers of the payload: "price under 20", "at least 3 seats"."""
        if (key := self._vocabulary.named(self._word(at))) is not None:
            range_ = self._range(phrases.IS.skip(self._tokens, at + 1))
            return None if range_ is None else self._numbers(at, range_[1], key, range_[0])
        if (range_ := self._range(at)) is None or self._tokens[at].word in phrases.ARTICLES:
            return None
        bounds, place = range_
        key = self._vocabulary.named(self._word(place))
        return None if key is None else self._numbers(at, place + 1, key, bounds)

    def _numbers(self, at: int, end: int, key: str, bounds: Bounds) -> Found:
        return self._found(at, end, (key,), range_filter((key,), nearly(bounds)))

    def _state(self, at: int) -> Found:
        """What is so or not: "animated", "without textures", "not rigged"."""
        having, place = phrases.WITHOUT.find(self._tokens, at)
        if having is not None:
            place += self._word(place) in phrases.ARTICLES
            key, end = phrases.POSSESSIONS.find(self._tokens, place)
            if key is not None:
                return self._found(at, end, (key,), self._told(key, having))
        refused, place = phrases.NOT.find(self._tokens, at)
        so = refused is None
        state, end = phrases.STATES.find(self._tokens, place)
        if state is not None:
            other = self._word(end) in phrases.NO_STATE_OF
            return None if other else self._found(at, end, (state[0],), self._told(state[0], state[1] == so))
        word = self._word(place)
        key = self._vocabulary.named(word, "truths")
        if key is None or (so and self._in_captions(word)):  # "new" may be a key, and in New York
            return None
        return self._found(at, place + 1, (key,), {key: so})

    def _told(self, key: str, so: bool) -> FilterBody:
        """A filter for what is counted, or is true or false."""
        has = self._vocabulary.keys.get(key)
        if has is not None and has.numbers:
            return {key: {"gte": 1}} if so else {key: 0}
        return {key: so}

    def _date(self, at: int) -> Found:
        """Years: "from 2024", "made before 2019", "between 2018 and 2020"."""
        between = phrases.BETWEEN.skip(self._tokens, at)
        if between > at and (first := self._year(between)) is not None:
            after = phrases.AND.skip(self._tokens, between + 1)
            if after > between + 1 and (last := self._year(after)) is not None:
                return self._dated(at, after + 1, first, last + 1)
        since, place = phrases.SINCE.find(self._tokens, at)
        if since is None or (year := self._year(place)) is None:
            return None
        first, last = YEARS[since](year)
        return self._dated(at, place + 1, first, last)

    def _dated(self, at: int, end: int, first: int | None, last: int | None) -> Found:
        """A condition on all keys with dates: from a year to before another."""
        dates = self._vocabulary.dates
        filters = [date_filter(key, self._vocabulary.keys[key], first, last) for key in dates]
        return self._found(at, end, dates, any_of(filters))

    def _year(self, at: int) -> int | None:
        word = self._word(at)
        return int(word) if YEAR.fullmatch(word) and not self._runs_on(at) else None

    def _value(self, at: int) -> Found:
        """Values of the payload: "by Kenney", "licence CC0", "from the Castle Kit", "CC0"."""
        begin, sure = self._value_place(at)
        named = self._vocabulary.named(self._word(at), "texts")
        for end in ends_of_value(self._tokens, begin):
            text = written(self._tokens, begin, end).lower()
            having = self._vocabulary.values.get(text, {})
            fitting = {key: texts for key, texts in having.items() if named in (None, key)}
            if begin == at and not DIGIT.search(text):  # "MIT", but not "TV" where that is a tag
                fitting = {key: texts for key, texts in fitting.items() if CODED.search(key)}
            if fitting and (sure or not self._in_captions(text)):
                filters = [{key: one_of(texts)} for key, texts in fitting.items()]
                return self._found(at, end, [*fitting], any_of(filters))
        return None

    def _value_place(self, at: int) -> tuple[int, bool]:
        """Where the value begins that may stand here, behind what introduces it, and whether it is sure.

        The end of the text where none does.
        """
        sure, begin = phrases.INTRODUCTIONS.find(self._tokens, at)
        if sure is not None:
            return begin, sure
        if self._vocabulary.named(self._word(at), "texts") is not None:
            return phrases.IS.skip(self._tokens, at + 1), True
        is_code = CODE.fullmatch(self._tokens[at].written) is not None
        return (at if is_code else len(self._tokens)), False

    def _range(self, at: int) -> tuple[Bounds, int] | None:
        """Bounds and where they end: "between 1 and 2", "1 to 2", "under 80", and 80 alone, which is `is`."""
        place = phrases.BETWEEN.skip(self._tokens, at)
        if (low := self._amount(place)) is not None:
            unit, end = self._unit(low[1])
            after = phrases.AND.skip(self._tokens, end)
            high = self._amount(after) if after > end else None
            if high is not None:
                again, _ = self._unit(high[1])
                scale = 1.0 if unit is None or again is None else unit / again  # "50 cm to 1 m"
                return {"gte": low[0] * scale, "lte": high[0]}, high[1]
        comparison, place = phrases.COMPARISONS.find(self._tokens, at)
        place += comparison is not None and self._word(place) == "."  # "max. 80 cm"
        if (amount := self._amount(place)) is None:
            return None
        value, end = amount
        if comparison is None:  # "3 or more"
            comparison, end = phrases.AFTERWARDS.find(self._tokens, end)
        return {comparison or "is": value}, end

    def _amount(self, at: int) -> tuple[float, int] | None:
        """A number in digits or in words, and where it ends."""
        number, end = phrases.NUMBER_WORDS.find(self._tokens, at)
        if number is not None:
            return number, end
        value = phrases.number_of(self._word(at))
        if value is None:
            return None
        if self._word(at + 1) == "k":
            return 1000 * value, at + 2
        runs_on = self._runs_on(at) and self._unit(at + 1)[0] is None
        return None if runs_on else (value, at + 1)

    def _unit(self, at: int) -> tuple[float | None, int]:
        """What a unit is worth, and where it ends. "in" is one only at the end, or before a dimension."""
        unit, end = phrases.UNITS.find(self._tokens, at)
        if self._word(at) == "in" and not (
            self._word(end) in {"", *phrases.MARKS} or phrases.DIMENSIONS.find(self._tokens, end)[0]
        ):
            return None, at
        return unit, end

    def _runs_on(self, at: int) -> bool:
        """Whether letters follow a token without a space: "1950s", "3d"."""
        following = self._tokens[at + 1] if at + 1 < len(self._tokens) else None
        return following is not None and following.start == self._tokens[at].end and following.word.isalpha()

    def _word(self, at: int) -> str:
        return self._tokens[at].word if at < len(self._tokens) else ""

    def _found(self, at: int, end: int, keys: Sequence[str], body: FilterBody) -> Found:
        """A condition on keys that the collection has."""
        if not keys or not all(key in self._vocabulary.keys for key in keys):
            return None
        return Condition(written(self._tokens, at, end), body, tuple(keys)), end


def may_begin(token: Token, vocabulary: PayloadVocabulary) -> bool:
    word = token.word
    return (
        word in phrases.OPENERS
        or word[0].isdigit()
        or vocabulary.names(word)
        or CODE.fullmatch(token.written) is not None
    )


def may_have_conditions(text: str, vocabulary: PayloadVocabulary) -> bool:
    """Whether any token of a text tells of a condition; most texts have none."""
    tokens = phrases.tokens_of(text)
    return any(one.word not in phrases.ARTICLES and may_begin(one, vocabulary) for one in tokens)


def read_text(
    text: str, vocabulary: PayloadVocabulary, in_captions: Callable[[str], bool], as_text: Sequence[str] = ()
) -> Reading:
    """A text as words and conditions; some words may be no condition.

    `in_captions` tells whether captions have some words: what may mean a value or a thing stays text then.
    """
    tokens = phrases.tokens_of(text)
    reader = ConditionReader(tokens, vocabulary, in_captions)
    conditions = list[Condition]()
    runs = list[list[Token]]([[]])  # of tokens that stay text
    at = 0
    while at < len(tokens):
        found = reader.condition(at)
        if found is None or found[0].words in as_text:
            end = at + 1 if found is None else found[1]
            runs[-1] += tokens[at:end]
            at = end
            continue
        condition, at = found
        while runs[-1] and runs[-1][-1].word in phrases.JOINTS:
            runs[-1].pop()
        runs.append([])
        if condition.filter not in [one.filter for one in conditions]:
            conditions.append(condition)
    rest = " ".join(text[run[0].start : run[-1].end].strip(" ,;:") for run in runs if run).strip()
    return Reading(text, rest or text, tuple(conditions))


def ends_of_value(tokens: Sequence[Token], begin: int) -> range:
    """Where a value may end that begins at a place, the longest first."""
    return range(min(begin + LONGEST_VALUE, len(tokens)), begin, -1)


def written(tokens: Sequence[Token], begin: int, end: int) -> str:
    """The part of the text that tokens are."""
    return tokens[begin].text[tokens[begin].start : tokens[end - 1].end]


def rounded(bounds: Bounds) -> Bounds:
    """Bounds of what nobody says exactly: one size is about that."""
    return {"about": bounds["is"]} if "is" in bounds else bounds


def nearly(bounds: Bounds) -> Bounds:
    """Bounds that reach as far as "about" does."""
    about = bounds.get("about")
    if about is None:
        return bounds
    return {"gte": float(f"{about * (1 - NEAR):.6g}"), "lte": float(f"{about * (1 + NEAR):.6g}")}


def range_filter(keys: Sequence[str], bounds: Bounds) -> FilterBody:
    """A filter by the greatest number of some keys."""
    if "is" in bounds:
        return dict.fromkeys(keys, bounds["is"])
    if len(keys) == 1:
        return {keys[0]: bounds}
    most = {name: bound for name, bound in bounds.items() if name in ("lt", "lte")}
    least = {name: bound for name, bound in bounds.items() if name in ("gt", "gte")}
    body: FilterBody = dict.fromkeys(keys, most) if most else {}
    return body | ({"or": [{key: least} for key in keys]} if least else {})


# The first year, and the one after the last.
YEARS: Mapping[str, Callable[[int], tuple[int | None, int | None]]] = {
    "in": lambda year: (year, year + 1),
    "gte": lambda year: (year, None),
    "gt": lambda year: (year + 1, None),
    "lt": lambda year: (None, year),
    "lte": lambda year: (None, year + 1),
}


def date_filter(key: str, has: KeyValues, first: int | None, end: int | None) -> FilterBody:
    """A filter for the years from one to before another; dates in texts are compared as texts."""
    bounds = {name: year for name, year in (("gte", first), ("lt", end)) if year is not None}
    as_texts = {name: str(year) for name, year in bounds.items()}
    kinds = [bounds] * has.numbers + [as_texts] * (has.texts is not None)
    return any_of([{key: kind} for kind in kinds])


def one_of(texts: Sequence[str]) -> str | FilterBody:
    """A condition on one text, or on several."""
    return texts[0] if len(texts) == 1 else {"in": [*texts]}


def any_of(filters: Sequence[FilterBody]) -> FilterBody:
    """A filter that lets through what one of some does."""
    return filters[0] if len(filters) == 1 else {"or": [*filters]}
