"""One service for the tests that only read; each test that writes cleans up after itself."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from app.collections import evidence
from index.collection import Collection
from multifold.bundle.encoder import Encoder
from multifold.types import Item
from renderers import sandbox
from renderers.contracts import MeshError
from renderers.lanes import Deadline
from renderers.messages import MeshRequest
from renderers.orders import PointOrder, RenderedMesh, SampledMesh, ViewOrder
from renderers.processes import Worker
from tests import tiny
from tests.app.browser import Page, browsing
from tests.app.house import House, house

Stored = Callable[[], dict[str, Item]]
MOST_KEPT = 3


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory, bundle: Path) -> Iterator[House]:
    """A service with four boxes."""
    with house(tmp_path_factory.mktemp("shop"), bundle) as opened:
        opened.fill()
        yield opened


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, bundle: Path) -> Iterator[House]:
    """A service of a file's own, empty at first."""
    with house(tmp_path_factory.mktemp("own"), bundle) as opened:
        yield opened


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The folder of a test's own collection."""
    return tmp_path / "data"


@pytest.fixture
def stored(data: Path, encoder: Encoder) -> Stored:
    """What that collection has, by id."""

    def items() -> dict[str, Item]:
        with Collection.open(data, encoder, read_only=True) as collection:
            return {item.id: item for item in collection.scroll()}

    return items


@pytest.fixture(scope="session")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of bundles: one that makes other vectors, and one that is damaged."""
    folder = tmp_path_factory.mktemp("others")
    tiny.build(folder / "second", seed=1, name="second")
    tiny.build(folder / "broken", seed=2, name="broken")
    (folder / "broken" / "image.onnx").write_bytes(b"")
    return folder


@pytest.fixture(scope="session")
def browser_page(shop: House, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browsing(shop.url, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def page(browser_page: Page) -> Page:
    """The search page of that service in a browser, which has forgotten what earlier tests logged."""
    browser_page.open()
    browser_page.requests(), browser_page.complaints()
    return browser_page


class KeptWorker(Worker):
    """A process that draws for the next service when the one before has ended: to start one takes seconds."""

    kept: ClassVar[list["KeptWorker"]] = []

    def __init__(self, memory_bytes: int, engine: str) -> None:
        super().__init__(memory_bytes, engine)
        self.made_for, self.is_well = (memory_bytes, engine), True

    def draw(self, request: MeshRequest, order: ViewOrder, deadline: Deadline) -> RenderedMesh:
        with self.watched():
            return super().draw(request, order, deadline)

    def sample(self, request: MeshRequest, order: PointOrder, deadline: Deadline) -> SampledMesh:
        with self.watched():
            return super().sample(request, order, deadline)

    def glb(self, request: MeshRequest, deadline: Deadline) -> bytes:
        with self.watched():
            return super().glb(request, deadline)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """What is no fault of the mesh itself leaves a process that nobody else should have."""
        try:
            yield
        except BaseException as error:
            self.is_well = type(error) is MeshError
            raise

    def kill(self) -> None:
        if self.is_well and len(self.kept) < MOST_KEPT:
            self.kept.append(self)
        else:
            super().kill()

    @classmethod
    def lent(cls, memory_bytes: int, engine: str) -> "KeptWorker":
        """One that is there, or a new one."""
        fitting = [one for one in cls.kept if one.made_for == (memory_bytes, engine)]
        if not fitting:
            return cls(memory_bytes, engine)
        cls.kept.remove(fitting[-1])
        return fitting[-1]


@pytest.fixture(scope="session", autouse=True)
def drawn_by_the_same() -> Iterator[None]:
    """Meshes of all services are drawn by the same few processes, which start when one comes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox, "READY", 0)
        patch.setattr(sandbox, "Worker", KeptWorker.lent)
        yield
    for worker in KeptWorker.kept:
        worker.is_well = False
        worker.kill()


@pytest.fixture(scope="session", autouse=True)
def unfitted() -> Iterator[None]:
    """Evidence is weighted by what holds without a fit, which would come in the middle of a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "FIRST_FIT_ITEMS", 1 << 40)
        yield
