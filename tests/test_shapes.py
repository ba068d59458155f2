"""Shapes are checked where arrays are named, and only there."""

from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from jaxtyping import Float32, TypeCheckError

from index.legs.table import COLUMNS
from index.search.scores import Scores
from multifold.types import Item
from tests.shapes import check_arrays, names_array

Rows = Float32[np.ndarray, "n d"]


def test_an_array_of_a_wrong_shape_is_met_where_it_is_passed() -> None:
    values, background = np.zeros((3, len(COLUMNS)), np.float32), np.zeros(3, np.bool_)
    Scores(np.arange(3), {}, values, background, 1.0, background)
    with pytest.raises(TypeCheckError, match="background"):
        Scores(np.arange(3), {}, values, background[:2], 1.0, background)


@pytest.mark.parametrize("kind", [Rows, Rows | None, dict[str, list[Rows]], Callable[[Rows], int]])
def test_types_that_are_made_of_arrays_name_them(kind: object) -> None:
    assert names_array(kind)


@pytest.mark.parametrize("kind", [int, Item | None, Literal["n d"], Callable[..., int], "Rows"])
def test_other_types_name_none(kind: object) -> None:
    assert not names_array(kind)


def test_what_names_no_array_is_called_as_it_is() -> None:
    def plain(item: Item, count: int) -> str:
        return item.id * count

    def shaped(rows: Rows) -> int:
        return len(rows)

    assert check_arrays(plain, typechecker=print) is plain
    assert check_arrays(shaped, typechecker=lambda function: function) is not shaped
