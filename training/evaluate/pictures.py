"""What evaluation shows, as pieces of HTML that bring their pictures along, and as pictures."""

import base64
import html
import io
from collections.abc import Mapping

import numpy as np
from PIL import Image

from multifold.explanation import HeatMap, Words
from multifold.traversal import ROOT, Path
from multifold.types import Pixels
from training.evaluate.traversal import Histogram

SHOWN = 448  # pixels along a side of a picture with a heat map
COLOURS = ("#2f6db3", "#c2562b", "#4d8a3d")


def strip(path: Path, picture: Image.Image | None, title: str) -> str:
    """A thing, and what is met on its way to the root."""
    face = "" if picture is None else f'<img src="{data_uri(picture)}" alt="">'
    width = "" if path.k is None else f", cones of width {path.k:g}"
    met = [(f"{one.position:.2f}", one.text) for one in path.met] + [("1.00", ROOT)]
    lines = "".join(f"<li><i>{place}</i><span>{html.escape(text)}</span></li>" for place, text in met)
    said = html.escape(f"{title}{width}")
    return f'<div class="strip">{face}<div><b>{said}</b><ol>{lines}</ol></div></div>'


def distances_chart(sides: Mapping[str, Histogram], width: int = 640, height: int = 220) -> str:
    """Histograms of distances to the root, one colour a side."""
    top = max(max(one.shares) for one in sides.values()) or 1.0
    lines, labels = [], []
    for place, (side, one) in enumerate(sides.items()):
        colour, step = COLOURS[place % len(COLOURS)], width / len(one.shares)
        points = " ".join(
            f"{(i + 0.5) * step:.1f},{height - share / top * (height - 20):.1f}"
            for i, share in enumerate(one.shares)
        )
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        told = f"{side}: {one.mean:.3f} ± {one.deviation:.3f}"
        labels.append(f'<text x="8" y="{16 + 15 * place}" style="fill:{colour}">{html.escape(told)}</text>')
    far = next(iter(sides.values())).edges[-1]
    axis = f'<text x="0" y="{height + 14}">0</text><text x="{width - 30}" y="{height + 14}">{far:.2f}</text>'
    return f'<svg viewBox="0 0 {width} {height + 18}" role="img">{"".join(lines + labels)}{axis}</svg>'


def data_uri(picture: Image.Image) -> str:
    """A picture as an address that holds it."""
    out = io.BytesIO()
    picture.save(out, "WEBP", quality=85)
    return f"data:image/webp;base64,{base64.b64encode(out.getvalue()).decode()}"


def lit(seen: Pixels, found: HeatMap) -> Image.Image:
    """The picture, dimmed where it does not matter."""
    shares = found.grid.clip(min=0) / max(float(found.grid.max()), 1e-12)
    mask = Image.fromarray((255 * (0.2 + 0.8 * shares)).astype(np.uint8)).resize(
        (SHOWN, SHOWN), Image.Resampling.NEAREST
    )
    return Image.composite(
        Image.fromarray(seen).resize((SHOWN, SHOWN)), Image.new("RGB", (SHOWN, SHOWN)), mask
    )


def heat(seen: Pixels, found: HeatMap) -> str:
    """A heat map as a piece of HTML."""
    return f'<img src="{data_uri(lit(seen, found))}" alt="heat map by {found.method}">'


def words(found: Words) -> str:
    """Words, the darker the more they matter, as a piece of HTML."""
    most = max((share for _, share in found.words), default=0.0)
    shades = [max(share, 0.0) / most if most > 0 else 0.0 for _, share in found.words]
    told = zip(found.words, shades, strict=True)
    spans = (
        f'<span style="background:rgba(194,86,43,{shade:.2f})">{html.escape(word)}</span>'
        for (word, _), shade in told
    )
    return f"<p>{' '.join(spans)}</p>"
