"""`multifold index import` and `build`."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from tqdm import tqdm

from index.commands.common import add_bundle, new_space, open_collection, refuse_busy, space_of, vector_id_of
from index.commands.inspect_collection import print_reports
from index.contracts import AUTO, DEVICES, IndexPlan, Space
from index.embedding_files import EmbeddingRows, ImportFileError, read_embeddings
from index.plain_space import PLAIN_METRICS
from multifold.types import Features, Side


def import_(args: argparse.Namespace) -> int:
    """Take in features computed in bulk, or embeddings of one's own."""
    refuse_busy(args.data)
    embeddings = read_embeddings(args.source, args.ids, args.side, args.manifest)
    space, probes = _space(args, embeddings)
    if embeddings.vector_id not in (None, space.vector_id):
        raise ImportFileError(
            f"{args.source} holds features of {embeddings.vector_id!r}, the collection has "
            f"{space.vector_id!r}: they do not compare."
        )
    print(f"importing {len(embeddings.rows)} rows from {args.source} into {args.data}", flush=True)
    with open_collection(args, space, probes, action="import") as collection:
        with tqdm(total=len(embeddings.rows), unit="row", disable=None) as bar:
            for items in embeddings.items():
                collection.upsert(items)
                bar.update(sum(len(item.observations) for item in items))
        print(f"the collection holds {collection.count()} items, version {collection.version}")
    return 0


def _space(args: argparse.Namespace, embeddings: EmbeddingRows) -> tuple[Space, Mapping[Side, Features]]:
    """The collection's own space; a new one is plain where a metric is named."""
    if not (args.data / "store.sqlite").is_file():
        return new_space(args.bundle, args.metric, embeddings.dim)
    space, probes = space_of(vector_id_of(args.data), args.bundle)
    if args.metric and space.vector_id != f"plain-{args.metric}-{embeddings.dim}":
        raise ImportFileError(f"{args.data} is a collection of {space.vector_id}: leave out --metric.")
    return space, probes


def build(args: argparse.Namespace) -> int:
    """Build the index to a type and recall, which the collection asks for from then on."""
    refuse_busy(args.data)
    plan = IndexPlan(args.type, args.device, args.recall)
    space, probes = space_of(vector_id_of(args.data), args.bundle)
    print(f"building the index of {args.data}: {plan.type} at recall {plan.recall}", flush=True)
    with open_collection(args, space, probes, action="build", plan=plan) as collection:
        reports = collection.settle()
        collection.ask_for(plan)
    print_reports({" ".join(segment): some for segment, some in reports.items()})
    return 0


def _import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", type=Path, help="a folder of shards, or a .npy or .parquet file")
    parser.add_argument("--ids", type=Path, help="for .npy: a text with an id a line, or JSONL")
    parser.add_argument("--side", choices=get_args(Side), default="image", help="what the rows are of")
    parser.add_argument("--manifest", type=Path, help="a manifest, whose `meta` becomes the payload")
    parser.add_argument("--metric", choices=PLAIN_METRICS, help="make a collection of plain embeddings")
    add_bundle(parser)


def _build_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--type", default=AUTO, help="auto, exact, or a FAISS factory string (docs/index.md)")
    parser.add_argument("--recall", type=float, default=IndexPlan().recall)
    parser.add_argument("--device", choices=DEVICES, default="auto")
    add_bundle(parser)


ACTIONS = {"import": (import_, _import_arguments), "build": (build, _build_arguments)}
