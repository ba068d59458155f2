"""From what was measured to the sections of a report."""

from collections.abc import Mapping, Sequence
from typing import Any

from training.evaluate.charts import curves
from training.evaluate.page import Figure, Section, Table

HEAD = ("direction", "pool", "queries", "gallery", "R@1", "R@5", "R@10", "NDCG@5", "median rank")
TIES = (
    "R@k is the share of queries with a right answer among the first k. In brackets 95 % bootstrap intervals "
    "that draw items, not queries. Ties count against us. `each`: every observation is a candidate; `mean`, "
    "`max`, `hero`: items are, by the mean of their observations, their best one, or their first."
)
Measured = Mapping[str, Any]


def sections(measured: Measured) -> list[Section]:
    """All that there is to tell, in order."""
    told = [_retrieval(measured)]
    if any("categories" in one for _, _, one in _rows(measured)):
        told.append(_categories(measured))
    return [*told, _origin(measured)]


def _rows(measured: Measured) -> list[tuple[str, str, Measured]]:
    retrieval = measured.get("retrieval", {})
    return [(name, pool, one) for name, pools in retrieval.items() for pool, one in pools.items()]


def _retrieval(measured: Measured) -> Section:
    rows = [[_title(name), pool, *map(_shown, _numbers(one))] for name, pool, one in _rows(measured)]
    lines = {
        f"{_title(name)}, {pool}": {int(k): share for k, share in one["curve"].items()}
        for name, pool, one in _rows(measured)
        if pool in ("mean", "each")
    }
    drawn = Figure(curves(lines), "Share of queries with a right answer among the first k.")
    remarks = [f"Note: {difference}." for difference in measured["protocol"]["differences"]]
    about = f"Protocol {measured['protocol']['name']}. {measured['protocol']['about']}"
    return Section("Retrieval", [about, *remarks, Table(HEAD, rows), TIES, drawn])


def _categories(measured: Measured) -> Section:
    """The first direction alone; the JSON has them all."""
    name, pool, one = next(row for row in _rows(measured) if "categories" in row[2])
    rows = [[kind, *told.values()] for kind, told in one["categories"].items()]
    asked = f"{_title(name)}, {pool}; all categories are candidates. The JSON has the other directions."
    return Section("By category", [asked, Table(("category", "queries", "R@1", "R@5", "R@10"), rows)])


def _origin(measured: Measured) -> Section:
    rows = [[key, value] for part in ("encoder", "data") for key, value in measured[part].items()]
    return Section(
        "Where the numbers come from", [Table(("", ""), [*rows, ["command", measured["command"]]])]
    )


def _numbers(one: Measured) -> Sequence[object]:
    return [one[key] for key in ("queries", "gallery", "R@1", "R@5", "R@10", "NDCG@5", "median_rank")]


def _title(name: str) -> str:
    return name.replace("_to_", " → ").replace("_", "-")


def _shown(value: object) -> str:
    if isinstance(value, list):
        middle, low, high = value
        return f"{middle:.3f} [{low:.3f}, {high:.3f}]"
    return (
        f"{value:.3f}"
        if isinstance(value, float) and value < 1
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )
