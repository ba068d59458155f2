"""Each loss, timed in turns, and the memory of those that hold no whole matrix."""

import argparse
import multiprocessing
import os
import resource
import time
from collections.abc import Callable, Mapping
from functools import partial
from statistics import median

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from benches.reporting import head, row
from training.geometries import build as geometry
from training.losses import build
from training.losses.plain import draw_places, repeated_hard
from training.tiled_loss import FeaturePair, tiled_loss

VIEWS, CAPTIONS = 6, 5
ITEMS = 70  # the papers' batch: 420 views, 350 captions
LARGE = (4096, 16384)  # rows of the square batches
BLOCK = 256  # rows at once in the tiled version


def run(args: argparse.Namespace) -> int:
    torch.set_num_threads(1)
    print(f"{ITEMS} items, {VIEWS * ITEMS} × {CAPTIONS * ITEMS} logits, one thread\n")
    print(head("loss", "median ms", "× InfoNCE"))
    times = time_losses(loss_versions(), args.repeats)
    for name, seconds in times.items():
        print(row(name, f"{1e3 * seconds:.2f}", f"{seconds / times['InfoNCE, torch cross_entropy']:.2f}"))
    print("\n" + head("batch", "version", "peak MB", "seconds"))
    for rows in LARGE:
        for block in (0, BLOCK):
            peak, seconds = measure_in_process(rows, block)
            version = f"tiled, {block} rows" if block else "whole matrix"
            name = f"Hard, p → ∞, {version}"
            print(row(f"{rows} × {rows}", name, f"{peak:.0f}", f"{seconds:.1f}"), flush=True)
    return 0


def loss_versions() -> Mapping[str, Callable[[Tensor], Tensor]]:
    """Every version, as a function of the logits."""
    rows = torch.arange(ITEMS).repeat_interleave(VIEWS)
    columns = torch.arange(ITEMS).repeat_interleave(CAPTIONS)
    teacher = torch.randn(len(rows), len(columns)) * 10

    def ours(name: str, **params: int) -> Callable[[Tensor], Tensor]:
        return lambda logits: build(name, **params)(logits, rows, columns, teacher)

    def repeated(draws: int, logits: Tensor) -> Tensor:
        there = repeated_hard(logits, rows, columns, draw_places(rows, columns, draws * CAPTIONS))
        return (there + repeated_hard(logits.T, columns, rows, draw_places(columns, rows, draws * VIEWS))) / 2

    right = torch.arange(len(rows)) % CAPTIONS + rows * CAPTIONS
    left = torch.arange(len(columns)) % VIEWS + columns * VIEWS
    return {
        "InfoNCE, torch cross_entropy": lambda s: (cross_entropy(s, right) + cross_entropy(s.T, left)) / 2,
        "InfoNCE": ours("infonce"),
        "Hard, p = 1": ours("hard", draws=1, per_positive=0),
        "Hard, p = N": ours("hard", draws=1),
        "Hard, p = 10 N (50 and 60)": ours("hard", draws=10),
        "Hard, p → ∞": ours("hard"),
        "MFH, even": ours("mfh_even"),
        "Sigmoid": ours("sigmoid"),
        "MFH (hard + soft), p = 10 N": ours("mfh", draws=10),
        "MFH (hard + soft), p → ∞": ours("mfh"),
        "Hard as in the paper, p = N, repeated": partial(repeated, 1),
        "Hard as in the paper, p = 10 N, repeated": partial(repeated, 10),
    }


def time_losses(losses: Mapping[str, Callable[[Tensor], Tensor]], repeats: int) -> dict[str, float]:
    """Median processor seconds of forward and backward on one thread, in turns."""
    times: dict[str, list[float]] = {name: [] for name in losses}
    start = torch.randn(VIEWS * ITEMS, CAPTIONS * ITEMS) * 10
    for _ in range(repeats):
        for name, loss in losses.items():
            logits = start.clone().requires_grad_()
            began = time.process_time()
            loss(logits).backward()
            times[name].append(time.process_time() - began)
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
    compare, loss = geometry("clip", 256), build("hard")
    pair = FeaturePair(query, gallery, compare.logits)
    before, began = _peak(), time.process_time()
    if block:
        tiled_loss(loss, pair, groups, groups, block).backward()
    else:
        loss(pair.matrix(), groups, groups).backward()
    return _peak() - before, time.process_time() - began


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
