"""A report as sections of text, tables and figures: Markdown without the figures, or HTML with all."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TypeAlias

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
        return "\n".join(
            "| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in lines
        )

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
    style, name = STYLESHEET.read_text(encoding="utf-8"), escape(title)
    return PAGE_TEMPLATE.format(title=name, style=style, body=body)


def _part(part: ReportPart) -> str:
    if isinstance(part, str):
        return "<p>" + CODE_SPAN.sub(r"<code>\1</code>", escape(part)) + "</p>"
    if isinstance(part, ReportTable):
        return part.html()
    caption = f"<figcaption>{escape(part.caption)}</figcaption>" if part.caption else ""
    return f"<figure>{part.html}{caption}</figure>"
