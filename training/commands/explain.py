"""Say which parts of a picture and which words made them match, or which parts of a mesh match a text.

    multifold explain bundles/furniture --image photo.jpg --text "a red chair" --html why.html --json why.json
    multifold explain bundles/points --mesh chair.glb --text "a red chair" --html why.html

The method is the best that the bundle knows, unless --method names one: points, grad-cam or occlusion. A
mesh is explained by a bundle or a checkpoint with a point tower: how much the score falls when the points of
a region are left out.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from multifold.errors import MultifoldError
from multifold.types import ExplanationMethod

if TYPE_CHECKING:
    from training.evaluate.report import ReportSection

METHODS = get_args(ExplanationMethod)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", type=Path, help="with --mesh also a checkpoint")
    explained = parser.add_mutually_exclusive_group(required=True)
    explained.add_argument("--image", type=Path)
    explained.add_argument("--mesh", type=Path)
    parser.add_argument("--text", required=True)
    parser.add_argument("--method", choices=METHODS)
    parser.add_argument("--token", type=int, help="of several tokens, explain this pair alone")
    parser.add_argument("--json", type=Path, help="write the shares here")
    parser.add_argument("--html", type=Path, help="write a page that shows them here")


def run(args: argparse.Namespace) -> int:
    return _explain_picture(args) if args.mesh is None else _explain_mesh(args)


def _explain_picture(args: argparse.Namespace) -> int:
    from multifold.analysis.explanation import Explainer, isolate_part
    from multifold.bundle.canary import open_encoder
    from multifold.bundle.preprocess import decode, pixels
    from training.evaluate import figures
    from training.evaluate.explanation import matching_pairs
    from training.evaluate.report import ReportFigure, ReportSection

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
    shares = {
        "picture": {"method": heat.method, "grid": heat.grid.tolist()},
        "words": {"method": words.method, "shares": [*words.words]},
    }
    pictures = [ReportFigure(figures.heat_map_html(picture, heat), f"by {heat.method}")]
    texts = [ReportFigure(figures.words_html(words), f"by {words.method}")]
    _write(args, shares, [ReportSection("Picture", pictures), ReportSection("Words", texts)])
    return 0


def _explain_mesh(args: argparse.Namespace) -> int:
    from training.evaluate import figures
    from training.evaluate.report import ReportFigure, ReportSection
    from training.evaluate.surface_shares import explain_mesh

    if args.token is not None or args.method not in (None, "occlusion"):
        raise MultifoldError(
            "a mesh is explained by occlusion, and as a whole: leave --method and --token out"
        )
    found = explain_mesh(args.bundle, args.mesh, args.text)
    regions = sorted(
        zip(found.surface.shares.tolist(), found.surface.middles.tolist(), strict=True), reverse=True
    )
    print(f"mesh by occlusion, {len(regions)} regions:")
    for share, middle in regions:
        print(f"  {share:+.4f}  around {', '.join(f'{one:+.2f}' for one in middle)}")
    shares = {
        "mesh": {
            "method": "occlusion",
            "regions": [{"share": share, "middle": middle} for share, middle in regions],
            "grids": [heat.grid.tolist() for heat in found.maps],
        }
    }
    views = [
        ReportFigure(figures.heat_map_html(view, heat), f"view {number}")
        for number, (view, heat) in enumerate(zip(found.views, found.maps, strict=True))
    ]
    _write(args, shares, [ReportSection("Mesh", views)])
    return 0


def _write(args: argparse.Namespace, shares: Mapping[str, Any], sections: "Sequence[ReportSection]") -> None:
    from training.evaluate.report import report_html

    if args.json is not None:
        args.json.write_text(json.dumps(shares, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if args.html is not None:
        args.html.write_text(report_html("Why they match", sections), encoding="utf-8")
