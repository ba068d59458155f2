"""The stages of an ingest, each alone, by the code that an ingest runs."""

import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.encoding.observations import ObservationEncoder
from app.ingest.caches import ContentCache
from app.ingest.originals import OriginalFiles
from app.ingest.pipeline import (
    ENCODE_BATCH,
    WRITE_BATCH,
    EncodedItem,
    IngestPipeline,
    PreparedItem,
    encode_items,
)
from app.ingest.plan import IngestPlan, plan_folder
from app.ingest.sources import IngestTask, find_source
from app.settings import Settings
from benches.service.running_service import process_tree, processor_time
from index.collection import Collection
from multifold.bundle.encoder import Encoder
from multifold.files import folder
from multifold.files.folder import FolderLayout
from renderers.mesh.formats.table import EXTENSIONS
from renderers.sandbox import Sandbox


@dataclass(frozen=True)
class StageTime:
    """Seconds for all items, wall time and processor time."""

    clock: float
    cpu: float


def time_stages(files: Path, home: Path, encoder: Encoder, workers: int, sample: int) -> dict[str, StageTime]:
    """The time of each stage for all items, from a sample of them; the walk is over all files."""
    times: dict[str, StageTime] = {}
    with _timing(times, "walk"):
        plan = _plan(files, home)
    tasks = random.Random(0).sample(plan.added, min(sample, len(plan.added)))  # noqa: S311 (no secret)
    scale = len(plan.added) / len(tasks)
    settings = Settings(data=home)
    with (
        Collection.open(home, encoder) as collection,
        Sandbox(workers) as sandbox,
        OriginalFiles(collection.blobs, copy=False) as originals,
    ):
        observer = ObservationEncoder(encoder, sandbox, settings)
        pipeline = IngestPipeline(collection, observer, originals)
        _prepare(pipeline, [task for task in tasks if task.mesh is not None][: 2 * workers])  # workers are up
        with _timing(times, "see", scale):
            prepared = _prepare(pipeline, tasks)
        encode_items(observer, prepared[:ENCODE_BATCH])
        with _timing(times, "encode", scale):
            encoded = [one for batch in pipeline.encode(iter(prepared)) for one in batch]
        items = [one for one in encoded if isinstance(one, EncodedItem)]
        with _timing(times, "write", scale):
            for start in range(0, len(items), WRITE_BATCH):
                pipeline.write(items[start : start + WRITE_BATCH])
    return times


def _plan(files: Path, home: Path) -> IngestPlan:
    with ContentCache(None) as contents:
        contents_read = folder.read(files, FolderLayout(EXTENSIONS, contents.companions))
        return plan_folder(contents_read, find_source(home, files), None, None, contents)


def _prepare(pipeline: IngestPipeline, tasks: Sequence[IngestTask]) -> list[PreparedItem]:
    prepared = [one for one in pipeline.prepare(tasks) if isinstance(one, PreparedItem)]
    for picture in (picture for one in prepared for picture in one.unseen):
        picture.blob.result()
    return prepared


@contextmanager
def _timing(times: dict[str, StageTime], stage: str, scale: float = 1.0) -> Iterator[None]:
    started = time.monotonic()
    before = processor_time(process_tree(os.getpid()))
    yield
    clock, cpu = time.monotonic() - started, processor_time(process_tree(os.getpid())) - before
    times[stage] = StageTime(clock * scale, cpu * scale)
