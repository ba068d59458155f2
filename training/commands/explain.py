"""Say which parts of a picture and which words made them match.

    multifold explain bundles/furniture --image photo.jpg --text "a red chair" --html why.html --json why.json

The method is the best that the bundle knows, unless --method names one: points, grad-cam or occlusion.
"""

import argparse
import json
from html import escape
from pathlib import Path

import numpy as np
from PIL import Image

from multifold.canary import open_encoder
from multifold.explanation import METHODS, Explainer, HeatMap, Words
from multifold.preprocess import decode, pixels
from multifold.types import Pixels
from training.evaluate import page, pictures
from training.evaluate.explanation import matches

SHOWN = 448  # pixels along a side of the picture in the page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--image", type=Path, required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--method", choices=METHODS)
    parser.add_argument("--json", type=Path, help="write the shares here")
    parser.add_argument("--html", type=Path, help="write a page that shows them here")


def run(args: argparse.Namespace) -> int:
    """Explain one pair, print its words, write what is asked for."""
    encoder = open_encoder(args.bundle)
    seen = pixels(decode(args.image.read_bytes()), encoder.bundle.image)
    (match,) = matches(encoder, [seen], [args.text])
    explainer = Explainer(encoder)
    heat = explainer.picture(seen, match.text_vector, args.method)
    words = explainer.text(args.text, match.seen_vector, args.method)
    print(f"picture by {heat.method}, words by {words.method}:")
    for word, share in words.words:
        print(f"  {share:+.4f}  {word}")
    if args.json is not None:
        told = {
            "picture": {"method": heat.method, "grid": heat.grid.tolist()},
            "words": {"method": words.method, "shares": [*words.words]},
        }
        args.json.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if args.html is not None:
        args.html.write_text(page.html("Why they match", shown(seen, heat, words)), encoding="utf-8")
    return 0


def lit(seen: Pixels, heat: HeatMap) -> Image.Image:
    """The picture, dimmed where it does not matter."""
    shares = heat.grid.clip(min=0) / max(float(heat.grid.max()), 1e-12)
    mask = Image.fromarray((255 * (0.2 + 0.8 * shares)).astype(np.uint8)).resize(
        (SHOWN, SHOWN), Image.Resampling.NEAREST
    )
    return Image.composite(
        Image.fromarray(seen).resize((SHOWN, SHOWN)), Image.new("RGB", (SHOWN, SHOWN)), mask
    )


def shown(seen: Pixels, heat: HeatMap, words: Words) -> list[page.Section]:
    """The picture and the words, as sections of a page."""
    picture = f'<img src="{pictures.data_uri(lit(seen, heat))}" alt="heat map by {heat.method}">'
    return [
        page.Section("Picture", [page.Figure(picture, f"by {heat.method}")]),
        page.Section("Words", [page.Figure(shaded(words), f"by {words.method}")]),
    ]


def shaded(words: Words) -> str:
    """Words, the darker the more they matter, as a piece of HTML."""
    most = max((share for _, share in words.words), default=0.0)
    shades = [max(share, 0.0) / most if most > 0 else 0.0 for _, share in words.words]
    told = zip(words.words, shades, strict=True)
    spans = (
        f'<span style="background:rgba(194,86,43,{shade:.2f})">{escape(word)}</span>'
        for (word, _), shade in told
    )
    return f"<p>{' '.join(spans)}</p>"
