"""From 10⁵ to 10⁹ items: what measured numbers come to, as the tables of docs/scale.md.

Nothing is measured here. The defaults were (docs/benchmarks, docs/scale.md say where); give yours instead.
Rows lie in cells, as many as 4·√rows: a query takes √rows, and filling them rows·√rows. All else grows as the
items do.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from math import ceil, sqrt

from benches.reporting import head, row

DECADES = (5, 6, 7, 8, 9)
HOUR = 3600.0
GB = 1e9


@dataclass(frozen=True)
class MeasuredFigures:
    """Measured figures, of one thread or core."""

    row_bytes: float = 2572.0  # IVF2048,SQ8 on 512 numbers, the float32 vector included
    code_bytes: float = 291.0  # IVF1024,SQ4 on them, where vectors are in files (memory = codes)
    vector_bytes: float = 2048.0  # which are then on disk
    store_bytes: float = 2424.0  # SQLite's file, an observation of 512 numbers
    picture_bytes: float = 50_000.0  # not measured: a photo as a page shows it
    search_ms: float = 0.99  # one query at recall 0.99, in `search_rows`
    search_rows: float = 1_000_000.0
    build_s: float = 58.0  # cells of `search_rows`, tuned
    request_ms: float = 2.08  # a text query: read, encoded by the former demo's encoder, answered
    picture_ms: float = 3.39  # decoded and encoded by it
    text_ms: float = 1.44
    views_s: float = 113.7  # drawn in a CPU-second, loading included
    item_us: float = 44.0  # of CPU time to write an item to the store, and for each observation of it
    observation_us: float = 21.5
    memory_gb: float = 256.0  # of one machine
    share: float = 0.6  # of it for rows; the rest is for builds, caches and the system


@dataclass(frozen=True)
class ItemKind:
    name: str
    pictures: int
    captions: int
    drawn: bool

    @property
    def observations(self) -> int:
        return self.pictures + self.captions

    @property
    def rows(self) -> int:
        """Each side has its observations and their mean."""
        return self.observations + 2


PHOTO = ItemKind("a photo with a caption", 1, 1, drawn=False)
SHAPE = ItemKind("a shape with 12 views and 5 captions", 12, 5, drawn=True)


def memory_gb(figures: MeasuredFigures, thing: ItemKind, items: float) -> float:
    return items * thing.rows * figures.row_bytes / GB


def shard_count(figures: MeasuredFigures, thing: ItemKind, items: float) -> int:
    """Machines that hold the rows once."""
    return ceil(memory_gb(figures, thing, items) / (figures.memory_gb * figures.share))


def search_ms(figures: MeasuredFigures, thing: ItemKind, items: float) -> float:
    """CPU ms of one query on one side's means, in all shards together."""
    parts = shard_count(figures, thing, items)
    return parts * figures.search_ms * sqrt(items / parts / figures.search_rows)


def build_hours(figures: MeasuredFigures, thing: ItemKind, items: float) -> float:
    """Core-hours of the cells of observations and of means, once."""
    parts = shard_count(figures, thing, items)
    sizes = (one * items / parts / figures.search_rows for one in (thing.pictures, thing.captions, 1, 1))
    return parts * figures.build_s * sum(size * sqrt(size) for size in sizes) / HOUR


def embedding_hours(figures: MeasuredFigures, thing: ItemKind, items: float) -> float:
    """Core-hours until everything has been encoded."""
    each = thing.pictures * figures.picture_ms + thing.captions * figures.text_ms
    return items * each / 1e3 / HOUR


def rendering_hours(figures: MeasuredFigures, thing: ItemKind, items: float) -> float:
    """Core-hours until everything has been drawn."""
    return items * thing.pictures / figures.views_s / HOUR if thing.drawn else 0.0


def query_cores(figures: MeasuredFigures, thing: ItemKind, items: float, rate: float = 100.0) -> float:
    """Cores for so many queries a second, half idle."""
    return 2 * rate * (figures.request_ms + search_ms(figures, thing, items)) / 1e3


def written_rate(figures: MeasuredFigures, thing: ItemKind) -> float:
    """Items written to the store in a CPU-second."""
    return 1e6 / (figures.item_us + thing.observations * figures.observation_us)


Column = Callable[[MeasuredFigures, ItemKind, float], float]
COLUMNS: dict[str, Column] = {
    "rows, millions": lambda _, thing, items: items * thing.rows / 1e6,
    "rows in memory, GB": memory_gb,
    "with codes: in memory, GB": lambda f, thing, items: items * thing.rows * f.code_bytes / GB,
    "with codes: vectors on disk, GB": lambda f, thing, items: items * thing.rows * f.vector_bytes / GB,
    "store, GB": lambda f, thing, items: items * thing.observations * f.store_bytes / GB,
    "pictures, GB": lambda f, thing, items: items * thing.pictures * f.picture_bytes / GB,
    "shards": lambda f, thing, items: float(shard_count(f, thing, items)),
    "search, CPU ms": search_ms,
    "query, CPU ms": lambda f, thing, items: f.request_ms + search_ms(f, thing, items),
    "cores for 100 queries/s": query_cores,
    "drawing, core-hours": rendering_hours,
    "encoding, core-hours": embedding_hours,
    "cells, core-hours": build_hours,
    "writing to the store, core-hours": lambda f, thing, items: items / written_rate(f, thing) / HOUR,
}


def size_table(figures: MeasuredFigures, thing: ItemKind) -> Iterator[str]:
    """A column a decade."""
    yield head(thing.name, *(f"10{'⁰¹²³⁴⁵⁶⁷⁸⁹'[decade]}" for decade in DECADES))
    for name, column in COLUMNS.items():
        cells = [column(figures, thing, 10.0**decade) for decade in DECADES]
        if any(cells):
            yield row(name, *map(format_number, cells))


def format_number(number: float) -> str:
    """Two digits that count, or a whole number."""
    return f"{float(f'{number:.2g}'):,.0f}" if number >= 100 else f"{number:.2g}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Every figure can be yours."""
    for one in fields(MeasuredFigures):
        parser.add_argument(f"--{one.name.replace('_', '-')}", type=float, default=one.default)


def run(args: argparse.Namespace) -> int:
    figures = MeasuredFigures(**{one.name: float(getattr(args, one.name)) for one in fields(MeasuredFigures)})
    print("\n\n".join("\n".join(size_table(figures, thing)) for thing in (PHOTO, SHAPE)))
    return 0
