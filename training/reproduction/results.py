"""A paper's table with ours beside it: means over seeds with intervals, as Markdown, HTML and JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from math import isnan, log, nan, sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

from multifold.metrics import half_width
from training.evaluate.figures import line_chart
from training.evaluate.report import (
    ReportFigure,
    ReportSection,
    ReportTable,
    page_section,
    report_html,
    report_markdown,
)
from training.reproduction.runs import RowMeasurement, RunOptions
from training.reproduction.tables import PaperTable, TableRow

NONE = "–"
SHARES = ("retrieval", "classes", "random features")  # which the papers write as percent
NOTE = (
    "In brackets 95 % intervals: of items drawn again for one seed, and with what seeds differ for several. "
    "A mean of several numbers has that of the seeds alone."
)
SMALL_NOTE = "Small towers that learned a few minutes from scratch: only the order of rows can be compared."


@dataclass(frozen=True)
class RowEstimate:
    """A number of a row: its mean over seeds, and its interval if there is one."""

    mean: float
    low: float
    high: float
    percent: bool

    def __str__(self) -> str:
        form = "{:.1%}" if self.percent else "{:.3g}"
        mean, low, high = (form.format(one).rstrip("%") for one in (self.mean, self.low, self.high))
        return mean if self.low == self.high else f"{mean} [{low}, {high}]"


def estimate(
    row: TableRow,
    column: str | Sequence[str],
    done: Sequence[RowMeasurement],
    by_class: Sequence[str] = (),
) -> RowEstimate | None:
    """A column of a row over all of its seeds and test sets; none where a place of it is missing.

    The accuracy of some sets is a mean over their classes.
    """
    places = [row.filled(place) for place in ([column] if isinstance(column, str) else column)]
    by_seed: dict[int, list[list[float]]] = {}
    for place in places:
        pattern, _, path = place.rpartition(": ")
        sets = [one for one in done if fnmatchcase(one.name, pattern or "*")]
        if not sets:
            return None
        for one in sets:
            where = path.replace("/accuracy", "/per_class") if one.name in by_class else path
            if (value := _read(one.numbers, where)) is None:
                return None
            by_seed.setdefault(one.run.seed, []).append(value)
    percent = places[0].rpartition(": ")[2].startswith(SHARES)
    return _over_seeds([*by_seed.values()], percent)


def _read(numbers: Any, path: str) -> list[float] | None:  # noqa: ANN401 (JSON)
    """A number and its interval; twice itself without one. A digit is a place in a list."""
    for key in path.split("/"):
        if isinstance(numbers, list) and key.isdigit():
            numbers = numbers[int(key)]
        elif isinstance(numbers, Mapping) and key in numbers:
            numbers = numbers[key]
        else:
            return None
    return [float(value) for value in numbers] if isinstance(numbers, list) else [float(numbers)] * 3


def _over_seeds(seeds: Sequence[Sequence[Sequence[float]]], percent: bool) -> RowEstimate:
    """Of each seed, numbers with intervals: half widths of items, and of seeds, add up as squares.

    No number of a table is below 0, and no share above 1.
    """
    means = [fmean(value[0] for value in values) for values in seeds]
    alone = [values[0] for values in seeds if len(values) == 1]
    below = fmean(mean - low for mean, low, _ in alone) if alone else 0.0
    above = fmean(high - mean for mean, _, high in alone) if alone else 0.0
    apart = half_width(means) if len(means) > 1 else 0.0
    mean = fmean(means)
    low, high = mean - sqrt(below**2 + apart**2), mean + sqrt(above**2 + apart**2)
    return RowEstimate(mean, max(low, 0.0), min(high, 1.0) if percent else high, percent)


@dataclass(frozen=True)
class TableResults:
    """A table, and what of it has been measured."""

    name: str
    table: PaperTable
    options: RunOptions
    done: Sequence[RowMeasurement]

    def of(self, row: TableRow) -> list[RowMeasurement]:
        return [one for one in self.done if one.run.row == row]

    @cached_property
    def cells(self) -> dict[str, list[RowEstimate | None]]:
        """Of each row that has been measured, its columns."""
        rows = {row.name: (row, self.of(row)) for row in self.table.ours}
        columns = self.table.columns.values()
        return {
            name: [estimate(row, column, done, self.table.by_class) if column else None for column in columns]
            for name, (row, done) in rows.items()
            if done
        }

    def write(self) -> Path:
        """The report, and the numbers as JSON beside it; the path of the page."""
        title = f"{self.name}: {self.table.title}"
        sections = [ReportSection("Table", [*self._table()]), *self._figures(), *self._runs()]
        path = self.options.out / f"{self.name.replace(':', '-')}.html"
        path.write_text(report_html(title, sections), encoding="utf-8")
        path.with_suffix(".md").write_text(report_markdown(title, sections), encoding="utf-8")
        rows = {
            name: [None if one is None else [one.mean, one.low, one.high] for one in cells]
            for name, cells in self.cells.items()
        }
        told = {
            "table": self.name,
            "small": self.options.small,
            "columns": [*self.table.columns],
            "rows": rows,
        }
        text = json.dumps(told, indent=1, ensure_ascii=False)
        path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
        return path

    def _table(self) -> Iterator[str | ReportTable]:
        if self.table.about:
            yield self.table.about
        yield from self._remarks()
        rows: list[list[str]] = []
        for row in self.table.rows:
            paper = row.paper or (nan,) * len(self.table.columns)
            rows.append([row.name, "paper", *(NONE if isnan(one) else f"{one:g}" for one in paper)])
            if cells := self.cells.get(row.name):
                seeds = len({one.run.seed for one in self.of(row)})
                whose = f"ours, {seeds} seed{'s' if seeds > 1 else ''}"
                rows.append(["", whose, *(NONE if cell is None else str(cell) for cell in cells)])
        if self.table.columns:
            yield ReportTable(["", "", *self.table.columns], rows)
            yield NOTE

    def _remarks(self) -> Iterator[str]:
        """What a reader must know to compare."""
        if self.table.sets:
            yield f"Measured on {', '.join(f'{name}: {path}' for name, path in self.options.tests.items())}."
        if self.options.small:
            yield SMALL_NOTE
        told = {
            f"Note, {one.name}: {difference}."
            for one in self.done
            for difference in one.numbers.get("protocol", {}).get("differences", [])
        }
        yield from sorted(told)

    def _figures(self) -> Iterator[ReportSection]:
        """Sections of the pages that each row's first seed has, and curves."""
        for title, place in self.table.figures.items():
            page, _, heading = place.partition(": ")
            parts: list[ReportFigure] = []
            for row in self.table.ours:
                for one in self.of(row)[:1]:
                    text = (one.folder / page).read_text(encoding="utf-8")
                    if (shown := page_section(text, heading)) is not None:
                        parts.append(ReportFigure(shown, row.name))
            if parts:
                yield ReportSection(title, parts)
        if self.table.chart:
            yield ReportSection("Chart", [self._chart()])
        if self.table.curve and self.done:
            yield ReportSection("Curves", [self._curves(self.table.curve)])

    def _chart(self) -> ReportFigure:
        """Some columns over what the rows differ by, the paper's and ours."""
        rows = [(row.x, row) for row in self.table.rows if row.x is not None]
        most = max(x for x, _ in rows)
        lines = []
        for title in self.table.chart:
            column = [*self.table.columns].index(title)
            found = [(x / most, self.cells.get(row.name, [None] * (column + 1))[column]) for x, row in rows]
            lines.append(([(x / most, row.paper[column] / 100) for x, row in rows], f"{title}, paper"))
            lines.append(([(x, one.mean) for x, one in found if one is not None], f"{title}, ours"))
        return ReportFigure(line_chart(lines, [(x / most, f"{x:g}") for x, _ in rows]))

    def _curves(self, key: str) -> ReportFigure:
        """The logarithm of a number of the logs over the steps, each row's first seed."""
        firsts = {row.name: self.of(row)[0].run for row in self.table.ours if self.of(row)}
        logs = {name: [(one["step"], one[key]) for one in run.log(key)] for name, run in firsts.items()}
        steps = max(step for one in logs.values() for step, _ in one)
        values = [value for one in logs.values() for _, value in one]
        low, high = min(values), max(values)
        wide = log(high / low) or 1.0
        lines = [([(x / steps, log(y / low) / wide) for x, y in one], name) for name, one in logs.items()]
        ticks = [(share / 4, f"{steps * share / 4:g}") for share in range(5)]
        caption = f"The logarithm of the {key} over steps: 0 % is {low:.4g}, 100 % is {high:.4g}."
        return ReportFigure(line_chart(lines, ticks), caption)

    def _runs(self) -> Iterator[ReportSection]:
        rows = []
        for run in {one.run.folder: one.run for one in self.done}.values():
            changes = " ".join((str(run.row.recipe), *run.row.changes))
            cost = [f"{run.cost['steps']:,.0f}", f"{run.cost['hours']:.2g}", f"{run.cost['memory']:.1f}"]
            rows.append([run.row.name, str(run.seed), changes, *cost, str(run.folder)])
        head = ["", "seed", "recipe and changes", "steps", "hours", "GB", "folder"]
        yield ReportSection("Runs", [ReportTable(head, rows)])
