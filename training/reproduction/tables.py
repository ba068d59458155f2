"""The tables and figures of the papers: a TOML file each, in the folder of its paper.

A table has rows (a recipe and changes), the commands that measure a row's checkpoint, and columns: the places
in what the commands write as JSON. In both, `{name}` stands for what the row fills in. Columns begin with a
test set where there are several: `imagenet: classes/zero-shot/accuracy`, or `*:` for the mean over all.
Several places are a mean as well; a column without a place has the paper's figures alone. A row without a
recipe is a system that is not ours, shown beside them.
A table that is `like` another of its folder has all but its rows, where it does not say otherwise. One that
`extends` another has its rows too, and others, or other figures of the same.
"""

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from multifold.errors import MultifoldError
from training.recipes.schema import RecipeSection

PAPERS = Path(__file__).parent / "papers"


class TableRow(RecipeSection):
    name: str
    recipe: str | None = None
    changes: tuple[str, ...] = ()  # as of `multifold train --set`
    fill: Mapping[str, str] = Field(default_factory=dict)
    paper: tuple[float, ...] = ()  # its own figures, nan where it has none
    x: float | None = None  # its place in a chart

    def filled(self, text: str) -> str:
        """The text with what the row fills in."""
        for name, value in self.fill.items():
            text = text.replace(f"{{{name}}}", value)
        return text


class PaperTable(RecipeSection):
    title: str
    about: str = ""  # what the paper leaves open, and what is other here
    data: str  # what it learns from and is measured on
    cost: str  # of the paper's runs
    sets: tuple[str, ...] = ()  # test sets beside the manifest; none: its test split
    by_class: tuple[str, ...] = ()  # those whose accuracy is the mean over classes
    measures: Mapping[str, tuple[str, ...]]  # commands, by the sets that they are for: the first that fits
    columns: Mapping[str, str | tuple[str, ...]] = Field(default_factory=dict)
    figures: Mapping[str, str] = Field(
        default_factory=dict
    )  # title: page and section, `report.html: Retrieval`
    curve: str = ""  # a number of the log, drawn over the steps
    chart: tuple[str, ...] = ()  # columns of shares, drawn over the rows' x
    rows: tuple[TableRow, ...]

    def measures_of(self, name: str) -> tuple[str, ...]:
        """The commands for a test set."""
        return next(commands for pattern, commands in self.measures.items() if fnmatchcase(name, pattern))

    @property
    def ours(self) -> list[TableRow]:
        return [row for row in self.rows if row.recipe is not None]


def table_names() -> list[str]:
    """PAPER:TABLE of each, in order."""
    names = [f"{path.parent.name}:{path.stem}" for path in PAPERS.glob("*/*.toml")]
    return sorted(names, key=_order)


def load_table(name: str) -> PaperTable:
    paper, _, table = name.partition(":")
    path = PAPERS / paper / f"{table}.toml"
    if name not in table_names():
        near = get_close_matches(name, table_names(), 3, 0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else "`multifold reproduce --list` names them"
        raise MultifoldError(f"there is no table {name}; {hint}")
    try:
        return PaperTable.model_validate(_read(path))
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise MultifoldError(f"{path}: {error}") from error


def _read(path: Path) -> dict[str, Any]:
    """A table with what it has of another; of one that it `extends`, with rows of the same names changed."""
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    if "like" in raw:
        base = _read(path.with_name(f"{raw.pop('like')}.toml"))
        del base["rows"]
        return base | raw
    if "extends" not in raw:
        return raw
    base = _read(path.with_name(f"{raw.pop('extends')}.toml"))
    changed = {row["name"]: row for row in raw.pop("rows", ())}
    rows = [row | changed.pop(row["name"], {}) for row in base.pop("rows")]
    return base | raw | {"rows": [*rows, *changed.values()]}


def list_tables() -> str:
    """What there is, what each needs and what it costs."""
    lines = ["tables and figures of the papers, for `multifold reproduce PAPER:TABLE`:"]
    for name in table_names():
        table = load_table(name)
        runs = len({(row.recipe, row.changes) for row in table.ours})
        lines += ["", f"{name}  {table.title}", f"    data: {table.data}", f"    {runs} runs; {table.cost}"]
    return "\n".join(lines)


def _order(name: str) -> tuple[str, bool, int, str]:
    paper, _, table = name.partition(":")
    figure = table.startswith("figure-")
    number, _, part = table.removeprefix("figure-").partition("-")
    return paper, figure, int(number), part
