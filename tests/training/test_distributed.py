"""Two processes learn what one would: the same losses, the same gradients, for every geometry."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.training import ranks as work
from tests.training import small
from training.batches import BatchStream
from training.distributed import DistributedRank, ProcessRank, join_processes

HOUSE = Path(__file__).resolve().parents[2]
CLOSE = 1e-5


class Two(DistributedRank):
    """Two ranks as far as arithmetic goes."""

    def __init__(self, rank: int) -> None:
        self.rank, self.count = rank, 2


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """What one process has found, and what two have."""
    alone, together = (tmp_path_factory.mktemp(name) for name in ("alone", "together"))
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*launch, "-m", "tests.training.ranks", str(together)],
        cwd=HOUSE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    work.everything(alone)
    return alone, together


@pytest.mark.slow
@pytest.mark.parametrize("name", work.recipes())
def test_gradients_are_those_of_one_process(name: str, folders: tuple[Path, Path]) -> None:
    alone, together = (torch.load(folder / "slopes.pt")[name] for folder in folders)
    assert alone.keys() == together.keys()
    assert len(alone) > 10
    for weight, ours in alone.items():
        rounding = CLOSE * max(1.0, float(ours.abs().max()))  # sums differ by a share of their largest part
        torch.testing.assert_close(together[weight], ours, atol=rounding, rtol=CLOSE, msg=weight)


@pytest.mark.slow
def test_a_run_of_two_that_broke_off_ends_as_that_of_one(folders: tuple[Path, Path]) -> None:
    alone, together = (small.told(folder / "run") for folder in folders)
    assert [line["step"] for line in alone if "loss" in line] == list(range(1, work.STEPS + 1))
    assert [line.keys() for line in together] == [line.keys() for line in alone]
    ours, theirs = ([line["loss"] for line in found if "loss" in line] for found in (alone, together))
    np.testing.assert_allclose(theirs, ours, atol=1e-3)
    for folder in folders:
        assert sorted(path.name for path in (folder / "run").iterdir()) == ["checkpoint.pt", "metrics.jsonl"]


@given(st.integers(1, 9), st.integers(0, 50))
def test_shares_cover_everything_once(count: int, length: int) -> None:
    parts = []
    for rank in range(count):
        mine = Two(rank)
        mine.count = count
        parts.append(range(length)[mine.share(length)])
    assert [place for part in parts for place in part] == list(range(length))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_batch_is_shared_as_it_would_have_been_drawn() -> None:
    recipe = small.recipe(items=7, views=2, captions=2, augment={"turn": 20.0})
    groups, _ = small.groups(recipe)
    whole, first, second = (
        next(BatchStream(groups, recipe.train, ranks)) for ranks in (ProcessRank(), Two(0), Two(1))
    )
    for name in ("pixels", "tokens", "places"):
        parts = torch.cat([getattr(batch, name) for batch in (first, second)])
        assert torch.equal(parts, getattr(whole, name))
    assert torch.equal(first.view_items, whole.view_items)
    assert torch.equal(second.text_items, whole.text_items)


def test_without_torchrun_there_is_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with join_processes("cpu") as (ranks, device):
        assert (ranks.count, ranks.is_first, device) == (1, True, "cpu")
