"""Each loss, timed in turns, and the memory of those that hold no whole matrix."""

import argparse
import multiprocessing
import os
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from statistics import median

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from benches.reporting import head, row
from training.geometries import build as geometry
from training.losses import build
from training.tiled_loss import FeaturePair, tiled_loss

PLAIN = "InfoNCE, torch cross_entropy"
VIEWS, CAPTIONS = 6, 5
CALLS = 10  # of a loss in a turn
ITEMS = 70  # the papers' batch: 420 views, 350 captions
LARGE = (4096, 16384)  # rows of the square batches
BLOCK = 256  # rows at once in the tiled version


def measure_losses(args: argparse.Namespace) -> Iterator[str]:
    """The time of each loss on one thread, and the memory of one with and without the whole matrix."""
    torch.set_num_threads(1)
    yield f"{ITEMS} items, {VIEWS * ITEMS} × {CAPTIONS * ITEMS} logits, one thread\n"
    yield head("loss", "median ms", "× InfoNCE")
    times = time_losses(loss_versions(), args.rounds)
    for name, seconds in times.items():
        yield row(name, f"{1e3 * seconds:.2f}", f"{seconds / times[PLAIN]:.2f}")
    yield "\n" + head("batch", "version", "peak MB", "seconds")
    for rows in LARGE:
        for block in (0, BLOCK):
            peak, seconds = measure_in_process(rows, block)
            version = f"tiled, {block} rows" if block else "whole matrix"
            yield row(f"{rows} × {rows}", f"Hard, p → ∞, {version}", f"{peak:.0f}", f"{seconds:.1f}")


def loss_versions() -> Mapping[str, Callable[[Tensor], Tensor]]:
    """Every version, as a function of the logits."""
    rows = torch.arange(ITEMS).repeat_interleave(VIEWS)
    columns = torch.arange(ITEMS).repeat_interleave(CAPTIONS)
    teacher = torch.randn(len(rows), len(columns)) * 10

    def ours(name: str, **params: int) -> Callable[[Tensor], Tensor]:
        return lambda logits: build(name, **params)(logits, rows, columns, teacher)

    right = torch.arange(len(rows)) % CAPTIONS + rows * CAPTIONS
    left = torch.arange(len(columns)) % VIEWS + columns * VIEWS
    return {
        PLAIN: lambda s: (cross_entropy(s, right) + cross_entropy(s.T, left)) / 2,
        "InfoNCE": ours("infonce"),
        "Hard, p = 10 N (50 and 60)": ours("hard", draws=10),
        "Hard, p → ∞": ours("hard"),
        "MFH, even": ours("mfh_even"),
        "MFH (hard + soft), p = 10 N": ours("mfh", draws=10),
        "MFH (hard + soft), p → ∞": ours("mfh"),
    }


def time_losses(losses: Mapping[str, Callable[[Tensor], Tensor]], rounds: int) -> dict[str, float]:
    """Median processor seconds of forward and backward on one thread, some calls of each in turn."""
    times: dict[str, list[float]] = {name: [] for name in losses}
    start = torch.randn(VIEWS * ITEMS, CAPTIONS * ITEMS) * 10
    for _ in range(rounds):
        for name, loss in losses.items():
            many = [start.clone().requires_grad_() for _ in range(CALLS)]
            began = time.process_time()
            for logits in many:
                loss(logits).backward()
            times[name].append((time.process_time() - began) / CALLS)
    return {name: median(seconds) for name, seconds in times.items()}


def measure_in_process(rows: int, block: int) -> tuple[float, float]:
    """Peak megabytes and seconds of a step of MFH's hard term, in its own process; block 0: whole matrix."""
    os.environ["MALLOC_MMAP_THRESHOLD_"] = "65536"  # freed memory leaves at once: the peak is of what is used
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.apply(measure_step, (64, 16))  # what is loaded at the first use is not counted
        return pool.apply(measure_step, (rows, block))


def measure_step(rows: int, block: int) -> tuple[float, float]:
    """One step on groups of four rows and four columns, features of length 256."""
    torch.set_num_threads(1)
    groups = torch.arange(rows) // 4
    query, gallery = (torch.randn(rows, 256, requires_grad=True) for _ in range(2))
    compare = geometry("clip", 256)
    loss = build("hard")
    pair = FeaturePair(query, gallery, compare.logits)
    before = _peak()
    began = time.process_time()
    if block:
        tiled_loss(loss, pair, groups, groups, block).backward()
    else:
        loss(pair.matrix(), groups, groups).backward()
    return _peak() - before, time.process_time() - began


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
