"""The pages of the API at /docs: drawn without a network, under the policy of the search page."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.app import browser
from tests.app.browser import Page, browsing
from tests.app.house import House, house

pytestmark = browser.marks


@pytest.fixture
def empty(tmp_path: Path, bundle: Path) -> Iterator[House]:
    """A service that holds nothing."""
    with house(tmp_path / "empty", bundle) as opened:
        yield opened


@pytest.fixture
def page(empty: House, tmp_path: Path) -> Iterator[Page]:
    with browsing(empty.url, tmp_path / "profile") as opened:
        yield opened


def test_the_api_can_be_read_and_tried(page: Page, empty: House) -> None:
    policy = empty.client.get("/docs").headers["content-security-policy"]
    assert "unsafe" not in policy
    page.requests(), page.complaints()
    page.open("/docs")
    page.wait(lambda: page.count(".opblock-tag") > 8)
    assert page.texts(".opblock-tag-section small")[0].startswith("Find items by texts")
    page.click(".opblock-tag[data-tag=info]")
    page.click("#operations-info-get_info .opblock-summary-control")
    page.click("#operations-info-get_info .try-out__btn")
    page.click("#operations-info-get_info .execute")
    answer = "#operations-info-get_info .live-responses-table .response .response-col_status"
    page.wait(lambda: any(one.startswith("200") for one in page.texts(answer)))
    page.shot("docs")
    assert page.count(".authorize") == 1
    assert {urlsplit(one).netloc for one in page.requests() if not one.startswith(("data:", "blob:"))} == {
        urlsplit(empty.url).netloc
    }
    assert page.complaints() == []
