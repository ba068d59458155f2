"""Images per CPU-second of every rendering engine that works here, on generated meshes.

    multifold bench render > table.md

Each engine draws in a process of its own, warm. Seconds are those of the processor, all threads together, so
a busy machine does not change them much; the best of some rounds counts.
"""

import argparse

from renderers.engines import ENGINES

WORK = "benches.render.render"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = [engine.name for engine in ENGINES]
    parser.add_argument("--engines", nargs="+", choices=names, default=names, help="default: all")
    parser.add_argument("--rig", default="ring12", help="cameras (default ring12)")
    parser.add_argument("--size", type=int, default=224, help="pixels on a side (default 224)")
    parser.add_argument("--rounds", type=int, default=3, help="of which the best counts (default 3)")
