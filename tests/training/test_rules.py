"""Options that do not go together are refused before anything is read."""

from typing import Any

import pytest

from multifold.errors import MultifoldError
from tests.training import small
from training.recipes import library
from training.rules import check_recipe

POINTS: dict[str, Any] = {"points": {}}
FROZEN = {"trainable": "none"}
BESIDE: dict[str, Any] = {
    **POINTS,
    "image": FROZEN,
    "text": FROZEN,
    "loss": {"agg_image": 0.0, "text_points": 1.0},
    "train": {"shift": 0},
}


@pytest.mark.parametrize(
    ("sections", "processes", "sentence"),
    [
        ({"loss": {"agg_image": 0.0}}, 1, "compares nothing"),
        ({"loss": {"agg_image": 0.0}, **POINTS}, 1, "compares nothing"),
        ({"loss": {"text_points": 1.0}}, 1, "need each other"),
        ({"loss": {"agg_image": 1.0}, **POINTS}, 1, "need each other"),
        ({"loss": {"entailment": {"weight": 0.1}}}, 1, "clip has none"),
        ({"loss": {"name": "mhf"}}, 1, "no loss 'mhf'"),
        ({"loss": {"name": "robust_xr", "block": 4}}, 1, "robust_xr needs the whole matrix"),
        ({"loss": {"name": "robust_xr"}}, 2, "robust_xr needs the whole matrix: one process"),
        ({"train": {"items": 2}}, 3, "a step of 2 items cannot be shared by 3 processes"),
        ({"loss": {"text_points": 1.0}, **POINTS}, 2, "trained by one process"),
        ({**BESIDE, "train": {"shift": 1}}, 1, "set shift = 0"),
        ({**BESIDE, "train": {"shift": 0, "augment": {"zoom": 1.2}}}, 1, "reads each view as it is"),
        ({**BESIDE, "points": FROZEN}, 1, "nothing learns"),
        ({"train": {"pairs": True, "judged": 0.5}}, 1, "set pairs = false, or judged = 0"),
        ({"train": {"pairs": True, "captions": 0}}, 1, "a pair compares one with one"),
        ({"train": {"pairs": True, "views": 2}, "loss": {"text_image": 1.0}}, 1, "set views = 1"),
    ],
)
def test_what_does_not_go_together_is_refused(
    sections: dict[str, Any], processes: int, sentence: str
) -> None:
    with pytest.raises(MultifoldError, match=sentence):
        check_recipe(small.recipe(sections), processes)


@pytest.mark.parametrize("name", library.shipped_names())
def test_shipped_recipes_pass(name: str) -> None:
    check_recipe(library.load_recipe(name))
