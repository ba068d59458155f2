"""One run of an ingest without the command, and what is in the collection after it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from app.encoding.observations import ObservationEncoder
from app.ingest.originals import OriginalFiles
from app.ingest.pipeline import IngestPipeline
from app.ingest.report import IngestReport
from app.ingest.run import IngestDestination, IngestRequest, compare
from app.ingest.sources import record_source
from app.settings import Settings
from index.collection import Collection
from index.names import MAIN
from multifold.bundle.encoder import Encoder
from multifold.cli import main
from renderers.sandbox import Sandbox
from tests.waiting import PATIENCE


class Take(Protocol):
    """Makes the collection `data` in the test's folder as a folder or a manifest is."""

    def __call__(self, path: Path, **options: Any) -> IngestReport: ...  # noqa: ANN401 (of the request)


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=1, seconds=PATIENCE) as opened:
        yield opened


@pytest.fixture
def take(data: Path, bundle: Path, encoder: Encoder, sandbox: Sandbox) -> Take:
    settings = Settings(data=data, bundle=bundle)

    def taken(path: Path, **options: Any) -> IngestReport:  # noqa: ANN401
        with (
            Collection.open(data, encoder) as collection,
            OriginalFiles(collection.blobs, copy=False) as originals,
        ):
            destination = IngestDestination(MAIN, settings.place, settings, encoder, collection)
            plan = compare(IngestRequest([path], **options), destination)
            if plan.source is not None:
                record_source(data, plan.source)
            collection.delete(plan.deleted)
            observer = ObservationEncoder(encoder, sandbox, settings)
            pipeline = IngestPipeline(collection, observer, originals)
            assert sum(pipeline.run(plan.tasks())) == len(plan.tasks())
        return IngestReport.of(plan, pipeline.skipped)

    return taken


@pytest.fixture
def ingest(data: Path, bundle: Path) -> Callable[..., int]:
    """The command, into the same collection."""

    def run(path: Path, *more: str) -> int:
        words = ["ingest", str(path), "--data", str(data), "--bundle", str(bundle), "--workers", "1"]
        return main([*words, *more])

    return run
