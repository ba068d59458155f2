"""A report as sections of text, tables and figures: Markdown without the figures, or HTML with all."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

from training.evaluate.figures import ShareHistogram, histogram_chart, recall_chart
from training.retrieval.directions import BY_CHANCE, CHANCE, tells_nothing

PAGE_TEMPLATE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>{style}</style></head>
<body><main><h1>{title}</h1>{body}</main></body></html>
"""
CODE_SPAN = re.compile("`([^`]+)`")
STYLESHEET = Path(__file__).with_name("report.css")


@dataclass(frozen=True)
class ReportTable:
    head: Sequence[str]
    rows: Sequence[Sequence[object]]

    def markdown(self) -> str:
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        rows = (" | ".join(str(cell).replace("|", "\\|") for cell in row) for row in lines)
        return "\n".join(f"| {row} |" for row in rows)

    def html(self) -> str:
        head = "".join(f"<th>{escape(cell)}</th>" for cell in self.head)
        rows = ["".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in self.rows]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


@dataclass(frozen=True)
class ReportFigure:
    """HTML or SVG of our own making, shown in the HTML report only."""

    html: str
    caption: str = ""


Measured: TypeAlias = Mapping[str, Any]
ReportPart: TypeAlias = str | ReportTable | ReportFigure


@dataclass(frozen=True)
class ReportSection:
    """A heading and its content."""

    title: str
    parts: Sequence[ReportPart]


def report_markdown(title: str, sections: Sequence[ReportSection]) -> str:
    """All sections but those of figures alone, without their figures."""
    paragraphs = [f"# {title}"]
    for section in sections:
        if parts := [part for part in section.parts if not isinstance(part, ReportFigure)]:
            texts = [part if isinstance(part, str) else part.markdown() for part in parts]
            paragraphs += [f"## {section.title}", *texts]
    return "\n\n".join(paragraphs) + "\n"


def report_html(title: str, sections: Sequence[ReportSection]) -> str:
    """The report as one self-contained file."""
    body = "".join(
        f"<section><h2>{escape(section.title)}</h2>{''.join(map(_part, section.parts))}</section>"
        for section in sections
    )
    style = STYLESHEET.read_text(encoding="utf-8")
    name = escape(title)
    return PAGE_TEMPLATE.format(title=name, style=style, body=body)


def page_section(page: str, title: str) -> str | None:
    """What a page of ours shows below a heading, if it has it."""
    _, found, after = page.partition(f"<section><h2>{escape(title)}</h2>")
    return after.partition("</section>")[0] if found else None


def _part(part: ReportPart) -> str:
    if isinstance(part, str):
        return "<p>" + CODE_SPAN.sub(r"<code>\1</code>", escape(part)) + "</p>"
    if isinstance(part, ReportTable):
        return part.html()
    caption = f"<figcaption>{escape(part.caption)}</figcaption>" if part.caption else ""
    return f"<figure>{part.html}{caption}</figure>"


RETRIEVAL_KEYS = ("queries", "gallery", "R@1", "R@5", "R@10", CHANCE, "NDCG@5", "median_rank")
RETRIEVAL_HEAD = ("direction", "pool", *(key.replace("_", " ") for key in RETRIEVAL_KEYS))
RETRIEVAL_NOTE = (
    "R@k is the share of queries with a right answer among the first k. In brackets 95 % bootstrap intervals "
    "that draw items, not queries. Ties count against us. `each`: every observation is a candidate; `mean`, "
    "`max`, `hero`: items are, by the mean of their observations, their best one, or their first."
)
SIMILARITIES_NOTE = "Scores of a search, without the learned scale: mean ± deviation over all pairs."
CLASSES_NOTE = (
    "Zero-shot: the class whose prompts are nearest, averaged as the geometry's paper does. Linear probe: "
    "what a linear classifier reads from frozen features, after the projection and (checkpoints) before it."
)


def report_sections(measured: Measured, pictures: Sequence[ReportSection] = ()) -> list[ReportSection]:
    """All sections in order, with those that others made of pictures."""
    sections = [_retrieval(measured)]
    if any("categories" in one for _, _, one in _rows(measured)):
        sections.append(_categories(measured))
    if measured.get("classes"):
        sections.append(_classes(measured))
    if measured.get("similarities"):
        sections.append(_similarities(measured))
    if "random features" in measured:
        sections.append(_draws(measured["random features"]))
    origin = [[key, value] for part in ("encoder", "data") for key, value in measured[part].items()]
    table = ReportTable(("", ""), [*origin, ["command", measured["command"]]])
    return [*sections, *pictures, ReportSection("Where the numbers come from", [table])]


def _rows(measured: Measured) -> list[tuple[str, str, Measured]]:
    retrieval = measured.get("retrieval", {})
    return [(name, pool, one) for name, pools in retrieval.items() for pool, one in pools.items()]


def _retrieval(measured: Measured) -> ReportSection:
    rows = []
    lines = {}
    for name, pool, one in _rows(measured):
        rows.append([_title(name), pool, *(_shown(one[key]) for key in RETRIEVAL_KEYS)])
        if pool in ("mean", "each"):
            lines[f"{_title(name)}, {pool}"] = {int(k): share for k, share in one["curve"].items()}
    figure = ReportFigure(recall_chart(lines), "Share of queries with a right answer among the first k.")
    remarks = [f"Note: {difference}." for difference in measured["protocol"]["differences"]]
    if rows and all(tells_nothing(one) for _, _, one in _rows(measured)):
        remarks.append(BY_CHANCE)
    about = f"Protocol {measured['protocol']['name']}. {measured['protocol']['about']}"
    table = ReportTable(RETRIEVAL_HEAD, rows)
    return ReportSection("Retrieval", [about, *remarks, table, RETRIEVAL_NOTE, figure])


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


def _classes(measured: Measured) -> ReportSection:
    head = ("", "classes", "items", "accuracy", "top 5", "mean over classes")
    rows = [
        [name, *(_shown(one[key]) for key in ("classes", "items", "accuracy", "top5", "per_class"))]
        for name, one in measured["classes"].items()
    ]
    return ReportSection("Classification", [CLASSES_NOTE, ReportTable(head, rows)])


def mean_section(
    measured: Mapping[str, Mapping[str, Mapping[str, Any]]], means: Mapping[str, Mapping[str, float]]
) -> ReportSection:
    """Several manifests beside each other, and their mean."""
    head = ["manifest", *(f"{kind}, {name}" for kind in means for name in ("accuracy", "mean over classes"))]
    shown = [
        [manifest, *(_shown(one[kind][key]) for kind in means for key in ("accuracy", "per_class"))]
        for manifest, one in measured.items()
    ]
    mean = ["mean", *(_shown(means[kind][key]) for kind in means for key in ("accuracy", "per_class"))]
    return ReportSection("Manifests", [ReportTable(head, [*shown, mean])])


def _similarities(measured: Measured) -> ReportSection:
    rows, parts = [], []
    for name, pairs in measured["similarities"].items():
        found = {side: ShareHistogram(**one) for side, one in pairs.items()}
        spread = [f"{one.mean:.3f} ± {one.deviation:.3f}" for one in found.values()]
        rows.append([_title(name), *spread])
        parts.append(
            ReportFigure(histogram_chart(found), f"Share of pairs over their score, {_title(name)}.")
        )
    table = ReportTable(("direction", "score of right pairs", "of wrong pairs"), rows)
    return ReportSection("Similarities", [SIMILARITIES_NOTE, table, *parts])


def _draws(measured: Measured) -> ReportSection:
    rows = []
    for name, measures in measured["measures"].items():
        for measure, (mean, deviation) in measures.items():
            rows.append([_title(name), measure, f"{mean:.3f} ± {deviation:.3f}"])
    about = f"{measured['draws']} draws of {measured['frequencies']} random features: mean ± deviation."
    return ReportSection("Random features", [about, ReportTable(("direction", "measure", ""), rows)])
