"""Small SVG charts, drawn without a library: a report is one file that fetches nothing."""

from collections.abc import Mapping, Sequence
from html import escape
from math import log

COLOURS = (
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
)
WIDTH, HEIGHT, LEFT, TOP = 440, 260, 44, 14
LEGEND = 230


def curves(lines: Mapping[str, Mapping[int, float]]) -> str:
    """Shares over k, k on a logarithmic axis."""
    most = max((k for line in lines.values() for k in line), default=10)
    ticks = [k for k in (1, 2, 5, 10, 20, 50, 100) if k <= most]

    def across(k: int) -> float:
        return log(k) / log(most) if most > 1 else 0.0

    drawn = [([(across(k), share) for k, share in line.items()], name) for name, line in lines.items()]
    return chart(drawn, [(across(k), str(k)) for k in ticks])


def diagram(lines: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Shares over confidence, and where they would be the same."""
    ticks = [(share / 4, f"{share / 4:.0%}") for share in range(5)]
    perfect = f'<path class="axis" d="M{_x(0.0):.1f} {_y(0.0):.1f}L{_x(1.0):.1f} {_y(1.0):.1f}"/>'
    return chart([(line, name) for name, line in lines.items()], ticks, perfect)


def chart(
    lines: Sequence[tuple[Sequence[tuple[float, float]], str]],
    ticks: Sequence[tuple[float, str]],
    behind: str = "",
) -> str:
    """Lines in the unit square; the vertical axis is in percent."""
    parts = [_axes(ticks), behind]
    for place, (points, name) in enumerate(lines):
        colour = COLOURS[place % len(COLOURS)]
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
