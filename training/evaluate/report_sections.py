"""From the measured numbers to the sections of a report."""

from collections.abc import Mapping, Sequence
from typing import Any

from training.evaluate.figures import recall_chart, reliability_chart
from training.evaluate.report import ReportFigure, ReportSection, ReportTable

RETRIEVAL_HEAD = ("direction", "pool", "queries", "gallery", "R@1", "R@5", "R@10", "NDCG@5", "median rank")
RETRIEVAL_KEYS = (*RETRIEVAL_HEAD[2:-1], "median_rank")
RETRIEVAL_NOTE = (
    "R@k is the share of queries with a right answer among the first k. In brackets 95 % bootstrap intervals "
    "that draw items, not queries. Ties count against us. `each`: every observation is a candidate; `mean`, "
    "`max`, `hero`: items are, by the mean of their observations, their best one, or their first."
)
CONFIDENCE_NOTE = (
    "Confidence is the probability of a match. ECE: how far it is from the share that is right. False "
    "accepts: the share of queries that still find something at that confidence when every right item is "
    "taken away. All of it by curves that were fitted on the queries of other items."
)
CLASSES_NOTE = (
    "Zero-shot: the class whose prompts are nearest, averaged as the geometry's paper does. Linear probe: "
    "what a linear classifier reads from frozen features, after the projection and before it."
)
SHOWN_THRESHOLDS = (0.1, 0.3, 0.5)
LEAST_HITS = 20  # hits for a point of the diagram
Measured = Mapping[str, Any]


def report_sections(measured: Measured, further: Sequence[ReportSection] = ()) -> list[ReportSection]:
    """All sections in order; `further` are sections of others: pictures, an ablation."""
    sections = [_retrieval(measured)]
    if any("categories" in one for _, _, one in _rows(measured)):
        sections.append(_categories(measured))
    if measured.get("classes"):
        sections.append(_classes(measured))
    if measured.get("calibration"):
        sections.append(_calibration(measured))
    origin = [[key, value] for part in ("encoder", "data") for key, value in measured[part].items()]
    table = ReportTable(("", ""), [*origin, ["command", measured["command"]]])
    return [*sections, *further, ReportSection("Where the numbers come from", [table])]


def _rows(measured: Measured) -> list[tuple[str, str, Measured]]:
    retrieval = measured.get("retrieval", {})
    return [(name, pool, one) for name, pools in retrieval.items() for pool, one in pools.items()]


def _retrieval(measured: Measured) -> ReportSection:
    rows = [
        [_title(name), pool, *(_shown(one[key]) for key in RETRIEVAL_KEYS)]
        for name, pool, one in _rows(measured)
    ]
    lines = {
        f"{_title(name)}, {pool}": {int(k): share for k, share in one["curve"].items()}
        for name, pool, one in _rows(measured)
        if pool in ("mean", "each")
    }
    drawn = ReportFigure(recall_chart(lines), "Share of queries with a right answer among the first k.")
    remarks = [f"Note: {difference}." for difference in measured["protocol"]["differences"]]
    about = f"Protocol {measured['protocol']['name']}. {measured['protocol']['about']}"
    return ReportSection(
        "Retrieval", [about, *remarks, ReportTable(RETRIEVAL_HEAD, rows), RETRIEVAL_NOTE, drawn]
    )


def _categories(measured: Measured) -> ReportSection:
    """The first direction alone; the JSON has them all."""
    name, pool, one = next(row for row in _rows(measured) if "categories" in row[2])
    rows = [[category, *map(_shown, recalls.values())] for category, recalls in one["categories"].items()]
    about = f"{_title(name)}, {pool}; all categories are candidates. The JSON has the other directions."
    table = ReportTable(("category", "queries", "R@1", "R@5", "R@10"), rows)
    return ReportSection("By category", [about, table])


def _title(name: str) -> str:
    return name.replace("_to_", " → ").replace("_", "-")


def _shown(value: object) -> str:
    if isinstance(value, list):
        middle, low, high = value
        return f"{middle:.3f} [{low:.3f}, {high:.3f}]"
    if isinstance(value, float):
        return f"{value:.3f}" if value < 1 else f"{value:g}"
    return str(value)


def _calibration(measured: Measured) -> ReportSection:
    """Every pair in a table; diagrams of the pooled means."""
    curves = {pair: one for pair, one in measured["calibration"].items() if "none" not in one}
    rows = []
    for pair, one in curves.items():
        rows.append([pair, one["queries"], f"{one['shown']['ece']:.3f}", f"{one['first']['ece']:.3f}"])
        for row in one["thresholds"]:
            if row["confidence"] in SHOWN_THRESHOLDS:
                middle, low, high = row["counted"]
                rows[-1] += [f"{row['promised']:.1%}", f"{middle:.1%} [{low:.1%}, {high:.1%}]"]
    head = ["pair", "queries", "ECE, first ten", "ECE, first"]
    for threshold in SHOWN_THRESHOLDS:
        head += [f"false accepts at {threshold:.0%}: promised", "counted"]
    lines = {
        pair: [(sure, right) for sure, right, hits in one["shown"]["bins"] if hits >= LEAST_HITS]
        for pair, one in curves.items()
        if pair.endswith("/mean")
    }
    figure = ReportFigure(
        reliability_chart(lines),
        "Share that is right over confidence, the ten first hits of every query, where there are at least "
        f"{LEAST_HITS} hits of such a confidence. Grey: perfect.",
    )
    none = [f"{pair}: {one['none']}." for pair, one in measured["calibration"].items() if "none" in one]
    return ReportSection("Confidence", [CONFIDENCE_NOTE, ReportTable(head, rows), *none, figure])


def _classes(measured: Measured) -> ReportSection:
    head = ("", "classes", "items", "accuracy", "top 5", "mean over classes")
    rows = [
        [name, *(_shown(one[key]) for key in ("classes", "items", "accuracy", "top5", "per_class"))]
        for name, one in measured["classes"].items()
    ]
    return ReportSection("Classification", [CLASSES_NOTE, ReportTable(head, rows)])
