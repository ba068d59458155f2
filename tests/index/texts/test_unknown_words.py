"""Words that no item has stand for others, unless they are known to be words."""

from hypothesis import given
from hypothesis import strategies as st

from index.texts.vocabulary import Vocabulary
from index.texts.words import WordIndex
from tests.index.texts.word_items import found, ids, index_of, item


def test_a_guess_is_made_only_where_a_word_is_unknown() -> None:
    index = index_of(item(1, "car"), item(2, "carpet"), item(3, "cart"))
    assert found(index, "car") == [1]
    index.remove([1])
    assert found(index, "car") == [2, 3]


def test_two_words_may_be_one_in_an_item_also_where_others_have_them_apart() -> None:
    index = index_of(item(1, "trafficlight"), item(2, "light"), item(3, "fire"), item(4, "light fire engine"))
    assert found(index, "traffic light")[0] == 1
    assert index.weigh("traffic light", ids(1))[1] == 1  # it has both words
    assert index.weigh("traffic light", ids(2))[1] < 1
    assert found(index, "light fire") == [4, 2, 3]  # nothing writes these as one


def test_a_word_that_is_known_is_no_misspelling() -> None:
    texts = [item(1, "plate"), item(2, "carrot"), item(3, "car"), item(4, "pet")]
    guessing, knowing = WordIndex(), WordIndex(is_word={"place", "carpet", "carr"}.__contains__)
    for index in (guessing, knowing):
        index.add(texts)
        assert found(index, "plaet") == [1]
        assert found(index, "carr") == [2]  # the beginning of another word
    assert found(guessing, "place") == [1]
    assert found(guessing, "carpet") == [3, 4]
    assert found(knowing, "place") == found(knowing, "carpet") == []
    assert guessing.weigh("carr", ids(2))[1] == 1
    assert knowing.weigh("carr", ids(2))[1] == 0  # no item has it


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
