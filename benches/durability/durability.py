"""The work of `multifold bench durability`."""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from benches.reporting import head, row
from index.collection import Collection
from index.contracts import IndexPlan
from index.plain_space import PlainSpace
from multifold.types import Item, Observation

SPACE = PlainSpace("l2", 16)
PLAN = IndexPlan("IVF{cells},Flat", "cpu", 0.9, seal_at=1_000)
NAMES = 400
LONGEST = 1.5  # seconds that a writer lives after its first change


@dataclass
class DurabilityTally:
    acknowledged: int = 0
    unacknowledged: int = 0  # changes found complete, whose writer was killed before it said so
    lost: int = 0
    returned: int = 0  # deleted items that are there
    index: int = 0  # indexes that disagree with the store


def run(args: argparse.Namespace) -> int:
    """Print the table; 1 if anything was lost or came back."""
    rng = np.random.default_rng(args.seed)
    tally = DurabilityTally()
    state: dict[str, Item] = {}
    number = 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in tqdm(range(args.rounds), unit="kill", disable=None):
            count = _kill_writer(Path(folder), number, float(rng.uniform(0, LONGEST)))
            for _ in range(count):
                number += 1
                state = expected_state(state, number)
            state, number = _examine(Path(folder), state, number, tally)
            tally.acknowledged += count
    print(
        head(
            "kills",
            "acknowledged",
            "complete, not acknowledged",
            "lost",
            "back again",
            "indexes that disagree",
        )
    )
    print(row(args.rounds, tally.acknowledged, tally.unacknowledged, tally.lost, tally.returned, tally.index))
    return 1 if tally.lost + tally.returned + tally.index else 0


def change_number(number: int) -> tuple[list[Item], list[str]]:
    """The items that the change writes, or the ids that it deletes."""
    rng = np.random.default_rng(number)
    names = [f"item {n}" for n in rng.choice(NAMES, int(rng.integers(1, 16)), replace=False)]
    return ([], names) if rng.random() < 0.3 else ([_item(name, rng) for name in names], [])


def expected_state(state: Mapping[str, Item], number: int) -> dict[str, Item]:
    items, gone = change_number(number)
    return {name: item for name, item in state.items() if name not in gone} | {one.id: one for one in items}


def write_changes(folder: Path, number: int) -> None:
    """Make changes without end, and print the number of each acknowledged one."""
    with Collection.open(folder, SPACE, plan=PLAN) as collection:
        while True:
            number += 1
            items, gone = change_number(number)
            if items:
                collection.upsert(items)
            else:
                collection.delete(gone)
            print(number, flush=True)


def _item(name: str, rng: np.random.Generator) -> Item:
    features = rng.standard_normal((int(rng.integers(1, 32)), SPACE.dim)).astype(np.float32)
    return Item(name, tuple(Observation("view", n, one) for n, one in enumerate(features)), {"of": name})


def _kill_writer(folder: Path, number: int, seconds: float) -> int:
    """Let a process make changes, kill it, and return how many it had acknowledged."""
    command = [sys.executable, "-m", "benches.durability.durability", str(folder), str(number)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:  # noqa: S603
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(seconds)
        child.kill()
        return len([line for line in (first, *child.stdout) if line.endswith("\n")])


def _examine(
    folder: Path, state: dict[str, Item], number: int, tally: DurabilityTally
) -> tuple[dict[str, Item], int]:
    """Compare with the expected state; returns the actual one."""
    with Collection.open(folder, SPACE, plan=PLAN) as collection:
        actual = {name: item for name in collection.ids() if (item := collection.get(name)) is not None}
        after = expected_state(state, number + 1)
        tally.index += len(collection.disagreements())
        contents, expected, following = (
            {name: _content(item) for name, item in items.items()} for items in (actual, state, after)
        )
        if contents != expected and contents == following:
            tally.unacknowledged += 1
            return after, number + 1
        tally.lost += sum(contents.get(name) != content for name, content in expected.items())
        tally.returned += len(contents.keys() - expected.keys())
    return state, number


def _content(item: Item) -> tuple[object, ...]:
    return dict(item.payload), [(one.kind, one.index, one.feature.tobytes()) for one in item.observations]


if __name__ == "__main__":
    write_changes(Path(sys.argv[1]), int(sys.argv[2]))
