"""The stages of an ingest, each alone, by the code that an ingest runs."""

import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.benches.processes import descendants, processor_time
from app.intake import plan as intake_plan
from app.intake.content import Contents
from app.intake.pipeline import BATCH, PART, Intake, Ready
from app.intake.plan import Plan, Work
from app.intake.sources import source_of
from app.settings import Settings
from index.collection import Collection
from multifold import folder
from multifold.encoder import Encoder
from multifold.folder import Layout
from renderers.files.container import EXTENSIONS
from renderers.sandbox import Sandbox


@dataclass(frozen=True)
class Took:
    """Seconds for all items, by the clock and of all processors."""

    clock: float
    cpu: float


def alone(files: Path, home: Path, encoder: Encoder, workers: int, sample: int) -> dict[str, Took]:
    """What each stage takes for all items, from a sample of them; the walk is over all files."""
    took: dict[str, Took] = {}
    with _timing(took, "walk"):
        plan = _plan(files, home)
    works = random.Random(0).sample(plan.added, min(sample, len(plan.added)))  # noqa: S311 (no secret)
    scale = len(plan.added) / len(works)
    settings = Settings(data=home)
    with Collection.open(home, encoder) as collection, Sandbox(workers) as sandbox:
        intake = Intake(encoder, collection, sandbox, settings)
        _seen(intake, [work for work in works if work.mesh is not None][: 2 * workers])  # workers are up
        with _timing(took, "see", scale):
            ready = _seen(intake, works)
        intake.encode(ready[:PART])
        with _timing(took, "encode", scale):
            items = [item for part in intake.made(iter(ready)) for item in part.items]
        with _timing(took, "write", scale):
            for start in range(0, len(items), BATCH):
                intake.write(items[start : start + BATCH])
    return took


def _plan(files: Path, home: Path) -> Plan:
    with Contents(None) as contents:
        found = folder.read(files, Layout(EXTENSIONS, contents.companions))
        return intake_plan.plan(found, source_of(home, files), None, None, contents, names=True)


def _seen(intake: Intake, works: Sequence[Work]) -> list[Ready]:
    ready = [one for one in intake.seen(works) if isinstance(one, Ready)]
    for view in (view for one in ready for view in one.stored):
        view.result()
    return ready


@contextmanager
def _timing(took: dict[str, Took], stage: str, scale: float = 1.0) -> Iterator[None]:
    started, before = time.monotonic(), processor_time(descendants(os.getpid()))
    yield
    clock, cpu = time.monotonic() - started, processor_time(descendants(os.getpid())) - before
    took[stage] = Took(clock * scale, cpu * scale)
