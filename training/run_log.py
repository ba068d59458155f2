"""What a run reports while it trains: a progress bar, metrics.jsonl, and TensorBoard."""

import json
import resource
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from training.run import TrainingRun

MEGABYTE = 2**20
METRICS = "metrics.jsonl"


class RunLog:
    """The log of a run; entries beyond the run's step are cut off."""

    def __init__(self, folder: Path, run: TrainingRun) -> None:
        train = run.recipe.train
        self.every, self.last, self.items = train.log_every, train.steps, train.items
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()  # of this run, not of those before
        self.begun = time.monotonic()
        self.before = run.seconds
        self.lines = _opened(folder / METRICS, run.step)
        self.board = _board(folder, run.step)
        total, done = train.steps * train.items, run.step * train.items
        self.bar = tqdm(total=total, initial=done, unit="item", unit_scale=True, desc=folder.name)
        self.marked = (run.seconds, run.step)

    def step(self, run: TrainingRun, loss: float) -> None:
        run.seconds = self.before + time.monotonic() - self.begun
        self.bar.update(self.items)
        if run.step % self.every and run.step != self.last:
            return
        seconds, step = self.marked
        speed = (run.step - step) * self.items / max(run.seconds - seconds, 1e-9)
        self.marked = (run.seconds, run.step)
        memory = peak_memory()
        self.bar.set_postfix(loss=f"{loss:.3f}", memory=f"{memory / 1024:.1f}G")
        rate = float(run.schedule.get_last_lr()[0])
        numbers = {"loss": round(loss, 6), "rate": rate, **run.model.geometry.learned()}
        cost = {"items_per_second": round(speed, 1), "memory_mb": memory, "seconds": round(run.seconds, 1)}
        self._write(run.step, {**numbers, **cost})

    def validation(self, step: int, numbers: Mapping[str, float]) -> None:
        self._write(step, {f"val/{name}": value for name, value in numbers.items()})

    def _write(self, step: int, numbers: Mapping[str, float]) -> None:
        self.lines.write(json.dumps({"step": step, **numbers}) + "\n")
        self.lines.flush()
        for name, value in numbers.items() if self.board else ():
            self.board.add_scalar(name, value, step)

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.lines.close()
        self.bar.close()
        if self.board:
            self.board.close()


def peak_memory() -> int:
    """The peak memory of this process in megabytes: of the GPU if it uses one."""
    if torch.cuda.is_available() and (held := torch.cuda.max_memory_allocated()):
        return held // MEGABYTE
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // MEGABYTE


def _opened(path: Path, step: int) -> Any:  # noqa: ANN401 (an open file)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if step and path.exists() else []
    whole = [line for line in lines if line.endswith("}\n")]  # a killed process may have left half of one
    file = open(path, "w", encoding="utf-8")  # noqa: SIM115 (closed by the log)
    file.writelines(line for line in whole if json.loads(line)["step"] <= step)
    return file


def _board(folder: Path, step: int) -> Any:  # noqa: ANN401 (tensorboard may not be there)
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(folder, purge_step=step + 1)
