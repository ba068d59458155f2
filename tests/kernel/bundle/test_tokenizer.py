"""Texts become the ids that open_clip would give; what is cut is told; bad definitions become sentences."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jaxtyping import Int64

from multifold.bundle.tokenizer import Cleaning, TextError, TextSpec, Tokenizer, clean
from tests.kernel.bundle.strings import GOLDEN, samples, texts
from training.towers.tokenizers import clip_definition

CLIP = TextSpec("clip", context=77, start=49406, end=49407, pad=0, length="fixed")
TINY = json.dumps(
    {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {"<pad>": 0, "<start>": 1, "<end>": 2, "?": 3, "red": 4, "chair": 5},
            "unk_token": "?",
        },
    }
)
SMALL = TextSpec("clip", context=5, start=1, end=2, pad=0, length="dynamic")


@cache
def ours() -> Tokenizer:
    return Tokenizer(clip_definition(), CLIP)


@cache
def dynamic_ours() -> Tokenizer:
    return Tokenizer(clip_definition(), replace(CLIP, length="dynamic"))


@cache
def theirs() -> Any:  # noqa: ANN401 (an open_clip tokenizer)
    open_clip = pytest.importorskip("open_clip", reason="the reference comes with the extra 'train'")
    return open_clip.get_tokenizer("ViT-B-32")


def reference(wanted: Sequence[str]) -> Int64[np.ndarray, "b t"]:
    ids: Int64[np.ndarray, "b t"] = theirs()(list(wanted)).numpy()
    return ids


def test_a_thousand_strings_equal_open_clip() -> None:
    wanted = texts(1000)
    tokens, expected = ours()(wanted), reference(wanted)
    wrong = [
        text for text, a, b in zip(wanted, tokens.ids, expected, strict=True) if not np.array_equal(a, b)
    ]
    assert wrong == []
    full = expected[:, -1] == CLIP.end
    cut = [bool(last) and len(theirs().encode(text)) > 75 for last, text in zip(full, wanted, strict=True)]
    assert tokens.cut == tuple(cut)
    assert sum(cut) > 20
    assert tokens.ids.max() == CLIP.end


@settings(max_examples=150, deadline=None)
@example("\u0345")
@example("a\u0345b!\u0345! \u1f80")
@given(st.text(max_size=60))
def test_any_text_equals_open_clip(text: str) -> None:
    np.testing.assert_array_equal(ours()([text]).ids, reference([text]))


def test_golden_ids() -> None:
    golden = json.loads((GOLDEN / "tokens.json").read_text(encoding="utf-8"))
    assert {text: dynamic_ours()([text]).ids[0].tolist() for text in golden} == golden


def test_a_long_text_is_cut_and_says_so_and_padding_is_as_the_tower_wants() -> None:
    tokens = Tokenizer(TINY, SMALL)(["red chair", "red red chair", "red red red chair", ""])
    assert tokens.ids.tolist() == [[1, 4, 5, 2, 0], [1, 4, 4, 5, 2], [1, 4, 4, 4, 2], [1, 2, 0, 0, 0]]
    assert tokens.cut == (False, False, True, False)
    assert Tokenizer(TINY, SMALL)(["red", ""]).ids.tolist() == [[1, 4, 2], [1, 2, 0]]
    assert Tokenizer(TINY, replace(SMALL, length="fixed"))(["red"]).ids.tolist() == [[1, 4, 2, 0, 0]]
    assert Tokenizer(TINY, SMALL)([]).ids.shape == (0, 0)
    startless = Tokenizer(TINY, replace(SMALL, start=None, context=3))(["red chair", "red red chair"])
    assert (startless.ids.tolist(), startless.cut) == ([[4, 5, 2], [4, 4, 2]], (False, True))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=5))
def test_dynamic_is_fixed_without_the_padding(batch: list[str]) -> None:
    fixed, dynamic = ours()(batch), dynamic_ours()(batch)
    width = dynamic.ids.shape[1]
    np.testing.assert_array_equal(fixed.ids[:, :width], dynamic.ids)
    assert (fixed.ids[:, width:] == CLIP.pad).all()
    assert (dynamic.ids == CLIP.end).any(axis=1).all()


@pytest.mark.parametrize(
    ("how", "text", "expected"),
    [
        ("clip", "  A&amp;amp;B \n It\u2019s  schÃ¶n ", "a&b it's schön"),
        ("clip", "&lt;b&gt;&amp;eacute;", "<b>é"),
        ("canonicalize", "Hello, World! snake_case; it's &amp;amp; co.", "hello world snake case its co"),
        ("whitespace", "  A&amp;amp;B \n It\u2019s  schÃ¶n ", "A&B It's schön"),
        ("lowercase", "L-shaped two-seat SOFA, 2.5 m ", "l-shaped two-seat sofa, 2.5 m "),
        ("lowercase", "half \ud800 PAIR", "half \ufffd pair"),
        ("bert", "Caf\u00e9\u0000\t ÉCOLE  红椅", "cafe ecole 红 椅"),
        ("none", "  As It Is &amp; ", "  As It Is &amp; "),
        ("none", "half \ud800 pair \ud83d\ude00", "half \ufffd pair \U0001f600"),
    ],
)
def test_cleaning(how: Cleaning, text: str, expected: str) -> None:
    assert clean(text, how) == expected


@pytest.mark.parametrize(
    ("how", "name"), [("clip", "lower"), ("canonicalize", "canonicalize"), ("whitespace", "whitespace")]
)
def test_cleaning_equals_open_clip(how: Cleaning, name: str) -> None:
    reading = pytest.importorskip("open_clip.tokenizer", reason="the reference comes with the extra 'train'")
    expected = reading.get_clean_fn(name)
    for text in (*texts(300, seed=2), *samples()["broken"]):
        assert clean(text, how) == expected(text)


@pytest.mark.parametrize("how", ["clip", "canonicalize", "lowercase", "whitespace", "bert", "none"])
@settings(max_examples=60, deadline=None)
@given(text=st.text(st.characters(), max_size=40))
def test_any_text_can_be_read(how: Cleaning, text: str) -> None:
    tokens = Tokenizer(TINY, replace(SMALL, cleaning=how))([text])
    assert tokens.ids[0, -1] == SMALL.end


def test_bad_definitions_and_specs_become_sentences() -> None:
    for definition in ("", "{}", "not json", '{"model": {"type": "Nonsense"}}'):
        with pytest.raises(TextError, match="not a tokenizer definition"):
            Tokenizer(definition, SMALL)
    for wrong in (replace(SMALL, end=6), replace(SMALL, pad=-1), replace(SMALL, start=99)):
        with pytest.raises(TextError, match="not one of the 6 ids"):
            Tokenizer(TINY, wrong)
    with pytest.raises(TextError, match="no room"):
        replace(SMALL, context=2)
