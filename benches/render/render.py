"""Images per CPU-second of every rendering engine that works here, on generated meshes.

    multifold bench render > table.md

Each engine draws in a process of its own, warm. Seconds are those of the processor, all threads together, so
a busy machine does not change them much; the best of some rounds counts.
"""

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tqdm import tqdm

from benches.render.meshes import write_meshes
from benches.reporting import head, row
from multifold.errors import MultifoldError
from renderers import cameras
from renderers.engines import ENGINES
from renderers.sandbox import HEAP_SETTINGS

Times = dict[str, tuple[float, float]]  # mesh -> CPU-seconds to load and to draw all views
_TEXT2SHAPE_VIEWS = 89_394
_BASELINE = "osmesa"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = [engine.name for engine in ENGINES]
    parser.add_argument("--engines", nargs="+", choices=names, default=names, help="default: all")
    parser.add_argument("--rig", default="ring12", help="cameras (default ring12)")
    parser.add_argument("--size", type=int, default=224, help="pixels on a side (default 224)")
    parser.add_argument("--rounds", type=int, default=3, help="of which the best counts (default 3)")


def run(args: argparse.Namespace) -> int:
    results: dict[str, Times] = {}
    with tempfile.TemporaryDirectory(prefix="multifold-bench-") as folder:
        meshes = write_meshes(Path(folder))
        for engine in tqdm(args.engines, "engines", file=sys.stderr):
            try:
                results[engine] = _measure(engine, meshes, args)
            except MultifoldError as error:
                print(error, file=sys.stderr)
    if not results:
        raise MultifoldError("none of these engines works here; `multifold render --doctor` says why.")
    print(report(results, args))
    return 0


def _measure(engine: str, meshes: dict[str, Path], args: argparse.Namespace) -> Times:
    command = [sys.executable, "-m", "benches.render.engine_times", engine, args.rig, str(args.size)]
    words = [*command, str(args.rounds), *map(str, meshes.values())]
    settings = {**os.environ, **HEAP_SETTINGS}  # those of the workers that draw for us
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=settings)  # noqa: S603
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise MultifoldError(f"{engine} is left out: {last}")
    times = json.loads(done.stdout.splitlines()[-1])
    return {name: (load, draw) for name, (load, draw) in zip(meshes, times, strict=True)}


def report(results: dict[str, Times], args: argparse.Namespace) -> str:
    """Markdown: drawing alone, then with loading, then a projection."""
    views = len(cameras.rig(args.rig))
    drawn = {
        engine: {mesh: views / draw for mesh, (_, draw) in times.items()} for engine, times in results.items()
    }
    whole = {
        engine: {mesh: views / (load + draw) for mesh, (load, draw) in times.items()}
        for engine, times in results.items()
    }
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
