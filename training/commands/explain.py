"""Say which parts of a picture and which words made them match.

    multifold explain bundles/furniture --image photo.jpg --text "a red chair" --html why.html --json why.json

The method is the best that the bundle knows, unless --method names one: points, grad-cam or occlusion.
"""

import argparse
import json
from pathlib import Path
from typing import get_args

from multifold.types import ExplanationMethod

METHODS = get_args(ExplanationMethod)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--image", type=Path, required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--method", choices=METHODS)
    parser.add_argument("--token", type=int, help="of several tokens, explain this pair alone")
    parser.add_argument("--json", type=Path, help="write the shares here")
    parser.add_argument("--html", type=Path, help="write a page that shows them here")


def run(args: argparse.Namespace) -> int:
    from multifold.analysis.explanation import Explainer, isolate_part
    from multifold.bundle.canary import open_encoder
    from multifold.bundle.preprocess import decode, pixels
    from training.evaluate import figures
    from training.evaluate.explanation import matching_pairs
    from training.evaluate.report import ReportFigure, ReportSection, report_html

    encoder = open_encoder(args.bundle)
    picture = pixels(decode(args.image.read_bytes()), encoder.bundle.image)
    (match,) = matching_pairs(encoder, [picture], [args.text])
    vectors = [match.text_vector, match.picture_vector]
    if args.token is not None:
        vectors = [isolate_part(vector, args.token, encoder.bundle.geometry.tokens) for vector in vectors]
    explainer = Explainer(encoder)
    heat = explainer.picture(picture, vectors[0], args.method)
    words = explainer.text(args.text, vectors[1], args.method)
    print(f"picture by {heat.method}, words by {words.method}:")
    for word, share in words.words:
        print(f"  {share:+.4f}  {word}")
    if args.json is not None:
        shares = {
            "picture": {"method": heat.method, "grid": heat.grid.tolist()},
            "words": {"method": words.method, "shares": [*words.words]},
        }
        args.json.write_text(json.dumps(shares, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if args.html is not None:
        pictures = [ReportFigure(figures.heat_map_html(picture, heat), f"by {heat.method}")]
        texts = [ReportFigure(figures.words_html(words), f"by {words.method}")]
        sections = [ReportSection("Picture", pictures), ReportSection("Words", texts)]
        args.html.write_text(report_html("Why they match", sections), encoding="utf-8")
    return 0
