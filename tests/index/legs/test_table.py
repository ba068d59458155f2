"""What the legs declare fits together, and the tables say what is declared."""

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from index.legs.contracts import LabelColumn
from index.legs.table import (
    COLUMNS,
    COLUMNS_OF,
    DECLARED,
    LEG_OF_COLUMN,
    LEGS,
    TARGET_LEGS,
    TEXT_LEGS,
    check_declarations,
)
from index.legs.words import WORDS
from multifold.types import ASPECTS, Target

INDEX = Path(__file__).resolve().parents[3] / "index"


@pytest.mark.parametrize("folder", ["search", "fit", "engine_set"])
def test_legs_are_spelt_where_they_are_declared_and_not_where_they_are_used(folder: str) -> None:
    trees = {path.name: ast.parse(path.read_text("utf-8")) for path in (INDEX / folder).glob("*.py")}
    found = [
        (name, node.value)
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in {*LEGS} - {*ASPECTS}
    ]
    assert found == []


def test_each_column_belongs_to_the_leg_that_declares_it() -> None:
    for place, leg in enumerate(DECLARED):
        assert COLUMNS[COLUMNS_OF[leg.name]] == leg.columns
        assert set(LEG_OF_COLUMN[COLUMNS_OF[leg.name]]) == {place}


def test_targets_ask_what_belongs_to_them_and_words_wherever_a_text_is() -> None:
    assert tuple(TARGET_LEGS) == get_args(Target)
    assert TARGET_LEGS["item"] == LEGS
    assert all(WORDS.name in legs for legs in TARGET_LEGS.values())
    assert {*TEXT_LEGS} == {"words", "reader", "writing"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": "reader"}, "a name belongs to one leg"),
        ({"columns": ("words", "text far")}, "a column belongs to one leg"),
        ({"columns": (), "prior": {}, "wordless": {}}, "something to weigh"),
        ({"wordless": {"reader": 1.0}}, "weighs what is its own"),
        ({"prior": {"image": {"image": 1.0}}}, "weighs what is its own"),
        ({"targets": frozenset({"sound"})}, "targets that there are"),
        ({"label": LabelColumn("reader", 7.0)}, "a column of labels has one weight"),
        ({"silent_without": "sound"}, "a leg that there is"),
    ],
)
def test_what_does_not_fit_together_is_refused_at_import(changes: dict[str, Any], reason: str) -> None:
    changed = [replace(leg, **changes) if leg is WORDS else leg for leg in DECLARED]
    check_declarations(DECLARED)
    with pytest.raises(AssertionError, match=reason):
        check_declarations(changed)
