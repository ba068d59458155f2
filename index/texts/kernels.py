"""What is counted and scored for many items at once, compiled by numba.

The texts of items are one array of whole numbers. A text is its field and how many numbers its words have (in
one number, see `head_of`), its length in words, and the numbers of its words; those of wholes are ~number.

An item's score is (1 − BEST_TEXT_SHARE) · whole + BEST_TEXT_SHARE · best. Its `whole` is BM25F over all of
its texts, and its `best` is BM25 of the one text that says most: so the best caption counts more than many
that say a little each, and an item of a hundred captions, whose words are one in a hundred, has no
advantage. Both sum, over the words of the query, rarity · x · (K + 1) / (K + x), where x is how often the
word is there, by the weight of its field and the length of its text (or of all texts of the field).
"""

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt64

from index.texts.contracts import CAPTION, FIELDS, NOTHING
from multifold.compiling import compile_annotated

K = 1.2
BEST_TEXT_SHARE = 0.5
IMPACT_STEPS = 255  # of the most that a word can say of an item
ITEM_BITS, STEP_BITS = 28, 8  # of a posting
SLOTS = 256  # a power of two, of the words of a query: most words of a text are compared with none of them
ROW_NUMBERS = 128  # numbers of a row


def head_of(field: int, count: int) -> int:
    """The first number of a text of so many further ones."""
    return count * len(FIELDS) + field


@compile_annotated("sums")
def add_sizes(
    starts: Int64[np.ndarray, " i"],
    texts: Int32[np.ndarray, " t"],
    sign: int,
    sums: Float64[np.ndarray, "3 f"],
) -> None:
    """Add (or with the sign -1, take away) how many words, items and texts with each field there are."""
    for item in range(len(starts) - 1):
        has = np.zeros(len(FIELDS), np.bool_)
        at = starts[item]
        while at < starts[item + 1]:
            field = texts[at] % len(FIELDS)
            sums[0, field] += sign * texts[at + 1]
            sums[1, field] += 0 if has[field] else sign
            sums[2, field] += sign
            has[field] = True
            at += 2 + texts[at] // len(FIELDS)


@compile_annotated()
def post_words(
    starts: Int64[np.ndarray, " i"], texts: Int32[np.ndarray, " t"], norms: Float64[np.ndarray, "3 f"]
) -> Int64[np.ndarray, " p"]:
    """One number for each word of each item: which word, which item, and about how much it says.

    That is in `IMPACT_STEPS`, without the rarity of the word.
    """
    widest = 1
    for item in range(len(starts) - 1):
        widest = max(widest, starts[item + 1] - starts[item])
    slots = 2
    while slots < 2 * widest:
        slots *= 2
    words, times = np.full(slots, -1, np.int32), np.zeros(slots, np.int32)  # a table of those of an item
    whole, best, lengths = np.zeros(slots), np.zeros(slots), np.zeros(len(FIELDS))
    of_item, of_text = np.empty(widest, np.int64), np.empty(widest, np.int64)
    postings, kept = np.empty(len(texts), np.int64), 0
    for item in range(len(starts) - 1):
        lengths[:] = 0.0
        at = starts[item]
        while at < starts[item + 1]:
            lengths[texts[at] % len(FIELDS)] += texts[at + 1]
            at += 2 + texts[at] // len(FIELDS)
        many, at = 0, starts[item]
        while at < starts[item + 1]:
            field, length, end, here = (
                texts[at] % len(FIELDS),
                texts[at + 1],
                at + 2 + texts[at] // len(FIELDS),
                0,
            )
            for place in range(at + 2, end):
                word = texts[place] if texts[place] >= 0 else ~texts[place]
                slot = (word * 40503) & (slots - 1)
                while words[slot] != word and words[slot] >= 0:
                    slot = (slot + 1) & (slots - 1)
                if words[slot] < 0:
                    words[slot] = word
                    of_item[many] = slot
                    many += 1
                if times[slot] == 0:
                    of_text[here] = slot
                    here += 1
                times[slot] += 1
            in_all = norms[0, field] + norms[1, field] * lengths[field]
            in_one = norms[0, field] + norms[2, field] * length
            for slot in of_text[:here]:
                whole[slot] += times[slot] / in_all
                best[slot] = max(best[slot], times[slot] / in_one)
                times[slot] = 0
            at = end
        for slot in of_item[:many]:
            says = (1 - BEST_TEXT_SHARE) * whole[slot] / (K + whole[slot]) + BEST_TEXT_SHARE * best[slot] / (
                K + best[slot]
            )
            step = max(1, int(IMPACT_STEPS * says + 0.5))
            postings[kept] = (np.int64(words[slot]) << (ITEM_BITS + STEP_BITS)) | (item << STEP_BITS) | step
            kept += 1
            words[slot], whole[slot], best[slot] = -1, 0.0, 0.0
    return postings[:kept].copy()


@compile_annotated("scores")
def add_impacts(
    wanted: Int32[np.ndarray, " q"],
    rarities: Float64[np.ndarray, " q"],
    words: Int32[np.ndarray, " w"],
    firsts: Int64[np.ndarray, " v"],
    holders: Int32[np.ndarray, " h"],
    impacts: UInt8[np.ndarray, " h"],
    scores: Float32[np.ndarray, " i"],
) -> None:
    """Add to the items of some words about what these say of them."""
    for term in range(len(wanted)):
        place = np.searchsorted(words, wanted[term])
        if place < len(words) and words[place] == wanted[term]:
            rarity = np.float32(rarities[term])
            for at in range(firsts[place], firsts[place + 1]):
                scores[holders[at]] += rarity * impacts[at]


@compile_annotated("scores", "shares", "stated", "labels", "masks")
def score_items(
    words: Int32[np.ndarray, " q"],
    rarities: Float64[np.ndarray, " q"],
    heard: Float64[np.ndarray, " q"],
    meant: Int32[np.ndarray, " q"],
    telling: int,
    places: Int64[np.ndarray, " n"],
    starts: Int64[np.ndarray, " i"],
    texts: Int32[np.ndarray, " t"],
    norms: Float64[np.ndarray, "3 f"],
    scores: Float32[np.ndarray, " n"],
    shares: Float32[np.ndarray, " n"],
    stated: Float32[np.ndarray, " n"],
    labels: Int64[np.ndarray, " n"],
    masks: UInt64[np.ndarray, " n"],
) -> None:
    """The scores of items, what is heard of the query, the text that says most, how much of that the query
    states, and which words are there.

    Nothing is written for those whose place is below 0, or that have none of the first words, which tell. Of
    words that are meant by one word of the query, and which stand together, that which is heard most counts.
    """
    asked = len(words)
    often, xs, lengths = np.zeros(asked, np.int64), np.zeros(asked), np.zeros(len(FIELDS))
    first, following = np.full(SLOTS, -1, np.int64), np.empty(asked, np.int64)  # chains of words
    for word in range(asked):
        slot = words[word] & (SLOTS - 1)
        following[word], first[slot] = first[slot], word
    for row in range(len(places)):
        if places[row] < 0:
            continue
        begin, end = starts[places[row]], starts[places[row] + 1]
        lengths[:] = 0.0
        at = begin
        while at < end:
            lengths[texts[at] % len(FIELDS)] += texts[at + 1]
            at += 2 + texts[at] // len(FIELDS)
        xs[:] = 0.0
        best = told = 0.0
        label = NOTHING
        captions = 0
        at = begin
        while at < end:
            field, length, following_text = (
                texts[at] % len(FIELDS),
                texts[at + 1],
                at + 2 + texts[at] // len(FIELDS),
            )
            found = False
            pieces = 0
            for place in range(at + 2, following_text):
                number = texts[place] if texts[place] >= 0 else ~texts[place]
                word = first[number & (SLOTS - 1)]
                asked_for = False
                while word >= 0:
                    if words[word] == number:
                        often[word] += 1
                        asked_for = True
                    word = following[word]
                found = found or asked_for
                pieces += asked_for and texts[place] >= 0  # once, also where it stands for two words
            if found:
                in_all = 1 / (norms[0, field] + norms[1, field] * lengths[field])
                in_one = K * (norms[0, field] + norms[2, field] * length)
                says = 0.0
                for word in range(asked):
                    if often[word]:
                        xs[word] += often[word] * in_all
                        says += rarities[word] * (K + 1) * often[word] / (in_one + often[word])
                        often[word] = 0
                if says > best:
                    best, label = says, captions if field == CAPTION else -1 - field
                    told = pieces / max(length, 1)
            captions += field == CAPTION
            at = following_text
        total, mask, share, loudest = 0.0, np.uint64(0), 0.0, 0.0
        for word in range(asked):
            if word > 0 and meant[word] != meant[word - 1]:
                share += loudest
                loudest = 0.0
            if xs[word] > 0.0:
                total += rarities[word] * xs[word] * (K + 1) / (K + xs[word])
                mask |= np.uint64(word < telling) << np.uint64(word)
                loudest = max(loudest, heard[word])
        if not mask:
            continue
        scores[row], shares[row] = (1 - BEST_TEXT_SHARE) * total + BEST_TEXT_SHARE * best, share + loudest
        stated[row], labels[row], masks[row] = told, label, mask


@compile_annotated()
def have_phrase(
    phrase: Int32[np.ndarray, " q"],
    places: Int64[np.ndarray, " n"],
    starts: Int64[np.ndarray, " i"],
    texts: Int32[np.ndarray, " t"],
) -> Bool[np.ndarray, " n"]:
    """Whether a text of each item has words in this order, with nothing between them but wholes."""
    have = np.zeros(len(places), np.bool_)
    for row in range(len(places)):
        at = starts[places[row]]
        while at < starts[places[row] + 1] and not have[row]:
            end = at + 2 + texts[at] // len(FIELDS)
            for begin in range(at + 2, end):
                place, met = begin, 0
                while place < end and met < len(phrase) and (texts[place] < 0 or texts[place] == phrase[met]):
                    met += texts[place] >= 0
                    place += 1
                have[row] |= met == len(phrase)
            at = end
    return have


@compile_annotated()
def first_not_before(
    word: UInt8[np.ndarray, " n"], letters: UInt8[np.ndarray, " b"], starts: Int64[np.ndarray, " m"]
) -> int:
    """The place of the first of some words in order that does not come before a word."""
    low, high = 0, len(starts) - 1
    while low < high:
        middle = (low + high) // 2
        at, end, place = starts[middle], starts[middle + 1], 0
        while at < end and place < len(word) and letters[at] == word[place]:
            at += 1
            place += 1
        if place < len(word) and (at == end or letters[at] < word[place]):
            low = middle + 1
        else:
            high = middle
    return low


@compile_annotated()
def find_words(
    wanted: UInt8[np.ndarray, " w"],
    ends: Int64[np.ndarray, " n"],
    letters: UInt8[np.ndarray, " b"],
    starts: Int64[np.ndarray, " m"],
) -> Int64[np.ndarray, " n"]:
    """The places of wanted words among some in order; -1 for those that are not there."""
    places = np.full(len(ends) - 1, -1, np.int64)
    for at in range(len(places)):
        word = wanted[ends[at] : ends[at + 1]]
        place = first_not_before(word, letters, starts)
        if place < len(starts) - 1 and starts[place + 1] - starts[place] == len(word):
            same = 0
            while same < len(word) and letters[starts[place] + same] == word[same]:
                same += 1
            places[at] = place if same == len(word) else -1
    return places


@compile_annotated("scores", "best")
def score_rows(
    rows: Int8[np.ndarray, "r d"],
    sizes: Float32[np.ndarray, " r"],
    starts: Int64[np.ndarray, " i"],
    places: Int64[np.ndarray, " n"],
    query: Int16[np.ndarray, " d"],
    scores: Float32[np.ndarray, " n"],
    best: Int64[np.ndarray, " n"],
) -> None:
    """Write the best product of the query with the rows of each item, and which row has it.

    For an item without rows these are 0 and -1.
    """
    whole = len(query) // ROW_NUMBERS * ROW_NUMBERS
    for at in range(len(places)):
        most = np.float32(0)
        row = -1
        for place in range(starts[places[at]], starts[places[at] + 1]):
            total = np.int32(0)  # numba would sum in 64 bits, a third as fast
            for block in range(
                0, whole, ROW_NUMBERS
            ):  # of a known length, which takes two thirds of the time
                part = np.int32(0)
                for i in range(block, block + ROW_NUMBERS):
                    part = np.int32(part + np.int32(np.int32(rows[place, i]) * np.int32(query[i])))
                total = np.int32(total + part)
            for i in range(whole, len(query)):
                total = np.int32(total + np.int32(np.int32(rows[place, i]) * np.int32(query[i])))
            score = np.float32(total) * sizes[place]
            if row < 0 or score > most:
                most = score
                row = place
        scores[at] = most
        best[at] = row
