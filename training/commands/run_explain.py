"""The work of `multifold explain`."""

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

from multifold.errors import MultifoldError
from training.evaluate import figures
from training.evaluate.explanation import explain_pair
from training.evaluate.report import ReportFigure, ReportSection, report_html
from training.evaluate.surface_shares import explain_mesh


def run(args: argparse.Namespace) -> int:
    return explain_picture(args) if args.mesh is None else explain_surface(args)


def explain_picture(args: argparse.Namespace) -> int:
    found = explain_pair(args.bundle, args.image, args.text, args.method, args.token)
    heat, words = found.heat, found.words
    print(f"picture by {heat.method}, words by {words.method}:")
    for word, share in words.words:
        print(f"  {share:+.4f}  {word}")
    shares = {
        "picture": {"method": heat.method, "grid": heat.grid.tolist()},
        "words": {"method": words.method, "shares": [*words.words]},
    }
    pictures = [ReportFigure(figures.heat_map_html(found.picture, heat), f"by {heat.method}")]
    texts = [ReportFigure(figures.words_html(words), f"by {words.method}")]
    _write(args, shares, [ReportSection("Picture", pictures), ReportSection("Words", texts)])
    return 0


def explain_surface(args: argparse.Namespace) -> int:
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


def _write(args: argparse.Namespace, shares: Mapping[str, Any], sections: Sequence[ReportSection]) -> None:
    if args.json is not None:
        args.json.write_text(json.dumps(shares, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if args.html is not None:
        args.html.write_text(report_html("Why they match", sections), encoding="utf-8")
