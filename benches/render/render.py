"""The work of `multifold bench render`."""

import argparse
import math
import multiprocessing
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tqdm import tqdm

from benches.render.meshes import write_meshes
from benches.reporting import head, row
from multifold.errors import MultifoldError
from renderers import cameras
from renderers.engines import engine
from renderers.mesh.load import load_model
from renderers.processes import HEAP_SETTINGS

Times = dict[str, tuple[float, float]]  # mesh -> CPU-seconds to load and to draw all views
_TEXT2SHAPE_VIEWS = 89_394
_BASELINE = "osmesa"


def run(args: argparse.Namespace) -> int:
    results: dict[str, Times] = {}
    with tempfile.TemporaryDirectory(prefix="multifold-bench-") as folder:
        meshes = write_meshes(Path(folder))
        os.environ.update(HEAP_SETTINGS)  # those of the workers that draw for us
        for name in tqdm(args.engines, "engines", file=sys.stderr):
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
                try:
                    times = process.submit(
                        time_engine, name, list(meshes.values()), args.rig, args.size, args.rounds
                    ).result()
                except MultifoldError as error:
                    print(f"{name} is left out: {error}", file=sys.stderr)
                else:
                    results[name] = dict(zip(meshes, times, strict=True))
    if not results:
        raise MultifoldError("none of these engines works here; `multifold render --doctor` says why.")
    print(report(results, args))
    return 0


def time_engine(
    name: str, meshes: Sequence[Path], rig: str, size: int, rounds: int
) -> list[tuple[float, float]]:
    """CPU-seconds to load and to draw each mesh, the best of some rounds."""
    renderer = engine(name).open()
    poses = cameras.rig(rig)
    clock = time.process_time
    times = []
    for mesh in meshes:
        loads, draws = list[float](), list[float]()
        for _ in range(rounds):
            start = clock()
            model = load_model(mesh)
            loaded = clock()
            renderer.render(model, poses, size)
            loads.append(loaded - start)
            draws.append(clock() - loaded)
        times.append((min(loads), min(draws)))
    return times


def report(results: dict[str, Times], args: argparse.Namespace) -> str:
    """Markdown: drawing alone, then with loading, then a projection."""
    views = len(cameras.rig(args.rig))
    drawn, whole = dict[str, dict[str, float]](), dict[str, dict[str, float]]()
    for name, times in results.items():
        drawn[name] = {mesh: views / draw for mesh, (_, draw) in times.items()}
        whole[name] = {mesh: views / (load + draw) for mesh, (load, draw) in times.items()}
    lines = [
        f"{platform.machine()}, Python {platform.python_version()}, {views} views ({args.rig}), "
        f"{args.size}² pixels, 2×2 samples, best of {args.rounds}. Images per CPU-second:",
        *_table("drawing alone", drawn),
        *_table("loading and drawing", whole),
        *_load_table(results),
        *(_projection(engine, speeds) for engine, speeds in whole.items()),
    ]
    return "\n".join(lines)


def _table(title: str, speeds: dict[str, dict[str, float]]) -> list[str]:
    """A row for each mesh; the last are the geometric mean and its ratio to OSMesa."""
    lines = ["", head(title, *speeds)]
    meshes = next(iter(speeds.values()))
    lines += [row(mesh, *(f"{of[mesh]:.1f}" for of in speeds.values())) for mesh in meshes]
    means = {engine: statistics.geometric_mean(of.values()) for engine, of in speeds.items()}
    lines.append(row("**geometric mean**", *(f"{mean:.1f}" for mean in means.values())))
    if base := means.get(_BASELINE):
        lines.append(row(f"× {_BASELINE}", *(f"{mean / base:.2f}" for mean in means.values())))
        least = [min(of[mesh] / speeds[_BASELINE][mesh] for mesh in of) for of in speeds.values()]
        lines.append(row("× at worst", *(f"{ratio:.2f}" for ratio in least)))
    return lines


def _load_table(results: dict[str, Times]) -> list[str]:
    """Times of loading, which are the same for all engines."""
    lines = ["", head("mesh", "loading, ms")]
    for mesh in next(iter(results.values())):
        milliseconds = 1000 * min(times[mesh][0] for times in results.values())
        lines += [row(mesh, f"{milliseconds:.0f}")]
    return [*lines, ""]


def _projection(engine: str, speeds: dict[str, float]) -> str:
    hours = _TEXT2SHAPE_VIEWS / statistics.geometric_mean(speeds.values()) / 3600
    minutes = math.ceil(60 * hours)
    return f"- {engine}: the {_TEXT2SHAPE_VIEWS:,} views of Text2Shape in {minutes:,} minutes of one core"
