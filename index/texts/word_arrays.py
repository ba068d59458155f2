"""What an index of words is made of: numbered words, and the texts of items as such numbers, in arrays.

Words that were there when they were last packed lie sorted in arrays, new ones in a dictionary. A segment is
made of whole items and does not change, but for which of them are alive.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from hashlib import blake2b
from itertools import chain, islice
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int32, Int64, UInt8, UInt16

from index.contracts import Ids
from index.texts.contracts import Scores
from index.texts.word_kernels import kernels

PACK_AT, PACK_SHARE = 1 << 18, 4  # new words, or a part of all words, that are packed
MOST_KNOWN = 1 << 16  # words that need not be looked up again
NEW_BYTES = 120  # that a word in a dictionary takes, about
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, eq=False)
class SortedWords:
    """Words in the order of their UTF-8 letters, where each begins, their numbers, and places by hash."""

    letters: UInt8[np.ndarray, " b"]
    starts: Int64[np.ndarray, " m"]
    numbers: Int32[np.ndarray, " n"]
    hashes: Int64[np.ndarray, " n"]  # rising
    places: Int32[np.ndarray, " n"]  # of the word with each of these

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def nbytes(self) -> int:
        """How much memory or mapped file it takes."""
        return sum(array.nbytes for array in vars(self).values())

    def word(self, place: int) -> bytes:
        """The word at a place."""
        return self.letters[self.starts[place] : self.starts[place + 1]].tobytes()

    def number(self, word: str) -> int:
        """The number of a word; -1 if it is not there."""
        raw = word.encode()
        at = int(np.searchsorted(self.hashes, np.int64(_hash(raw))))
        place = int(self.places[at]) if at < len(self) else 0
        return int(self.numbers[place]) if at < len(self) and self.word(place) == raw else -1

    def beginning_with(self, prefix: bytes) -> Iterator[tuple[str, int]]:
        """Words that begin so, and their numbers."""
        for place in range(bisect_left(range(len(self)), prefix, key=self.word), len(self)):
            word = self.word(place)
            if not word.startswith(prefix):
                break
            yield word.decode(), int(self.numbers[place])


def sort_words(words: Iterable[tuple[bytes, int]]) -> SortedWords:
    """Words and their numbers, in order."""
    ordered = sorted(words)
    hashes = np.array([_hash(word) for word, _ in ordered], np.int64)
    places = np.argsort(hashes).astype(np.int32)
    return SortedWords(
        np.frombuffer(b"".join(word for word, _ in ordered), np.uint8),
        np.cumsum([0, *(len(word) for word, _ in ordered)], dtype=np.int64),
        np.array([number for _, number in ordered], np.int32),
        hashes[places],
        places,
    )


def _hash(word: bytes) -> int:
    return int.from_bytes(blake2b(word, digest_size=8).digest(), "little", signed=True)


class NewWords(dict[str, int]):
    """Words and their numbers as they came; sorted as well, once they are looked through."""

    def __init__(self) -> None:
        super().__init__()
        self._order: list[str] = []  # the first of them

    def beginning_with(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Words that begin so, and their numbers."""
        order = self._order
        if len(order) < len(self):
            order = self._order = sorted(chain(order, islice([*self], len(order), None)))
        for place in range(bisect_left(order, prefix), len(order)):
            if not order[place].startswith(prefix):
                break
            yield order[place], self[order[place]]


class Vocabulary:
    """Numbers of words, in the order in which they came. Readers may run beside one writer."""

    def __init__(self, packed: SortedWords | None = None) -> None:
        self.packed = sort_words([]) if packed is None else packed
        self._new = NewWords()
        self._known: dict[str, int] = {}  # of the packed ones, those that were looked up

    def __len__(self) -> int:
        return len(self.packed) + len(self._new)

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        return self.packed.nbytes + NEW_BYTES * (len(self._new) + len(self._known))

    def get(self, word: str) -> int:
        """The number of a word; -1 if there is none."""
        number = self._new.get(word)
        if number is None:
            number = self._known.get(word)
        if number is not None:
            return number
        number = self.packed.number(word) if len(self.packed) else -1
        if number >= 0:
            if len(self._known) >= MOST_KNOWN:
                self._known = {}
            self._known[word] = number
        return number

    def add(self, word: str) -> int:
        """The number of a word, a new one if it had none."""
        number = self.get(word)
        if number < 0:
            number = self._new[word] = len(self)
        return number

    def pack(self, *, all_new: bool = False) -> None:
        """Sort new words among the others, if they are many."""
        if not self._new or (not all_new and len(self._new) < max(PACK_AT, len(self.packed) // PACK_SHARE)):
            return
        packed, new = self.packed, self._new.items()
        known = ((packed.word(place), number) for place, number in enumerate(packed.numbers.tolist()))
        self.packed = sort_words(chain(known, ((word.encode(), number) for word, number in new)))
        self._new = NewWords()

    def beginning_with(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Words that begin so, and their numbers."""
        yield from self.packed.beginning_with(prefix.encode())
        yield from self._new.beginning_with(prefix)

    def one_typo_from(self, word: str) -> Iterator[tuple[str, int]]:
        """Words that differ by one letter more, less, other or swapped with its neighbour."""
        cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
        fewer = (left + right[1:] for left, right in cuts if right)
        swapped = (left + right[1] + right[0] + right[2:] for left, right in cuts if len(right) > 1)
        other = (left + letter + right[1:] for left, right in cuts if right for letter in ALPHABET)
        more = (left + letter + right for left, right in cuts for letter in ALPHABET)
        for near in dict.fromkeys(chain(swapped, fewer, other, more)):
            number = self.get(near) if near != word else -1
            if number >= 0:
                yield near, number


NAME, PATH, PAYLOAD, CAPTION = range(4)
FIELDS = ("name", "path", "payload", "caption")  # texts of an item stand in this order
# of name, path, payload and caption: what a word counts, and how much longer texts make it count less
WEIGHTS, LENGTH = np.array([2.0, 0.5, 1.0, 1.0]), np.array([0.5, 0.3, 0.5, 0.75])
LONGEST = 65_535  # words of a text that count
# of one item: for each text its field, how many words it has, and their numbers; those of wholes are ~number
ItemTokens: TypeAlias = Sequence[tuple[int, int, Sequence[int]]]


@dataclass(frozen=True, eq=False)
class WordSegment:
    """Items, their texts (rows) and words; each has the places of what follows."""

    editions: Ids  # rising
    first_rows: Int64[np.ndarray, " j"]
    row_fields: UInt8[np.ndarray, " r"]
    row_lengths: UInt16[np.ndarray, " r"]  # in words
    row_starts: Int64[np.ndarray, " s"]
    tokens: Int32[np.ndarray, " t"]
    words: Int32[np.ndarray, " w"]  # those that are there, rising
    starts: Int64[np.ndarray, " v"]
    rows: Int32[np.ndarray, " p"]  # that have a word, rising for each
    times: UInt8[np.ndarray, " p"]  # how often
    holder_starts: Int64[np.ndarray, " v"]
    holders: Int32[np.ndarray, " h"]  # items that have a word, rising for each
    impacts: UInt8[np.ndarray, " h"]  # about how much it says of each (see word_kernels.py)
    row_items: Int32[np.ndarray, " r"]
    lengths: Float32[np.ndarray, "i f"]  # words of all texts of a field
    alive: Bool[np.ndarray, " i"]
    having: Int32[np.ndarray, " w"]  # living items with a word
    sums: Float64[np.ndarray, "3 f"]  # of the living: words, items and texts with each field

    @property
    def nbytes(self) -> int:
        """How much memory or mapped file it takes."""
        return sum(getattr(self, one.name).nbytes for one in fields(self))

    def count(self) -> int:
        """How many items are alive."""
        return int(np.count_nonzero(self.alive))

    def places(self, editions: Ids) -> Ids:
        """Where living editions stand; -1 for others."""
        places = np.searchsorted(self.editions, editions)
        places[places == len(self.editions)] = 0
        there = (self.editions[places] == editions) & self.alive[places]
        return np.where(there, places, -1)

    def word_places(self, words: Int32[np.ndarray, " q"]) -> Int64[np.ndarray, " q"]:
        """Where words stand; -1 for those that are not there."""
        if not len(self.words):
            return np.full(len(words), -1, np.int64)
        places = np.searchsorted(self.words, words)
        places[places == len(self.words)] = 0
        return np.where(self.words[places] == words, places, -1)

    def counts(self, words: Int32[np.ndarray, " q"]) -> Int64[np.ndarray, " q"]:
        """How many living items have each of these words."""
        places = self.word_places(words)
        there = places >= 0
        counts = np.zeros(len(words), np.int64)
        counts[there] = self.having[places[there]]
        return counts

    def text_at(self, row: int) -> int | str:
        """What a row is: a caption's place, or its field."""
        kind = self.row_fields[row]
        if kind != CAPTION:
            return FIELDS[kind]
        first = self.first_rows[self.row_items[row]]
        return int(np.count_nonzero(self.row_fields[first:row] == CAPTION))

    def with_phrase(self, phrase: Sequence[int]) -> Bool[np.ndarray, " i"]:
        """Which items have a text with these words in this order."""
        mask, numbers = np.zeros(len(self.editions), np.bool_), np.array(phrase, np.int32)
        places = self.word_places(numbers)
        if (places >= 0).all():
            rarest = places[np.argmin(self.having[places])]
            rows = self.rows[self.starts[rarest] : self.starts[rarest + 1]]
            kernels().find_phrase(numbers, rows, self.tokens, self.row_starts, self.row_items, mask)
        return mask

    def remove(self, editions: Ids) -> int:
        """End the life of these items; returns how many were alive here."""
        ended = np.unique(self.places(editions))
        ended = ended[ended >= 0]
        for item in ended.tolist():
            first, last = self.first_rows[item], self.first_rows[item + 1]
            tokens = self.tokens[self.row_starts[first] : self.row_starts[last]]
            self.having[np.searchsorted(self.words, np.unique(np.maximum(tokens, ~tokens)))] -= 1
            self.sums[2] -= np.bincount(self.row_fields[first:last], minlength=len(FIELDS))
        self.sums[0] -= self.lengths[ended].sum(0, dtype=np.float64)
        self.sums[1] -= np.count_nonzero(self.lengths[ended], axis=0)
        self.alive[ended] = False
        return len(ended)


def new_segment(editions: Sequence[int], items: Sequence[ItemTokens]) -> WordSegment:
    """A segment of these items, whose editions rise."""
    texts = [text for item in items for text in item]
    return _of_rows(
        np.array(editions, np.int64),
        _ends([len(item) for item in items]),
        np.array([field for field, _, _ in texts], np.uint8),
        np.array([min(max(length, 1), LONGEST) for _, length, _ in texts], np.uint16),
        _ends([len(tokens) for _, _, tokens in texts]),
        np.array([token for _, _, tokens in texts for token in tokens], np.int32),
    )


def merged_segment(parts: Sequence[WordSegment]) -> WordSegment:
    """What is alive in some segments as one."""
    items = [np.flatnonzero(part.alive) for part in parts]
    order = np.argsort(np.concatenate([part.editions[some] for part, some in zip(parts, items, strict=True)]))
    rows = [_spans(part.first_rows, some) for part, some in zip(parts, items, strict=True)]
    tokens = [_spans(part.row_starts, some) for part, some in zip(parts, rows, strict=True)]

    def join(name: str, chosen: Sequence[Ids]) -> np.ndarray:
        return np.concatenate([getattr(part, name)[some] for part, some in zip(parts, chosen, strict=True)])

    def sizes(name: str, chosen: Sequence[Ids]) -> Int64[np.ndarray, " n"]:
        every = [np.diff(getattr(part, name))[some] for part, some in zip(parts, chosen, strict=True)]
        return np.concatenate(every)

    item_sizes, row_sizes = sizes("first_rows", items), sizes("row_starts", rows)
    row_order = _spans(_ends(item_sizes), order)
    token_order = _spans(_ends(row_sizes), row_order)
    return _of_rows(
        join("editions", items)[order],
        _ends(item_sizes[order]),
        join("row_fields", rows)[row_order],
        join("row_lengths", rows)[row_order],
        _ends(row_sizes[row_order]),
        join("tokens", tokens)[token_order],
    )


def _of_rows(
    editions: Ids,
    first_rows: Int64[np.ndarray, " j"],
    row_fields: UInt8[np.ndarray, " r"],
    row_lengths: UInt16[np.ndarray, " r"],
    row_starts: Int64[np.ndarray, " s"],
    tokens: Int32[np.ndarray, " t"],
) -> WordSegment:
    """All of a segment, given its texts."""
    row_items = np.repeat(np.arange(len(editions), dtype=np.int32), np.diff(first_rows))
    numbers = np.maximum(tokens, ~tokens)
    if len(numbers) and len(numbers) > numbers.max():  # else most numbers would be of no word here
        words = np.flatnonzero(np.bincount(numbers)).astype(np.int32)
        place_of = np.empty(int(numbers.max()) + 1, np.int32)
        place_of[words] = np.arange(len(words), dtype=np.int32)
        numbers = place_of[numbers]
    else:
        words, numbers = np.unique(numbers, return_inverse=True)
        numbers = numbers.astype(np.int32)
    counts = np.zeros(len(words), np.int64)
    kernels().count_rows(numbers, row_starts, np.full(len(words), -1, np.int32), counts)
    starts = _ends(counts)
    rows, times = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.uint8)
    kernels().fill_postings(
        numbers, row_starts, np.full(len(words), -1, np.int32), starts[:-1].copy(), rows, times
    )
    cells = row_items.astype(np.int64) * len(FIELDS) + row_fields
    wide = np.bincount(cells, row_lengths, len(editions) * len(FIELDS)).reshape(-1, len(FIELDS))
    texts = np.bincount(row_fields, minlength=len(FIELDS))
    sums = np.array([wide.sum(0), np.count_nonzero(wide, axis=0), texts], np.float64)
    lengths = wide.astype(np.float32)
    holder_starts, holders, impacts = np.zeros_like(starts), np.empty_like(rows), np.empty_like(times)
    kernels().fill_holders(
        starts, rows, times, row_items, row_fields, row_lengths, lengths, field_norms(sums), holder_starts,
        holders, impacts,
    )  # fmt: skip
    most = holder_starts[-1]
    return WordSegment(
        editions, first_rows, row_fields, row_lengths, row_starts, tokens, words, starts, rows, times,
        holder_starts, holders[:most].copy(), impacts[:most].copy(), row_items, lengths,
        np.ones(len(editions), np.bool_), np.diff(holder_starts).astype(np.int32), sums,
    )  # fmt: skip


def field_norms(sums: Float64[np.ndarray, "3 f"]) -> Float64[np.ndarray, "6 f"]:
    """For all texts of a field, and for one: its weight, and a constant and a slope by its length."""
    words, items, texts = sums
    whole, single = (np.maximum(words, 1) / np.maximum(many, 1) for many in (items, texts))
    return np.array([WEIGHTS, 1 - LENGTH, LENGTH / whole, WEIGHTS, 1 - LENGTH, LENGTH / single])


def _ends(sizes: Sequence[int] | Int64[np.ndarray, " n"]) -> Int64[np.ndarray, " m"]:
    """Where parts of these sizes begin, and where the last one ends."""
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(np.asarray(sizes, np.int64), out=ends[1:])
    return ends


def _spans(starts: Int64[np.ndarray, " m"], chosen: Ids) -> Ids:
    """The places of all that some parts have."""
    sizes = starts[chosen + 1] - starts[chosen]
    ends = np.cumsum(sizes)
    within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)
    return np.asarray(np.repeat(starts[chosen], sizes) + within)


STRIDE = 128  # scores that are represented by their best in a first pass


def places_of_best(scores: Scores, limit: int) -> Ids:
    """Places of at least the best `limit` scores, rising; all that tie with the last one are among them."""
    whole = len(scores) // STRIDE * STRIDE
    few = scores if whole < limit * STRIDE else scores[:whole].reshape(-1, STRIDE).max(axis=1)
    if not 0 < limit < len(few):
        return np.arange(len(scores))
    return np.flatnonzero(scores >= np.partition(few, len(few) - limit)[len(few) - limit])
