"""Whether an encoder learns from use: furniture, and simulated users who judge what they find.

    multifold bench improve

The base learns furniture from captions that are silent about colours. Each of 200 users searches twice, with
a piece in mind of a collection of other furniture whose captions are as silent, for "a red chair": they call
that piece good, and the first hit that is no red chair bad. The encoder learns from that as `multifold
improve` does. `--wrong` has them, in that share of searches, call a random wrong one of 20 hits good, and
their piece bad.
In the end both encoders are asked for what no user asked for: other colours and kinds of the collection, and
all of furniture that nobody has seen; there every piece of that kind and colour is right.
"""

import argparse
from pathlib import Path

from multifold.errors import needs_extra


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--searches", type=int, default=2, help="of each user")
    parser.add_argument("--wrong", type=float, nargs="+", default=[0.0, 0.2, 1.0], metavar="SHARE")
    parser.add_argument("--seed", type=int, default=1, help="of the users")
    parser.add_argument("--items", type=int, default=1000, help="of the collection")
    parser.add_argument("--out", type=Path, default=Path("runs/improve-bench"))
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"), help="rendered views")
    parser.add_argument("--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE", dest="changes")
    parser.add_argument("--mix", type=float, help="share of the new weights, as of `multifold improve`")


def run(args: argparse.Namespace) -> int:
    with needs_extra("train"):
        from benches.learning import improve_runs
    return improve_runs.run(args)
