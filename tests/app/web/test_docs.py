"""The pages of the API at /docs: drawn without a network, under the policy of the search page."""

from urllib.parse import urlsplit

from tests.app import browser
from tests.app.browser import Page
from tests.app.house import House

pytestmark = browser.marks


def test_the_api_can_be_read_and_tried(page: Page, shop: House) -> None:
    policy = shop.client.get("/docs").headers["content-security-policy"]
    assert "unsafe" not in policy
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
        urlsplit(shop.url).netloc
    }
    assert page.complaints() == []
