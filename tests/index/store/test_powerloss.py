"""The power fails: every write that was not synced is gone, and so is every name in a folder that was not.

`kill -9` cannot show this, for the page cache survives it. A preloaded shim (powerloss.c) keeps what the
process has synced, SQLite's files included; the disk is then put together again from that alone. It proves
that we and SQLite sync what we must before we acknowledge, in the order of a disk that writes nothing on its
own. It does not show writes that tear inside a sync, or disks that lie about syncing.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import pytest

from index.collection import Collection
from index.maintenance.restore import restore_snapshot
from multifold.errors import MultifoldError
from multifold.types import Item
from tests.index.lossy import picture
from tests.index.processes import started
from tests.index.shots import held
from tests.index.spaces import SPACE
from tests.index.store.powerloss import assemble, key, shim
from tests.index.storm import change, foretold

__all__ = ["shim"]  # a fixture


@dataclass(frozen=True)
class Fallen:
    """What is left, and what had been acknowledged."""

    home: Path
    changes: int
    snapshots: list[int]


def power_cut(tmp_path: Path, shim: Path, what: str, lines: int) -> Fallen:
    """Let a process work until it has told so much, end it, and keep only what it had synced."""
    home, shadow, left = tmp_path / "home", tmp_path / "shadow", tmp_path / "left"
    home.mkdir()
    shadow.mkdir()
    with started("lossy", home, what, LD_PRELOAD=str(shim), SHADOW=str(shadow)) as child:
        assert child.stdout is not None
        begun = [child.stdout.readline() for _ in range(lines)]
        child.kill()
        told = [line.split() for line in (*begun, *child.stdout) if line.endswith("\n")]
    assemble(shadow, key(home), left)
    taken = [int(words[1]) for words in told if words[0] == "snapshot"]
    return Fallen(left, len(told) - len(taken), taken)


def troubles(fallen: Fallen) -> list[str]:
    """What was acknowledged and is not there."""
    state: dict[str, Item] = {}
    written: dict[str, int] = {}
    states = []
    for number in range(fallen.changes + 1):
        state = foretold(state, number)
        written |= {item.id: number for item in change(number)[0]}
        states.append((set(state), dict(written)))
    found = []
    with Collection.open(fallen.home / "things", SPACE) as collection:
        items = held(collection)
        fitting = [one for names, one in states[-2:] if names == set(items)]
        if not any(all(told(items[n], one[n]) for n in items) for one in fitting):
            found.append(f"{len(items)} items of another state than that of {fallen.changes} changes")
        for name, item in items.items():
            try:
                collection.blobs.get(str(item.observations[0].blob))
            except MultifoldError as error:
                found.append(f"{name}: {error}")
    for number in fallen.snapshots:
        try:
            restore_snapshot(fallen.home / f"{number}.tar", fallen.home / f"copy {number}")
        except MultifoldError as error:
            found.append(f"snapshot {number}: {error}")
    return found


def told(item: Item, number: int) -> bool:
    """Whether an item is the one that this change wrote."""
    return item.observations[0].blob == hashlib.sha256(picture(number, item.id)).hexdigest()


@pytest.mark.parametrize("lines", [1, 30])
def test_what_was_acknowledged_survives_a_power_cut(tmp_path: Path, shim: Path, lines: int) -> None:
    fallen = power_cut(tmp_path, shim, "nothing", lines)
    assert fallen.changes + len(fallen.snapshots) >= lines
    assert troubles(fallen) == []


@pytest.mark.slow
@pytest.mark.parametrize("what", ["store", "files"])
def test_a_sync_that_is_left_out_is_missed(tmp_path: Path, shim: Path, what: str) -> None:
    """The same test fails where SQLite, or our own files, are not synced."""
    try:
        found = troubles(power_cut(tmp_path, shim, what, 12))
    except MultifoldError as error:
        found = [str(error)]
    assert found != []
