"""Words with numbers, found by how they begin."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from index.texts.vocabulary import Vocabulary


@given(st.lists(st.tuples(st.text("abé", max_size=4), st.booleans())), st.text("abé", max_size=2))
def test_words_are_found_by_how_they_begin_new_or_packed(added: list[tuple[str, bool]], prefix: str) -> None:
    vocabulary = Vocabulary()
    for place, (word, pack) in enumerate(added):
        vocabulary.add(word)
        if pack:
            vocabulary.pack(all_new=True)
        every = dict.fromkeys(one for one, _ in added[: place + 1])
        wanted = {vocabulary.get(one) for one in every if one.startswith(prefix)}
        found = list(vocabulary.beginning_with(prefix))
        assert set(found) == wanted
        assert len(found) == len(wanted)


def test_words_that_are_being_added_have_no_items_yet() -> None:
    """A search may meet them, beside the thread that adds an item."""
    words = Vocabulary()
    numbers = [words.add(word) for word in ("lamp", "lampshade", "lamps")]
    assert words.having([*words.beginning_with("lamp"), -1]) == [0] * (len(numbers) + 1)
    words.count(np.array(numbers, np.int32), np.ones(3, np.int64))
    assert words.having(numbers) == [1, 1, 1]
