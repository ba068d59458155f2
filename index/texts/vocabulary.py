"""Numbered words: those that were there when they were last packed lie in order in arrays, new ones in a
dictionary.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
from jaxtyping import Int32, Int64, UInt8

from index.texts.kernels import find_words, first_not_before

PACK_AT, PACK_SHARE = 1 << 18, 4  # new words, or a part of all words, that are packed
NEW_BYTES = 120  # that a word in a dictionary takes, about
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
NO_WORD = -1


@dataclass(frozen=True, eq=False)
class PackedWords:
    """Words in the order of their UTF-8 letters, where each begins, and their numbers."""

    letters: UInt8[np.ndarray, " b"]
    starts: Int64[np.ndarray, " m"]
    numbers: Int32[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        return ((self._word(place), number) for place, number in enumerate(self.numbers.tolist()))

    @property
    def nbytes(self) -> int:
        """How much memory or mapped file it takes."""
        return self.letters.nbytes + self.starts.nbytes + self.numbers.nbytes

    def find(self, words: Sequence[str]) -> list[int]:
        every = [word.encode() for word in words]
        ends = np.cumsum([0, *map(len, every)], dtype=np.int64)
        places = find_words(np.frombuffer(b"".join(every), np.uint8), ends, self.letters, self.starts)
        return [int(self.numbers[place]) if place >= 0 else NO_WORD for place in places.tolist()]

    def beginning_with(self, prefix: bytes) -> Iterator[int]:
        for place in range(self._place(prefix), len(self)):
            if not self._word(place).startswith(prefix):
                break
            yield int(self.numbers[place])

    def _place(self, word: bytes) -> int:
        return first_not_before(np.frombuffer(word, np.uint8), self.letters, self.starts)

    def _word(self, place: int) -> bytes:
        return self.letters[self.starts[place] : self.starts[place + 1]].tobytes()


def pack_words(words: Iterable[tuple[bytes, int]]) -> PackedWords:
    """Words and their numbers, put in order."""
    ordered = sorted(words)
    return PackedWords(
        np.frombuffer(b"".join(word for word, _ in ordered), np.uint8),
        np.cumsum([0, *(len(word) for word, _ in ordered)], dtype=np.int64),
        np.array([number for _, number in ordered], np.int32),
    )


class Vocabulary:
    """Numbers of words, in the order in which they came, and how many living items have each.

    Readers may run beside one writer.
    """

    def __init__(self, packed: PackedWords | None = None) -> None:
        self.packed = pack_words([]) if packed is None else packed
        self._new: dict[str, int] = {}
        self._order: list[str] = []  # of the first new ones
        self._having = np.zeros(1, np.int64)

    def __len__(self) -> int:
        return len(self.packed) + len(self._new)

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        return self.packed.nbytes + self._having.nbytes + NEW_BYTES * len(self._new)

    def get(self, word: str) -> int:
        number = self._new.get(word)
        return self.packed.find([word])[0] if number is None else number

    def find(self, words: Sequence[str]) -> list[int]:
        return list(map(self._new.get, words, self.packed.find(words)))

    def add(self, word: str) -> int:
        """The number of a word, a new one if it had none."""
        number = self.get(word)
        if number == NO_WORD:
            number = self._new[word] = len(self)
        return number

    def having(self, numbers: Sequence[int]) -> list[int]:
        """How many living items have each of these words; 0 of those that are being added."""
        having = self._having
        return [int(having[number]) if 0 <= number < len(having) else 0 for number in numbers]

    def count(self, words: Int32[np.ndarray, " n"], items: Int64[np.ndarray, " n"]) -> None:
        """Note that so many more living items have these words; each word stands there once."""
        if len(self) > len(self._having):
            more = np.zeros(len(self), np.int64)  # so it at least doubles
            self._having = np.concatenate([self._having, more])
        self._having[words] += items

    def pack(self, *, all_new: bool = False) -> None:
        """Put new words in order among the others, if they are many."""
        least = 1 if all_new else max(PACK_AT, len(self.packed) // PACK_SHARE)
        if len(self._new) >= least:
            new = ((word.encode(), number) for word, number in self._new.items())
            self.packed = pack_words(chain(self.packed, new))
            self._new, self._order = {}, []

    def beginning_with(self, prefix: str) -> Iterator[int]:
        yield from self.packed.beginning_with(prefix.encode())
        order, new = self._order, self._new
        if len(order) < len(new):
            order = self._order = sorted(chain(order, islice([*new], len(order), None)))
        for place in range(bisect_left(order, prefix), len(order)):
            if not order[place].startswith(prefix):
                break
            yield new[order[place]]

    def one_typo_from(self, word: str) -> Iterator[int]:
        """The numbers of words that differ by one letter more, less, other or swapped with its neighbour."""
        cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
        fewer = (left + right[1:] for left, right in cuts if right)
        swapped = (left + right[1] + right[0] + right[2:] for left, right in cuts if len(right) > 1)
        other = (left + letter + right[1:] for left, right in cuts if right for letter in ALPHABET)
        more = (left + letter + right for left, right in cuts for letter in ALPHABET)
        near = dict.fromkeys(chain(swapped, fewer, other, more))
        near.pop(word, None)
        return (number for number in self.find([*near]) if number != NO_WORD)
