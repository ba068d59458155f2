"""Measure the index: our engine beside bare FAISS and others, live, busy, filtered, and in hyperbolic space.

Vectors are generated: clusters, and queries that lie apart from them as another side's do, or a surface
without clusters. With --features they are the views of things, and captions of them. Every time is CPU time
of one thread, taken in turns between the engines; medians are printed, as Markdown tables.
"""

import argparse
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from tqdm import tqdm

from benches.index import busy, changes, collection_filters, engines, generated_vectors, unlike
from benches.index.engines import ComparedEngine, Thresholds
from benches.index.generated_vectors import VectorSet
from benches.reporting import head, row
from index.commands.common import add_bundle
from multifold.bundle.canary import open_encoder

TYPES = ("HNSW32,SQ8", "IVF{cells},SQ8", "IVF{cells},RaBitQfs", "Flat")
VECTOR_SETS = {"clusters": generated_vectors.sphere_vectors, "surface": generated_vectors.surface_vectors}
COLUMNS = (
    *("asked", "k", "engine", "recall", "queries/s, batches of 16"),
    *("one query, p50", "p99", "build", "bytes a row"),
)
LIMITS = (10, 100)
RECALLS = (0.95, 0.99)
SINGLES = 200  # searches of one query
BATCH = 16
BATCHES = 128  # searches of so many


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--queries", type=int, default=512)
    parser.add_argument("--scene", choices=list(VECTOR_SETS), default="clusters", help="how rows lie")
    parser.add_argument("--features", type=Path, help="shards whose views are searched by their captions")
    add_bundle(parser)
    parser.add_argument("--types", nargs="+", default=list(TYPES), help="FAISS factory strings")
    parser.add_argument(
        "--others", nargs="*", choices=list(engines.MAKERS), default=list(engines.MAKERS), help="if installed"
    )
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))


def run(args: argparse.Namespace) -> int:
    os.environ["OMP_NUM_THREADS"] = "1"
    if args.features is None:
        vectors = VECTOR_SETS[args.scene](args.rows, args.dim, args.queries)
    else:
        vectors = generated_vectors.encoded_vectors(args.features, open_encoder(args.bundle), args.queries)
        args.rows, args.dim = vectors.rows.shape
    for part in args.parts:
        print(f"\n## {part}\n")
        for line in PARTS[part](args, vectors):
            tqdm.write(line)
    return 0


def compare_engines(args: argparse.Namespace, vectors: VectorSet) -> Iterator[str]:
    """Every engine at every recall and limit."""
    yield f"{args.rows} rows of {args.dim}, {args.queries} queries that no index was tuned with.\n"
    yield head(*COLUMNS)
    with engines.other_engines(vectors, args.others) as others:
        for recall in RECALLS:
            bar = tqdm(args.types, "building", leave=False)
            built = [engines.build_engine(vectors, name, recall) for name in bar]
            for limit in LIMITS:
                truth = changes.true_thresholds(vectors, limit)
                pairs = [(engines.our_engine(one), engines.bare_faiss(one, vectors)) for one in built]
                compared = [engine for pair in pairs for engine in pair if engine is not None]
                compared += [engine.tuned(vectors, truth, limit, recall) for engine in others]
                yield from _lines(vectors, compared, recall, limit, truth)
            for engine in built:
                engine.close()


def _lines(
    vectors: VectorSet, compared: list[ComparedEngine], recall: float, limit: int, truth: Thresholds
) -> Iterator[str]:
    batches = engines.time_in_turns(compared, vectors.queries, limit, BATCH, BATCHES)
    singles = engines.time_in_turns(compared, vectors.queries, limit, 1, SINGLES)
    for place, engine in enumerate(compared):
        share = engines.measure_recall(vectors, engine.search(vectors.queries, limit), truth)
        middle, late = (f"{one * 1e3:.2f} ms" for one in np.percentile(singles[place], [50, 99]))
        rate, built = f"{1 / np.median(batches[place]):.0f}", f"{engine.build_seconds:.0f} s"
        size = f"{engine.bytes_per_row:.0f}"
        yield row(recall, limit, engine.name, f"{share:.3f}", rate, middle, late, built, size)
        if engine.name.startswith("bare"):
            more = np.median(batches[place - 1]) / np.median(batches[place]) - 1
            extra = (np.median(singles[place - 1]) - np.median(singles[place])) * 1e3
            yield row("", "", "ours beside it", "", f"{more:+.1%} time", f"{extra:+.3f} ms", "", "", "")


PARTS: dict[str, Callable[[argparse.Namespace, VectorSet], Iterator[str]]] = {
    "race": compare_engines,
    "live": changes.measure_changes,
    "busy": busy.measure_latencies,
    "filters": changes.measure_filters,
    "memory": changes.measure_memory,
    "payload": collection_filters.measure_collection_filters,
    "lorentz": changes.measure_lorentz,
    "unlike": unlike.measure_unlike,
}
