"""The figures of reports, as SVG and HTML that fetch nothing: charts, heat maps, traversals."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import log

import numpy as np
from jaxtyping import Float
from PIL import Image

from multifold.analysis.explanation import HeatMap, WordShares
from multifold.analysis.traversal import ROOT_LABEL, CaptionPath
from multifold.types import Pixels

WIDTH, HEIGHT, LEFT, TOP = 440, 260, 44, 14
LEGEND = 230


def recall_chart(lines: Mapping[str, Mapping[int, float]]) -> str:
    """Shares over k, k on a logarithmic axis."""
    most = max((k for line in lines.values() for k in line), default=10)
    ticks = [k for k in (1, 2, 5, 10, 20, 50, 100) if k <= most]

    def across(k: int) -> float:
        return log(k) / log(most) if most > 1 else 0.0

    curves = [([(across(k), share) for k, share in line.items()], name) for name, line in lines.items()]
    return line_chart(curves, [(across(k), str(k)) for k in ticks])


def line_chart(
    lines: Sequence[tuple[Sequence[tuple[float, float]], str]], ticks: Sequence[tuple[float, str]]
) -> str:
    """Lines in the unit square; the vertical axis is in percent."""
    parts = list[str]()
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(f'<path class="axis" d="M{LEFT} {_y(share):.1f}h{WIDTH}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{_y(share) + 4:.1f}" text-anchor="end">{share:.0%}</text>')
    low = TOP + HEIGHT + 16
    for x, name in ticks:
        parts.append(f'<text x="{_x(x):.1f}" y="{low}" text-anchor="middle">{escape(name)}</text>')
    for place, (points, name) in enumerate(lines):
        colour = f"hsl({place * 137 % 360},65%,45%)"  # hues far apart, however many
        path = " ".join(f"{_x(x):.1f},{_y(y):.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{_x(x):.1f}" cy="{_y(y):.1f}" r="2.5" fill="{colour}"/>' for x, y in points]
        left, top = LEFT + WIDTH + 16, TOP + 12 + 18 * place
        parts.append(f'<rect x="{left}" y="{top - 8}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{left + 16}" y="{top + 1}">{escape(name)}</text>')
    height = max(TOP + HEIGHT + 24, TOP + 18 * len(lines) + 12)
    size = f'width="{LEFT + WIDTH + LEGEND}" height="{height}"'
    return f'<svg {size} role="img">{"".join(parts)}</svg>'


def _x(share: float) -> float:
    return LEFT + share * WIDTH


def _y(share: float) -> float:
    return TOP + (1 - share) * HEIGHT


@dataclass(frozen=True)
class ShareHistogram:
    """Shares of some numbers in equal bins, with their mean and deviation."""

    edges: Sequence[float]
    shares: Sequence[float]
    mean: float
    deviation: float


BINS = 40


def share_histograms(
    named: Mapping[str, Float[np.ndarray, " _"]], low: float, bins: int = BINS
) -> dict[str, ShareHistogram]:
    """Histograms from `low` to the largest number, in bins that all share."""
    most = max(float(values.max()) for values in named.values())
    charts = {}
    for name, values in named.items():
        counts, edges = np.histogram(values, bins, (low, most))
        shares = (counts / counts.sum()).tolist()
        charts[name] = ShareHistogram(edges.tolist(), shares, float(values.mean()), float(values.std()))
    return charts


HEAT_MAP_SIZE = 448  # pixels along a side of a picture with a heat map


def traversal_strip(path: CaptionPath, picture: Image.Image | None, title: str) -> str:
    """A thing, and the captions on its way to the root."""
    face = "" if picture is None else f'<img src="{data_uri(picture)}" alt="">'
    width = "" if path.k is None else f", cones of width {path.k:g}"
    met = [(f"{one.position:.2f}", one.text) for one in path.met] + [("1.00", ROOT_LABEL)]
    lines = "".join(f"<li><i>{place}</i><span>{escape(text)}</span></li>" for place, text in met)
    heading = escape(f"{title}{width}")
    return f'<div class="strip">{face}<div><b>{heading}</b><ol>{lines}</ol></div></div>'


def histogram_chart(named: Mapping[str, ShareHistogram]) -> str:
    """Shares over the numbers, a line for each histogram."""
    edges = next(iter(named.values())).edges
    width = edges[-1] - edges[0]
    lines = []
    for name, one in named.items():
        points = [((i + 0.5) / len(one.shares), share) for i, share in enumerate(one.shares)]
        lines.append((points, f"{name}: {one.mean:.3f} ± {one.deviation:.3f}"))
    return line_chart(lines, [(place / 4, f"{edges[0] + width * place / 4:.2f}") for place in range(5)])


def counts_chart(groups: Mapping[str, Sequence[int]]) -> str:
    """Shares of things over whole numbers, a line a group."""
    most = max(max(counts, default=0) for counts in groups.values()) or 1
    lines = []
    for name, counts in groups.items():
        found = np.bincount(counts, minlength=most + 1) / max(len(counts), 1)
        points = [(count / most, share) for count, share in enumerate(found.tolist())]
        lines.append((points, f"{name}: {sum(counts) / max(len(counts), 1):.3g}"))
    step = -(-most // 10)
    return line_chart(lines, [(count / most, str(count)) for count in range(0, most + 1, step)])


def data_uri(picture: Image.Image) -> str:
    out = io.BytesIO()
    picture.save(out, "WEBP", quality=85)
    return f"data:image/webp;base64,{base64.b64encode(out.getvalue()).decode()}"


def heat_map_html(seen: Pixels, heat: HeatMap) -> str:
    """The picture, darker where it is less important."""
    size = (HEAT_MAP_SIZE, HEAT_MAP_SIZE)
    shares = heat.grid.clip(min=0) / max(float(heat.grid.max()), 1e-12)
    cells = Image.fromarray((255 * (0.2 + 0.8 * shares)).astype(np.uint8))
    mask = cells.resize(size, Image.Resampling.NEAREST)
    picture = Image.composite(Image.fromarray(seen).resize(size), Image.new("RGB", size), mask)
    return f'<img src="{data_uri(picture)}" alt="heat map by {heat.method}">'


def words_html(explained: WordShares) -> str:
    """Words as HTML, darker the more important they are."""
    most = max((share for _, share in explained.words), default=0.0)
    spans = []
    for word, share in explained.words:
        shade = max(share, 0.0) / most if most > 0 else 0.0
        spans.append(f'<span style="background:rgba(194,86,43,{shade:.2f})">{escape(word)}</span>')
    return f"<p>{' '.join(spans)}</p>"
