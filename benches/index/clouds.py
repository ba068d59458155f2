"""Point clouds as one vector: random Fourier features of a kernel sum, beside fixed-dimensional encodings.

Two scores of clouds, each the mean over the query's points x: of the mean over the item's points y of
exp(−‖x − y‖²/2σ²) (the kernel sum), and of the largest ⟨x, y⟩ (chamfer). Both are approximated by an inner
product of two vectors: the kernel by random Fourier features, chamfer by MUVERA's encodings (Jayaram et al.
2024). Points are generated. What is counted is how many of a score's ten best items its vectors find.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32
from tqdm import tqdm

from benches.index.generated_vectors import unit_vectors
from benches.reporting import head, row

Cloud: TypeAlias = Float32[np.ndarray, "n p d"]
CloudVectors: TypeAlias = Float32[np.ndarray, "n e"]
CloudQueries: TypeAlias = Float32[np.ndarray, "q a d"]
Scores: TypeAlias = Float32[np.ndarray, "q n"]

SIGMA = 0.5
TOPICS = 400
OWN = 4  # topics of an item
BLUR, SHIFT = 0.12, 0.25  # of a point around its topic; of queries, all the same way
FLOATS = (256, 1024, 4096, 16384)
SPLITS = (3, 4, 5)  # hyperplanes of one partition that are tried
PROJECTED = (8, 16, 32)  # numbers of a point in a cell that are tried
NEAREST, RESCORED = 10, 100


@dataclass(frozen=True)
class CloudSet:
    """Items, and queries that are a few noisy points of an item."""

    items: Cloud
    queries: CloudQueries
    partners: np.ndarray


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--items", type=int, default=2_000)
    parser.add_argument("--points", type=int, default=16)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--queries", type=int, default=200)


def run(args: argparse.Namespace) -> int:
    clouds = make_clouds(args.items, args.points, args.dim, args.queries)
    print(f"{args.items} clouds of {args.points} points of {args.dim} numbers, {args.queries} queries.\n")
    for line in cloud_table(clouds):
        tqdm.write(line)
    return 0


def make_clouds(items: int, points: int, dim: int, queries: int, seed: int = 0) -> CloudSet:
    """Unit points around the topics of their item; a query has half as many."""
    rng = np.random.default_rng(seed)
    topics, gap = unit_vectors(rng.standard_normal((TOPICS, dim))), unit_vectors(rng.standard_normal(dim))
    own = rng.integers(0, TOPICS, (items, OWN))

    def drawn(who: np.ndarray, count: int, shift: float) -> Cloud:
        chosen = np.take_along_axis(own[who], rng.integers(0, OWN, (len(who), count)), 1)
        return unit_vectors(topics[chosen] + BLUR * rng.standard_normal((len(who), count, dim)) + shift * gap)

    partners = rng.permutation(items)[:queries]
    return CloudSet(drawn(np.arange(items), points, 0.0), drawn(partners, points // 2, SHIFT), partners)


def kernel_sums(queries: CloudQueries, items: Cloud) -> Scores:
    return _each(queries, items, lambda dots: np.exp((dots - 1) / SIGMA**2).mean(axis=(0, 2)))


def chamfer(queries: CloudQueries, items: Cloud) -> Scores:
    """The mean over a query's points of the nearest point's inner product."""
    return _each(queries, items, lambda dots: dots.max(axis=2).mean(axis=0))


def fourier_vectors(cloud: Cloud, floats: int) -> CloudVectors:
    """The mean of cosines and sines along random directions: inner products estimate the kernel sum."""
    rng = np.random.default_rng(1)
    directions = rng.standard_normal((cloud.shape[2], floats // 2)).astype(np.float32) / SIGMA
    vectors = np.empty((len(cloud), floats), np.float32)
    for place, points in enumerate(cloud):
        angles = points @ directions
        waves = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        vectors[place] = waves.mean(axis=0) / np.sqrt(floats // 2)
    return vectors


def muvera_vectors(cloud: Cloud, floats: int, splits: int, projected: int, *, query: bool) -> CloudVectors:
    """MUVERA: space is cut into cells, several times; a query sums its points in a cell, an item averages.

    Points are projected by random signs. A cell without points of an item takes that of the nearest cell.
    """
    rng, (size, points, dim) = np.random.default_rng(2), cloud.shape
    cells = 1 << splits
    flat, encodings = cloud.reshape(-1, dim), []
    for _ in range(floats // (cells * projected)):
        planes = rng.standard_normal((dim, splits)).astype(np.float32)
        signs = rng.choice(np.array([-1, 1], np.float32), (dim, projected)) / np.float32(np.sqrt(projected))
        sides = (flat @ planes > 0).reshape(size, points, splits)
        low = (flat @ signs).reshape(size, points, projected)
        corners = (np.arange(cells)[:, None] >> np.arange(splits)) & 1
        apart = (sides[:, :, None] != corners).sum(axis=3)  # [n, p, cells]
        inside = (apart == 0).astype(np.float32)
        sums = np.einsum("npc,npd->ncd", inside, low)
        if not query:
            counts = inside.sum(axis=1)[:, :, None]
            nearest = np.take_along_axis(low, apart.argmin(axis=1)[:, :, None], axis=1)
            sums = np.where(counts > 0, sums / np.maximum(counts, 1), nearest)
        encodings.append(sums.reshape(size, -1))
    return np.concatenate(encodings, axis=1)


def cloud_table(clouds: CloudSet) -> Iterator[str]:
    """Recall of each kind of vector by its bytes, against the exact score."""
    yield head("vector", "bytes", "its ten best found", "among its best 100", "partner first")
    exact = {"kernel sum": kernel_sums, "chamfer": chamfer}
    truth = {name: score(clouds.queries, clouds.items) for name, score in exact.items()}
    size = clouds.items[0].nbytes
    for name, scores in truth.items():
        yield _line(f"all points, {name}", size, scores, scores, clouds)
    for floats in tqdm(FLOATS, "encoding", leave=False):
        scores = fourier_vectors(clouds.queries, floats) @ fourier_vectors(clouds.items, floats).T
        yield _line("Fourier features, kernel sum", 4 * floats, scores, truth["kernel sum"], clouds)
        lines = [_encoded_line(floats, k, d, truth["chamfer"], clouds) for k in SPLITS for d in PROJECTED]
        yield max((line for line in lines if line), key=lambda pair: pair[0])[1]


def _encoded_line(
    floats: int, splits: int, projected: int, truth: Scores, clouds: CloudSet
) -> tuple[float, str] | None:
    if floats < projected << splits:
        return None
    queries = muvera_vectors(clouds.queries, floats, splits, projected, query=True)
    scores = queries @ muvera_vectors(clouds.items, floats, splits, projected, query=False).T
    times = queries.shape[1] // (projected << splits)
    name = f"MUVERA, chamfer; 2^{splits} cells of {projected}, {times} times"
    return _recall(scores, truth, NEAREST), _line(name, 4 * queries.shape[1], scores, truth, clouds)


def _line(name: str, size: int, scores: Scores, truth: Scores, clouds: CloudSet) -> str:
    first = np.mean(scores.argmax(axis=1) == clouds.partners)
    shares = (*(_recall(scores, truth, reach) for reach in (NEAREST, RESCORED)), first)
    return row(name, size, *(f"{share:.3f}" for share in shares))


def _recall(scores: Scores, truth: Scores, reach: int) -> float:
    """The share of the true ten that are among the best `reach`."""
    true = np.argsort(-truth, axis=1)[:, :NEAREST]
    best = np.argsort(-scores, axis=1)[:, :reach]
    return float(np.mean([np.isin(one, other).mean() for one, other in zip(true, best, strict=True)]))


def _each(queries: CloudQueries, items: Cloud, score: Callable[[np.ndarray], np.ndarray]) -> Scores:
    points = items.reshape(-1, items.shape[2])
    shape = (queries.shape[1], *items.shape[:2])
    return np.stack([score((query @ points.T).reshape(shape)) for query in queries]).astype(np.float32)
