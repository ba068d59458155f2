"""Words with numbers, found by how they begin."""

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
