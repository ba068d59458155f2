"""The figures of reports, as SVG and HTML that fetch nothing: charts, heat maps, traversals."""

import base64
import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import log

import numpy as np
from PIL import Image

from multifold.analysis.explanation import HeatMap, WordShares
from multifold.analysis.traversal import ROOT_LABEL, CaptionPath
from multifold.types import Pixels

LINE_COLOURS = [
    "#2563eb",
    "#d97706",
    "#059669",
    "#db2777",
    "#7c3aed",
    "#0891b2",
    "#65a30d",
    "#dc2626",
    "#64748b",
    "#92400e",
]
WIDTH, HEIGHT, LEFT, TOP = 440, 260, 44, 14
LEGEND = 230


def recall_chart(lines: Mapping[str, Mapping[int, float]]) -> str:
    """Shares over k, k on a logarithmic axis."""
    most = max((k for line in lines.values() for k in line), default=10)
    ticks = [k for k in (1, 2, 5, 10, 20, 50, 100) if k <= most]

    def across(k: int) -> float:
        return log(k) / log(most) if most > 1 else 0.0

    drawn = [([(across(k), share) for k, share in line.items()], name) for name, line in lines.items()]
    return line_chart(drawn, [(across(k), str(k)) for k in ticks])


def reliability_chart(lines: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Share of right hits over confidence, with the diagonal."""
    ticks = [(share / 4, f"{share / 4:.0%}") for share in range(5)]
    perfect = f'<path class="axis" d="M{_x(0.0):.1f} {_y(0.0):.1f}L{_x(1.0):.1f} {_y(1.0):.1f}"/>'
    return line_chart([(line, name) for name, line in lines.items()], ticks, perfect)


def line_chart(
    lines: Sequence[tuple[Sequence[tuple[float, float]], str]],
    ticks: Sequence[tuple[float, str]],
    behind: str = "",
) -> str:
    """Lines in the unit square; the vertical axis is in percent."""
    parts = [_axes(ticks), behind]
    for place, (points, name) in enumerate(lines):
        colour = LINE_COLOURS[place % len(LINE_COLOURS)]
        path = " ".join(f"{_x(x):.1f},{_y(y):.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{_x(x):.1f}" cy="{_y(y):.1f}" r="2.5" fill="{colour}"/>' for x, y in points]
        where = TOP + 12 + 18 * place
        parts.append(
            f'<rect x="{LEFT + WIDTH + 16}" y="{where - 8}" width="10" height="10" fill="{colour}"/>'
        )
        parts.append(f'<text x="{LEFT + WIDTH + 32}" y="{where + 1}">{escape(name)}</text>')
    height = max(TOP + HEIGHT + 24, TOP + 18 * len(lines) + 12)
    size = f'width="{LEFT + WIDTH + LEGEND}" height="{height}"'
    return f'<svg {size} role="img" xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'


def _axes(ticks: Sequence[tuple[float, str]]) -> str:
    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(f'<path class="axis" d="M{LEFT} {_y(share):.1f}h{WIDTH}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{_y(share) + 4:.1f}" text-anchor="end">{share:.0%}</text>')
    for x, name in ticks:
        parts.append(
            f'<text x="{_x(x):.1f}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{escape(name)}</text>'
        )
    return "".join(parts)


def _x(share: float) -> float:
    return LEFT + share * WIDTH


def _y(share: float) -> float:
    return TOP + (1 - share) * HEIGHT


@dataclass(frozen=True)
class DistanceHistogram:
    """Shares of one side's things in equal bins of their distance to the root."""

    edges: tuple[float, ...]
    shares: tuple[float, ...]
    mean: float
    deviation: float


HEAT_MAP_SIZE = 448  # pixels along a side of a picture with a heat map
SIDE_COLOURS = ("#2f6db3", "#c2562b", "#4d8a3d")


def traversal_strip(path: CaptionPath, picture: Image.Image | None, title: str) -> str:
    """A thing, and the captions on its way to the root."""
    face = "" if picture is None else f'<img src="{data_uri(picture)}" alt="">'
    width = "" if path.k is None else f", cones of width {path.k:g}"
    met = [(f"{one.position:.2f}", one.text) for one in path.met] + [("1.00", ROOT_LABEL)]
    lines = "".join(f"<li><i>{place}</i><span>{html.escape(text)}</span></li>" for place, text in met)
    said = html.escape(f"{title}{width}")
    return f'<div class="strip">{face}<div><b>{said}</b><ol>{lines}</ol></div></div>'


def distances_chart(sides: Mapping[str, DistanceHistogram], width: int = 640, height: int = 220) -> str:
    """Histograms of distances to the root, one colour a side."""
    top = max(max(one.shares) for one in sides.values()) or 1.0
    lines, labels = [], []
    for place, (side, one) in enumerate(sides.items()):
        colour, step = SIDE_COLOURS[place % len(SIDE_COLOURS)], width / len(one.shares)
        points = " ".join(
            f"{(i + 0.5) * step:.1f},{height - share / top * (height - 20):.1f}"
            for i, share in enumerate(one.shares)
        )
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        text = f"{side}: {one.mean:.3f} ± {one.deviation:.3f}"
        labels.append(f'<text x="8" y="{16 + 15 * place}" style="fill:{colour}">{html.escape(text)}</text>')
    far = next(iter(sides.values())).edges[-1]
    axis = f'<text x="0" y="{height + 14}">0</text><text x="{width - 30}" y="{height + 14}">{far:.2f}</text>'
    return f'<svg viewBox="0 0 {width} {height + 18}" role="img">{"".join(lines + labels)}{axis}</svg>'


def data_uri(picture: Image.Image) -> str:
    out = io.BytesIO()
    picture.save(out, "WEBP", quality=85)
    return f"data:image/webp;base64,{base64.b64encode(out.getvalue()).decode()}"


def heat_map_image(seen: Pixels, found: HeatMap) -> Image.Image:
    """The picture, darker where it is less important."""
    shares = found.grid.clip(min=0) / max(float(found.grid.max()), 1e-12)
    mask = Image.fromarray((255 * (0.2 + 0.8 * shares)).astype(np.uint8)).resize(
        (HEAT_MAP_SIZE, HEAT_MAP_SIZE), Image.Resampling.NEAREST
    )
    return Image.composite(
        Image.fromarray(seen).resize((HEAT_MAP_SIZE, HEAT_MAP_SIZE)),
        Image.new("RGB", (HEAT_MAP_SIZE, HEAT_MAP_SIZE)),
        mask,
    )


def heat_map_html(seen: Pixels, found: HeatMap) -> str:
    return f'<img src="{data_uri(heat_map_image(seen, found))}" alt="heat map by {found.method}">'


def words_html(found: WordShares) -> str:
    """Words as HTML, darker the more important they are."""
    most = max((share for _, share in found.words), default=0.0)
    shades = [max(share, 0.0) / most if most > 0 else 0.0 for _, share in found.words]
    words = zip(found.words, shades, strict=True)
    spans = (
        f'<span style="background:rgba(194,86,43,{shade:.2f})">{html.escape(word)}</span>'
        for (word, _), shade in words
    )
    return f"<p>{' '.join(spans)}</p>"
