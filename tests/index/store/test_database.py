"""Kills, a full disk: what was acknowledged is there, what was not is there whole or not at all."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from index.collection import Collection
from index.store.blobs import BlobError
from index.store.copying import CopyError
from index.store.database import OutageLog, StoreError
from multifold.types import Item
from tests.index.disks import no_file_larger_than
from tests.index.processes import started
from tests.index.shots import equal, held
from tests.index.spaces import SPACE
from tests.index.storm import PLAN, foretold
from tests.index.things import answers, brute, feature, query, thing, view


def storm(folder: Path, start: int, seconds: float) -> int:
    """Let a process make changes, kill it, and return how many it had acknowledged."""
    with started("storm", folder, start) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == f"{start}\n"
        time.sleep(seconds)
        child.kill()
        return 1 + len([line for line in child.stdout if line.endswith("\n")])


@pytest.mark.parametrize("rounds", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_again_and_again_nothing_acknowledged_is_lost(tmp_path: Path, rounds: int) -> None:
    """After each kill the state is the last acknowledged one, or the next, and every index agrees with it."""
    rng = np.random.default_rng(rounds)
    state: dict[str, Item] = {}
    number = 0
    for _ in range(rounds):
        for _ in range(storm(tmp_path, number, float(rng.uniform(0, 0.4)))):
            state = foretold(state, number)
            number += 1
        with Collection.open(tmp_path, SPACE, plan=PLAN) as collection:
            if not equal(held(collection), state):  # the change that nobody had heard of yet had been made
                state = foretold(state, number)
                number += 1
            assert equal(held(collection), state)
            asked = query(feature(1, 1), limit=20)
            ranked = brute(state.values(), SPACE, asked)
            assert sorted(answers(collection.search(asked))) == sorted(ranked)
            assert collection.disagreements() == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Four megabytes; skips where nobody may mount."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def fill(collection: Collection, state: dict[str, Item]) -> None:
    """Write until it fails; the state is what was acknowledged."""
    for number in range(1000):
        item = thing(f"item {number}", np.random.default_rng(number), views=99)
        collection.upsert([item])
        state[item.id] = item


def test_a_disk_that_fills_up_loses_nothing_and_heals(small_disk: Path) -> None:
    """A real one, with pictures, saved indexes and snapshots on it; removing something is enough."""
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * 1_000_000)
    state: dict[str, Item] = {}
    with Collection.open(small_disk / "things", SPACE) as collection:
        with pytest.raises(StoreError, match="disk is full"):
            fill(collection, state)
        assert len(state) > 5
        assert equal(held(collection), state)
        with pytest.raises(CopyError, match="disk is full"):
            collection.snapshot(small_disk / "x.tar")
        with pytest.raises(BlobError, match="No space left"):
            collection.blobs.put(b"y" * 2_000_000)
        assert len(collection.search(query(feature(1), limit=1000))) == len(state)
    with Collection.open(small_disk / "things", SPACE, read_only=True) as collection:
        assert equal(held(collection), state)
    filler.unlink()
    with Collection.open(small_disk / "things", SPACE) as collection:
        assert equal(held(collection), state)
        collection.upsert([thing("new", np.random.default_rng(0))])
        assert collection.count() == len(state) + 1
    assert list(small_disk.rglob(".writing-*")) == []


def test_a_full_disk_loses_nothing_and_heals(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    old, new = thing("old", rng), thing("new", rng)
    large = Item("large", tuple(view(n, feature(n, 1)) for n in range(3000)))
    with Collection.open(tmp_path, SPACE) as collection:
        collection.upsert([old])
        used = max(path.stat().st_size for path in tmp_path.glob("store.sqlite*"))
        with no_file_larger_than(used + 20_000), pytest.raises(StoreError, match=r"store\.sqlite failed"):
            collection.upsert([new, large])
        assert collection.version == 1
        assert equal(held(collection), {"old": old})
        assert [hit.id for hit in collection.search(query(feature(1)))] == ["old"]
        collection.upsert([new])
    with Collection.open(tmp_path, SPACE) as collection:
        assert equal(held(collection), {"old": old, "new": new})


def test_an_outage_is_told_once_though_reading_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    outages = OutageLog("the store")
    for _ in range(3):
        outages.failed("disk is full", "writing")
        outages.worked("reading")
    assert not outages.away
    outages.failed("no route")
    outages.worked()
    assert not outages.away
    outages.worked("writing")
    assert caplog.messages == ["the store fails: disk is full", "the store works again"]
