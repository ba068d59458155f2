"""The work of `multifold feedback`."""

import argparse
from datetime import UTC, datetime

from app.feedback.export import MANIFEST_FILE, export_feedback, open_store
from app.settings import read_settings
from index.store.feedback import FeedbackQueryPart, Judgement, every_judgement
from multifold.errors import MultifoldError


def run(args: argparse.Namespace) -> int:
    settings = read_settings({"data": args.data, "config": args.config})
    if args.action == "list":
        with open_store(settings, args.collection) as (store, _), store.moment() as now:
            for judgement in every_judgement(now):
                print(format_judgement(judgement))
        return 0
    if args.out is None:
        raise MultifoldError("say where to: multifold feedback export FOLDER")
    report = export_feedback(settings, args.collection, args.out)
    counts = f"{report.items} items, {report.good} good and {report.bad} bad verdicts"
    print(f"wrote {args.out / MANIFEST_FILE}: {counts}")
    for why, count in report.left_out.items():
        if count:
            print(f"left out: {count} {why}")
    return 0


def format_judgement(judgement: Judgement) -> str:
    given = datetime.fromtimestamp(judgement.given, UTC).strftime("%Y-%m-%d %H:%M")
    query = " + ".join(map(_format_part, judgement.query))
    author = judgement.author or "nobody named"
    return f"{given}  {judgement.verdict:4}  {judgement.item}  for {query}  by {author}"


def _format_part(part: FeedbackQueryPart) -> str:
    value = part.text or part.id or part.blob
    return repr(value) if value and part.means == "text" else f"{part.means} {value or '(not kept)'}"
