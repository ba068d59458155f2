"""The papers' tables as data: every row is a recipe that can be followed, every command and column exists."""

import argparse
import re
import shlex
import tomllib
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pytest

from multifold.errors import MultifoldError
from training.recipes import library
from training.reproduction import tables
from training.reproduction.runs import shrink
from training.reproduction.tables import load_table, table_names
from training.rules import check_recipe

HOUSE = Path(__file__).resolve().parents[3]
PAGE = (HOUSE / "docs" / "papers.md").read_text(encoding="utf-8")
PLACES = dict.fromkeys(("checkpoint", "set", "label", "cache", "out"), "x")


@pytest.mark.parametrize("name", table_names())
def test_every_row_is_a_recipe_that_can_be_followed(name: str) -> None:
    table = load_table(name)
    assert table.ours
    assert len({row.name for row in table.rows}) == len(table.rows)
    for row in table.ours:
        assert row.recipe is not None
        recipe = library.load_recipe(row.recipe, row.changes)
        check_recipe(recipe)
        check_recipe(shrink(recipe))
    for row in table.rows:
        assert len(row.paper) in ({0, len(table.columns)} if row.recipe else {len(table.columns)})


@pytest.mark.parametrize("name", table_names())
def test_its_commands_parse_and_its_columns_have_sets(name: str) -> None:
    table = load_table(name)
    points = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    for one in table.sets or ("test",):
        for row in table.ours:
            for command in table.measures_of(one):
                work, *words = [word.format_map(PLACES) for word in shlex.split(row.filled(command))]
                parser = argparse.ArgumentParser(exit_on_error=False)
                import_module(points["multifold.commands"][work]).add_arguments(parser)
                parser.parse_args(words)
    places = [
        each
        for column in table.columns.values()
        for each in ([column] if isinstance(column, str) else column)
        if each
    ]
    for place in places:
        named = place.rpartition(": ")[0]
        assert named in {*table.sets, "*"} if table.sets else not named
    assert "{" not in "".join(row.filled(place) for row in table.ours for place in places)


def test_a_small_row_keeps_what_the_table_compares() -> None:
    whole = library.load_recipe("wpce-imq", ["train.steps=9", "loss.name=robust_xr"])
    small = shrink(whole)
    assert small.geometry == whole.geometry
    assert small.loss == whole.loss
    assert (small.image.kind, small.model_dump()["image"]["tokens"]) == ("small", "all")
    assert small.model_dump()["text"]["pads"] == whole.model_dump()["text"]["pads"] != "masked"
    pairs, group = (shrink(library.load_recipe(f"{name}-shape-rn101")).train for name in ("xm", "mxm"))
    assert pairs.pairs
    assert (pairs.items, pairs.views, pairs.captions) == (24, 6, 1)
    assert (group.pairs, group.items, group.views, group.captions) == (False, 24, 6, 5)


def test_a_name_that_is_not_there_is_told_with_its_like() -> None:
    with pytest.raises(MultifoldError, match=r"no table mxm:55; did you mean mxm:5"):
        load_table("mxm:55")
    with pytest.raises(MultifoldError, match=r"there is no table \.\./mxm:5"):
        load_table("../mxm:5")


def test_the_page_names_every_table_and_no_other() -> None:
    named = set(re.findall(r"`([a-z]+:[\w-]+)`", PAGE))
    assert named == set(table_names())


def test_the_list_says_what_each_needs() -> None:
    told = tables.list_tables()
    for name in table_names():
        assert f"\n{name}  {load_table(name).title}\n" in told
    assert "data: Text2Shape" in told
    assert "10 runs; 0.62 to 2.45 hours a run on three RTX 3090" in told


@pytest.mark.parametrize(("name", "pair"), [("wpce:5-cc3m", 0), ("wpce:5-cc12m", 1)])
def test_deviations_of_draws_are_those_that_the_paper_prints(name: str, pair: int) -> None:
    """Where the text of the papers is laid beside the checkout: four of these were mistyped."""
    papers = sorted((HOUSE.parent / "shared" / "seeds").glob("*.txt"))
    printed = [
        text for text in (path.read_text("utf-8") for path in papers) if "WPCE Gaussian | WPCE IMQ" in text
    ]
    if not printed:
        pytest.skip("the papers are not here")
    table = load_table(name)
    rows = printed[0].rpartition("WPCE Gaussian | WPCE IMQ")[2].splitlines()
    for place, row in enumerate(table.rows):
        told = {
            line.split(" | ")[0]: line.split(" | ")[1 + 2 * pair + place]
            for line in rows
            if line.count("|") > 3
        }
        assert [float(told[column].split()[1]) for column in table.columns] == list(row.paper)


def numbers_of(line: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+\.?\d*", re.sub(r"[(),]", " ", line))]


def stands_in(figures: Sequence[float], numbers: Sequence[float]) -> bool:
    count = len(figures)
    return any(numbers[start : start + count] == [*figures] for start in range(len(numbers) - count + 1))


@pytest.mark.parametrize("name", [name for name in table_names() if "" in load_table(name).columns.values()])
def test_rows_with_what_is_not_measured_here_stand_in_the_paper(name: str) -> None:
    """Batches and memory of MXM-CLR, and EuCLIP's average over 38 sets."""
    texts = [path.read_text("utf-8") for path in (HOUSE.parent / "shared" / "seeds").glob("*.txt")]
    printed = [numbers_of(line) for text in texts for line in text.splitlines()]
    if not printed:
        pytest.skip("the papers are not here")
    for row in load_table(name).rows:
        assert any(stands_in(row.paper, line) for line in printed), (name, row.name)


def test_a_table_that_extends_another_has_its_rows_with_other_figures() -> None:
    base, table = load_table("wpce:1-cc3m"), load_table("wpce:1-cc12m")
    assert (table.columns, table.sets, table.by_class) == (base.columns, base.sets, base.by_class)
    assert [row.name for row in table.rows] == [row.name for row in base.rows]
    assert [row.fill for row in table.rows] == [row.fill for row in base.rows]
    assert all("train.epochs=35" in row.changes for row in table.rows)
    assert table.title != base.title
    assert not {row.paper for row in table.rows} & {row.paper for row in base.rows}


def test_a_table_that_is_like_another_has_rows_of_its_own() -> None:
    base, table = load_table("mxm:2-flickr30k"), load_table("mxm:10-flickr30k")
    assert (table.columns, table.measures, table.cost) == (base.columns, base.measures, base.cost)
    assert table.title != base.title
    own = {row.name for row in table.rows} - {row.name for row in base.rows}
    assert {"Info+Soft, RN101", "Robust-XR, RN101"} <= own
    assert "Info+Mask, RN101" not in {row.name for row in table.rows}
    assert load_table("mxm:2-text2shape").measures != base.measures
