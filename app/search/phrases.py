"""The words of English and German texts that numbers, units and comparisons are said with."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

Meaning = TypeVar("Meaning")

QUOTED = r'"[^"]+"|“[^”]+”|„[^“]+“'
TOKEN = re.compile(rf"{QUOTED}|\d+(?:[.,]\d+)*|[^\W\d_](?:[\w'’-]|\.(?=\w))*|[<>]=|[^\w\s]|_")
THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")


@dataclass(frozen=True)
class Token:
    """A word, a number or a sign, and where it stands in its text."""

    text: str
    start: int
    end: int

    @property
    def written(self) -> str:
        return self.text[self.start : self.end]

    @cached_property
    def word(self) -> str:
        return self.written.lower()


@dataclass(frozen=True)
class Phrases(Generic[Meaning]):
    """Phrases, and what they mean: for each first word the phrases that begin with it, the longest first."""

    beginning: Mapping[str, Sequence[tuple[tuple[str, ...], Meaning]]]

    def find(self, tokens: Sequence[Token], at: int) -> tuple[Meaning | None, int]:
        """What the longest phrase means that begins here, and where it ends; else None, and the place."""
        for words, meaning in self.beginning.get(tokens[at].word, ()) if at < len(tokens) else ():
            if words == tuple(one.word for one in tokens[at : at + len(words)]):
                return meaning, at + len(words)
        return None, at

    def skip(self, tokens: Sequence[Token], at: int) -> int:
        """Where the longest phrase ends that begins at a place; the place itself where none does."""
        return self.find(tokens, at)[1]


def phrases(meanings: Mapping[Meaning, str]) -> Phrases[Meaning]:
    """Phrases by their meanings, written one behind the other."""
    beginning: dict[str, list[tuple[tuple[str, ...], Meaning]]] = {}
    for meaning, written in meanings.items():
        for words in (tuple(phrase.split()) for phrase in written.split(", ")):
            beginning.setdefault(words[0], []).append((words, meaning))
    return Phrases({first: sorted(some, key=lambda one: -len(one[0])) for first, some in beginning.items()})


def words(said: str) -> frozenset[str]:
    return frozenset(said.split())


METRES = phrases(
    {
        0.001: "mm, millimetre, millimetres, millimeter, millimeters",
        0.01: "cm, centimetre, centimetres, centimeter, centimeters, zentimeter, zentimetern",
        0.1: "dm, dezimeter",
        1.0: "m, metre, metres, meter, meters, metern",
        0.0254: 'in, inch, inches, zoll, "',
        0.3048: "ft, foot, feet, fuß, '",
        0.9144: "yard, yards",
    }
)
BYTES = phrases(
    {
        1.0: "byte, bytes",
        1e3: "kb, kilobyte, kilobytes",
        1e6: "mb, megabyte, megabytes",
        1e9: "gb, gigabyte, gigabytes",
        2.0**10: "kib",
        2.0**20: "mib",
        2.0**30: "gib",
    }
)
UNITS = Phrases({**METRES.beginning, **BYTES.beginning})
MONEY = frozenset({"€", "$", "£", "euro", "euros", "eur", "dollar", "dollars", "usd", "pounds"})
PRICES = ("price", "cost", "preis", "kosten")
COMPARISONS = phrases(
    {
        "lt": "less than, fewer than, smaller than, lighter than, cheaper than, under, below, <, "
        "weniger als, kleiner als, leichter als, billiger als, günstiger als, unter",
        "lte": "at most, up to, max, maximum, no more than, no larger than, no bigger than, not more than, "
        "not over, <=, ≤, höchstens, maximal, bis zu, nicht mehr als, nicht größer als",
        "gt": "more than, greater than, larger than, bigger than, over, above, >, mehr als, größer als, über",
        "gte": "at least, min, minimum, no less than, not less than, not under, >=, ≥, mindestens, minimal",
        "about": "about, around, approximately, roughly, circa, ca, ~, etwa, ungefähr, rund",
    }
)
AFTERWARDS = phrases({"gte": "or more, oder mehr", "lte": "or less, or fewer, oder weniger"})
DIMENSIONS = phrases(
    {
        "width": "wide, width, breit, breite",
        "height": "tall, high, height, hoch, höhe",
        "depth": "deep, depth, tief, tiefe",
        "length": "long, length, lang, länge",
    }
)
COMPARED_DIMENSIONS = phrases(
    {
        ("gt", "width"): "wider than, breiter als",
        ("lt", "width"): "narrower than, schmaler als",
        ("gt", "height"): "taller than, higher than, höher als",
        ("lt", "height"): "lower than, shorter than, niedriger als",
        ("gt", "depth"): "deeper than, tiefer als",
        ("gt", "length"): "longer than, länger als",
        ("lt", "length"): "kürzer als",
    }
)
COUNTED = phrases(
    {
        "measured.triangles": "triangle, triangles, tris, face, faces, polygon, polygons, poly, polys, "
        "dreieck, dreiecke, dreiecken, polygone, polygonen",
        "measured.materials": "material, materials, materialien",
        "measured.textures": "texture, textures, texturen",
    }
)
STATES = phrases(
    {
        ("measured.animated", True): "animated, animiert, animierte, animierter, animiertes, animierten",
        ("measured.animated", False): "unanimated, non-animated",
        ("measured.textures", True): "textured, texturiert, texturierte, texturierter, texturiertes",
        ("measured.textures", False): "untextured, untexturiert",
    }
)
POSSESSIONS = phrases(
    {
        "measured.animated": "animation, animations, animationen",
        "measured.textures": "texture, textures, texturen",
    }
)
# What is animated in another sense: "an animated conversation".
NO_STATE_OF = words("conversation talk discussion debate film movie series cartoon")
NOT = phrases({False: "not, nicht, no, non, without, ohne, without any, not yet"})
WITHOUT = phrases({False: "without, without any, no, ohne, keine, kein", True: "with, mit, has, have, hat"})
SINCE = phrases(
    {
        "in": "from, in, aus",
        "gte": "since, seit",
        "gt": "after, nach, newer than, neuer als",
        "lt": "before, vor, older than, älter als",
        "lte": "until, till",
    }
)
WRITTEN = words("made created published released modelled modified drawn erstellt gemacht veröffentlicht")
# Before a value: whether it is one for sure, or only if no caption has the word.
INTRODUCTIONS = phrases({True: "by, von", False: "from, from the, of the, in the, aus, aus dem, aus der, im"})
BETWEEN = phrases({None: "between, zwischen, from, von"})
AND = phrases({None: "and, und, to, bis, -, –"})
IS = phrases({None: "of, :, =, is, von, from"})
ARTICLES = words("a an any the one ein eine einen einem einer")  # "one leg" may be a leg
MARKS = frozenset(",.;:)!?")
# What joins a condition to a text, and says nothing without it.
JOINTS = (
    ARTICLES
    | WRITTEN
    | words(
        ", ; : and und with mit that which der die das is are ist has have hat costs kostet for für of files"
    )
)
NUMBER_WORDS = phrases(
    {
        0.5: "half a, half an, ein halber, einen halben",
        1: "one, a, an, single, ein, eine, einen, einem, einer",
        2: "two, zwei",
        3: "three, drei",
        4: "four, vier",
        5: "five, fünf",
        6: "six, sechs",
        7: "seven, sieben",
        8: "eight, acht",
        9: "nine, neun",
        10: "ten, zehn",
        11: "eleven, elf",
        12: "twelve, zwölf",
    }
)


def tokens_of(text: str) -> list[Token]:
    """The words, numbers and signs of a text; what stands in quotes is one."""
    return [Token(text, found.start(), found.end()) for found in TOKEN.finditer(text)]


def number_of(written: str) -> float | None:
    """The number that digits write, with a comma or a point for its fraction; None for a version."""
    plain = written.replace(",", "") if THOUSANDS.fullmatch(written) else written.replace(",", ".")
    try:
        return float(plain)
    except ValueError:
        return None


# Words that a condition may begin with, beside digits and the names of keys.
OPENERS = frozenset(MONEY).union(
    *(
        table.beginning
        for table in (
            COMPARISONS,
            COMPARED_DIMENSIONS,
            DIMENSIONS,
            BETWEEN,
            NUMBER_WORDS,
            WITHOUT,
            NOT,
            STATES,
            SINCE,
            INTRODUCTIONS,
        )
    )
)
