"""One engine's turn in the benchmark: CPU-seconds to load and to draw each mesh, as JSON on stdout.

python -m benches.render.engine_times ENGINE RIG SIZE ROUNDS MESH…
"""

import json
import sys
import time
from pathlib import Path

from multifold.errors import MultifoldError
from renderers import cameras, engines
from renderers.contracts import Renderer, Rig
from renderers.mesh.load import load_model


def main(words: list[str]) -> int:
    name, rig, size, rounds, *meshes = words
    try:
        engine = engines.engine(name).open()
        cameras_of = cameras.rig(rig)
        times = [time_engine(engine, Path(mesh), cameras_of, int(size), int(rounds)) for mesh in meshes]
    except MultifoldError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(times))
    return 0


def time_engine(engine: Renderer, mesh: Path, rig: Rig, size: int, rounds: int) -> tuple[float, float]:
    """The best of some rounds."""
    clock = time.process_time
    loads, draws = [], []
    for _ in range(rounds):
        start = clock()
        model = load_model(mesh)
        loaded = clock()
        engine.render(model, rig, size)
        loads.append(loaded - start)
        draws.append(clock() - loaded)
    return min(loads), min(draws)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
