"""One bundle and one service for the tests that only read; each test that writes cleans up after itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.collections import evidence
from renderers import sandbox
from tests import tiny
from tests.app.browser import Page, browsing
from tests.app.house import BOXES, House, house


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny bundle."""
    folder = tmp_path_factory.mktemp("bundles") / "tiny"
    tiny.build(folder)
    return folder


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory, bundle: Path) -> Iterator[House]:
    """A service with four boxes."""
    with house(tmp_path_factory.mktemp("shop"), bundle) as opened:
        for colour in BOXES:
            assert opened.put(f"{colour}-box", colour).status_code == 200
        yield opened


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


@pytest.fixture(scope="session", autouse=True)
def undrawn() -> Iterator[None]:
    """No process waits for meshes: most services here see none, and one takes a second to start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox, "READY", 0)
        yield


@pytest.fixture(scope="session", autouse=True)
def unfitted() -> Iterator[None]:
    """Evidence is weighted by what holds without a fit, which would come in the middle of a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "FEW", 1 << 40)
        yield
