"""Scores of items by the words of a query, which numba compiles where it is installed.

An item's score is (1 − BEST) · whole + BEST · best. Its `whole` is BM25F over all of its texts, and its
`best` is BM25 of the one text that says most: so the best caption counts more than many that say a little
each, and an item of a hundred captions, whose words are one in a hundred, has no advantage. Both sum, over
the words of the query, rarity · x · (K + 1) / (K + x), where x is how often the word is there, by the
weight of its field and the length of its text (or of all texts of the field).
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int32, Int64, UInt8, UInt16

K = 1.2
BEST = 0.5
SLOTS = 256  # a power of two, of the words of a query: most tokens are compared with none of them
STEPS = 255  # of the most that a word can say of an item
BLOCK = 4096  # items that are scored together: what is summed stays in the cache


@cache
def kernels() -> ModuleType:
    """These functions, compiled where numba is installed; loading it takes half a second."""
    return import_module("index.texts.numba_words" if find_spec("numba") else __name__)


def count_rows(
    tokens: Int32[np.ndarray, " t"],
    row_starts: Int64[np.ndarray, " s"],
    last: Int32[np.ndarray, " w"],
    counts: Int64[np.ndarray, " w"],
) -> None:
    """In how many rows each word is; `last` begins with -1."""
    for row in range(len(row_starts) - 1):
        for at in range(row_starts[row], row_starts[row + 1]):
            word = tokens[at]
            if last[word] != row:
                last[word] = row
                counts[word] += 1


def fill_postings(
    tokens: Int32[np.ndarray, " t"],
    row_starts: Int64[np.ndarray, " s"],
    last: Int32[np.ndarray, " w"],
    ends: Int64[np.ndarray, " w"],
    rows: Int32[np.ndarray, " p"],
    times: UInt8[np.ndarray, " p"],
) -> None:
    """Note each word's rows and how often it is there; `last` begins with -1, `ends` with its first place."""
    for row in range(len(row_starts) - 1):
        for at in range(row_starts[row], row_starts[row + 1]):
            word = tokens[at]
            if last[word] != row:
                last[word] = row
                rows[ends[word]] = row
                times[ends[word]] = 1
                ends[word] += 1
            elif times[ends[word] - 1] < 255:
                times[ends[word] - 1] += 1


def fill_holders(
    starts: Int64[np.ndarray, " v"],
    rows: Int32[np.ndarray, " p"],
    times: UInt8[np.ndarray, " p"],
    row_items: Int32[np.ndarray, " r"],
    row_fields: UInt8[np.ndarray, " r"],
    row_lengths: UInt16[np.ndarray, " r"],
    lengths: Float32[np.ndarray, "i f"],
    norms: Float64[np.ndarray, "6 f"],
    ends: Int64[np.ndarray, " v"],
    holders: Int32[np.ndarray, " p"],
    impacts: UInt8[np.ndarray, " p"],
) -> None:
    """Note each word's items, and about how much it says of each, without its rarity, in `STEPS` at most."""
    kept = 0
    for word in range(len(starts) - 1):
        item, whole, best = -1, 0.0, 0.0
        for at in range(starts[word], starts[word + 1]):
            row = rows[at]
            if row_items[row] != item:
                kept += item >= 0
                item, whole, best = row_items[row], 0.0, 0.0
            field = row_fields[row]
            weighted = norms[0, field] * times[at]
            whole += weighted / (norms[1, field] + norms[2, field] * lengths[item, field])
            weighted = norms[3, field] * times[at]
            norm = norms[4, field] + norms[5, field] * row_lengths[row]
            best = max(best, weighted / (K * norm + weighted))
            says = (1 - BEST) * whole / (K + whole) + BEST * best
            holders[kept], impacts[kept] = item, max(1, int(STEPS * says + 0.5))
        kept += item >= 0
        ends[word + 1] = kept


def add_impacts(
    starts: Int64[np.ndarray, " q"],
    ends: Int64[np.ndarray, " q"],
    rarities: Float64[np.ndarray, " q"],
    holders: Int32[np.ndarray, " h"],
    impacts: UInt8[np.ndarray, " h"],
    scores: Float32[np.ndarray, " i"],
) -> None:
    """Add to the items of some words about what these say of them."""
    for word in range(len(starts)):
        rarity = np.float32(rarities[word])
        for at in range(starts[word], ends[word]):
            scores[holders[at]] += rarity * impacts[at]


def rank_items(
    starts: Int64[np.ndarray, " q"],
    ends: Int64[np.ndarray, " q"],
    rarities: Float64[np.ndarray, " q"],
    rows: Int32[np.ndarray, " p"],
    times: UInt8[np.ndarray, " p"],
    row_items: Int32[np.ndarray, " r"],
    row_fields: UInt8[np.ndarray, " r"],
    row_lengths: UInt16[np.ndarray, " r"],
    first_rows: Int64[np.ndarray, " j"],
    lengths: Float32[np.ndarray, "i f"],
    norms: Float64[np.ndarray, "6 f"],
    allowed: Bool[np.ndarray, " i"],
    best_items: Int64[np.ndarray, " k"],
    best_scores: Float32[np.ndarray, " k"],
) -> int:
    """Keep the best allowed items that have any of the words, in no order; returns how many there are.

    `norms` has for each field its weight, the constant and the slope of all its texts' length, and the same
    for one text.
    """
    items, most, kept = len(first_rows) - 1, len(best_items), 0
    places, widest = starts.copy(), 0
    for begin in range(0, items, BLOCK):
        widest = max(widest, first_rows[min(begin + BLOCK, items)] - first_rows[begin])
    whole, best, xs = np.zeros(BLOCK), np.zeros(BLOCK), np.zeros(BLOCK)
    by_row = np.zeros(widest)
    floor = np.float32(0)  # a score has to be above it
    for begin in range(0, items, BLOCK):
        end = min(begin + BLOCK, items)
        first_row, end_row, touched = first_rows[begin], first_rows[end], False
        for word in range(len(starts)):
            first, last, most_of_it = places[word], ends[word], rarities[word] * (K + 1)
            at = first
            while at < last and rows[at] < end_row:
                row = rows[at]
                item, field = row_items[row] - begin, row_fields[row]
                weighted = norms[0, field] * times[at]
                xs[item] += weighted / (norms[1, field] + norms[2, field] * lengths[item + begin, field])
                weighted = norms[3, field] * times[at]
                norm = norms[4, field] + norms[5, field] * row_lengths[row]
                by_row[row - first_row] += most_of_it * weighted / (K * norm + weighted)
                best[item] = max(best[item], by_row[row - first_row])
                at += 1
            for posting in range(first, at):  # of an item with several, the first one counts them all
                item = row_items[rows[posting]] - begin
                whole[item] += most_of_it * xs[item] / (K + xs[item])
                xs[item] = 0.0
            places[word] = at
            touched |= at > first
        if not touched:
            continue
        for item in range(begin, end):
            score = np.float32((1 - BEST) * whole[item - begin] + BEST * best[item - begin])
            if score <= floor or not allowed[item]:
                continue
            place = 0 if kept == most else kept  # in a heap whose first one is the worst, of equals the last
            if kept < most:
                while place > 0 and best_scores[(place - 1) >> 1] >= score:
                    parent = (place - 1) >> 1
                    best_scores[place], best_items[place] = best_scores[parent], best_items[parent]
                    place = parent
                kept += 1
            else:
                while True:
                    child, other = 2 * place + 1, 2 * place + 2
                    if other < most and (
                        best_scores[other] < best_scores[child]
                        or (
                            best_scores[other] == best_scores[child] and best_items[other] > best_items[child]
                        )
                    ):
                        child = other
                    if child >= most or not (
                        best_scores[child] < score
                        or (best_scores[child] == score and best_items[child] > item)
                    ):
                        break
                    best_scores[place], best_items[place] = best_scores[child], best_items[child]
                    place = child
            best_scores[place], best_items[place] = score, item
            floor = best_scores[0] if kept == most else floor
        whole[:] = 0.0
        best[:] = 0.0
        by_row[: end_row - first_row] = 0.0
    return kept


def score_items(
    words: Int32[np.ndarray, " q"],
    rarities: Float64[np.ndarray, " q"],
    chosen: Int64[np.ndarray, " n"],
    tokens: Int32[np.ndarray, " t"],
    row_starts: Int64[np.ndarray, " s"],
    first_rows: Int64[np.ndarray, " j"],
    row_fields: UInt8[np.ndarray, " r"],
    row_lengths: UInt16[np.ndarray, " r"],
    lengths: Float32[np.ndarray, "i f"],
    norms: Float64[np.ndarray, "6 f"],
    scores: Float32[np.ndarray, " n"],
    best_rows: Int64[np.ndarray, " n"],
    matched: np.ndarray,
) -> None:
    """The scores of chosen items as `rank_items` has them, the row that says most, and which words are there.

    Those below 0 are not there: they get 0, row -1 and no words.
    """
    asked = len(words)
    often, xs = np.zeros(asked, np.int64), np.zeros(asked)
    first, following = np.full(SLOTS, -1, np.int64), np.empty(asked, np.int64)  # chains of words, by token
    for word in range(asked):
        slot = words[word] & (SLOTS - 1)
        following[word], first[slot] = first[slot], word
    for at in range(len(chosen)):
        item, best, best_row = chosen[at], 0.0, -1
        xs[:] = 0.0
        for row in range(first_rows[item], first_rows[item + 1]) if item >= 0 else range(0):
            found = False
            for place in range(row_starts[row], row_starts[row + 1]):
                token = tokens[place] if tokens[place] >= 0 else ~tokens[place]
                word = first[token & (SLOTS - 1)]
                while word >= 0:
                    if words[word] == token:
                        often[word] += 1
                        found = True
                    word = following[word]
            if not found:
                continue
            field, says = row_fields[row], 0.0
            norm = norms[4, field] + norms[5, field] * row_lengths[row]
            for word in range(asked):
                if often[word]:
                    count = min(often[word], 255)
                    xs[word] += (
                        norms[0, field] * count / (norms[1, field] + norms[2, field] * lengths[item, field])
                    )
                    y = norms[3, field] * count / norm
                    says += rarities[word] * y * (K + 1) / (K + y)
                    often[word] = 0
            if says > best:
                best, best_row = says, row
        total, mask = 0.0, np.uint64(0)
        for word in range(asked):
            if xs[word] > 0.0:
                total += rarities[word] * xs[word] * (K + 1) / (K + xs[word])
                mask |= np.uint64(1) << np.uint64(word)
        scores[at] = (1 - BEST) * total + BEST * best
        best_rows[at], matched[at] = best_row, mask


def find_phrase(
    phrase: Int32[np.ndarray, " q"],
    rows: Int32[np.ndarray, " c"],
    tokens: Int32[np.ndarray, " t"],
    row_starts: Int64[np.ndarray, " s"],
    row_items: Int32[np.ndarray, " r"],
    found: Bool[np.ndarray, " i"],
) -> None:
    """Mark the items of those rows that have words in this order, with nothing between them but wholes."""
    for row in rows:
        end = row_starts[row + 1]
        for first in range(row_starts[row], end):
            at, met = first, 0
            while at < end and met < len(phrase) and (tokens[at] < 0 or tokens[at] == phrase[met]):
                met += tokens[at] >= 0
                at += 1
            if met == len(phrase):
                found[row_items[row]] = True
                break


def intersect_items(
    starts: Int64[np.ndarray, " q"],
    ends: Int64[np.ndarray, " q"],
    rows: Int32[np.ndarray, " p"],
    row_items: Int32[np.ndarray, " r"],
    first_rows: Int64[np.ndarray, " i"],
    alive: Bool[np.ndarray, " n"],
    found: Int64[np.ndarray, " k"],
) -> int:
    """Note the first living items that have all words, of which the rarest comes first; returns how many."""
    places, kept, last = starts.copy(), 0, -1
    for posting in range(starts[0], ends[0]):
        item = row_items[rows[posting]]
        if item == last or not alive[item]:
            continue
        last, has_all = item, True
        for word in range(1, len(starts)):
            low, step, first = places[word], 1, first_rows[item]
            while low + step < ends[word] and rows[low + step] < first:
                low += step
                step *= 2
            high = min(low + step, ends[word])
            while low < high:
                middle = (low + high) // 2
                if rows[middle] < first:
                    low = middle + 1
                else:
                    high = middle
            places[word] = low
            if low == ends[word] or rows[low] >= first_rows[item + 1]:
                has_all = False
                break
        if has_all:
            found[kept] = item
            kept += 1
            if kept == len(found):
                break
    return kept
