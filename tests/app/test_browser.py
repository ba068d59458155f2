"""The search page in a real browser, against a real service. Needs chromium and chromium-driver."""

import json
import shutil
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import pytest
from selenium.webdriver import Chrome, ChromeOptions, ChromeService, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from tests.app.house import House, box, png

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not shutil.which("chromedriver"), reason="chromium-driver is not installed"),
]
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE = 30
T = TypeVar("T")


class Page:
    """The page, as somebody in front of it sees it."""

    def __init__(self, driver: Chrome, url: str) -> None:
        self.driver, self.url = driver, url

    def open(self, path: str = "/") -> None:
        self.driver.get(self.url + path)

    def wait(self, condition: Callable[[], T]) -> T:
        return WebDriverWait(self.driver, PATIENCE).until(lambda _: condition())

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
        return list(self.driver.execute_script(script, selector))

    def type(self, words: str) -> None:
        box = self.find("#words")
        box.clear()
        box.send_keys(words, Keys.ENTER)

    def best(self) -> str | None:
        """The id of the first card, as its caption's owner."""
        script = "return document.querySelector('#results .said')?.dataset.item"
        found: str | None = self.driver.execute_script(script)
        return found

    def pictures_loaded(self) -> bool:
        script = """const all = [...document.querySelectorAll('#results img')];
        return all.length > 0 && all.every((image) => image.complete && image.naturalWidth > 0)"""
        return bool(self.driver.execute_script(script))

    def requests(self) -> list[str]:
        """Every address that our pages asked for since the last call (the browser's own start page aside)."""
        log = self.driver.get_log("performance")  # type: ignore[no-untyped-call]
        messages = (json.loads(entry["message"])["message"] for entry in log)
        sent = (m["params"] for m in messages if m["method"] == "Network.requestWillBeSent")
        return [p["request"]["url"] for p in sent if p["documentURL"].startswith(self.url)]

    def complaints(self) -> list[str]:
        logged = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [entry["message"] for entry in logged if entry["level"] == "SEVERE"]


@pytest.fixture(scope="module")
def page(shop: House, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    options = ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = Chrome(options, ChromeService(shutil.which("chromedriver")))
    try:
        yield Page(driver, shop.url)
    finally:
        driver.quit()


def test_words_find_pictures_with_scores(page: Page) -> None:
    page.open()
    assert page.find("h1").is_displayed()
    page.type("a red box")
    page.wait(lambda: page.best() == "red-box")
    page.wait(page.pictures_loaded)
    scores = [float(score) for score in page.texts("#results .score")]
    assert len(scores) == 4
    assert scores == sorted(scores, reverse=True)
    page.wait(lambda: page.texts("#results .said")[0] == "a red box")
    assert page.find("#status").text.startswith("4 results")


def test_the_address_can_be_shared_and_back_goes_back(page: Page) -> None:
    page.open()
    page.type("a green box")
    page.wait(lambda: page.best() == "green-box")
    assert page.driver.current_url == f"{page.url}/?q=a+green+box"
    page.type("a blue box")
    page.wait(lambda: page.best() == "blue-box")
    page.driver.back()
    page.wait(lambda: page.best() == "green-box")
    assert page.find("#words").get_attribute("value") == "a green box"
    page.open("/?q=yellow&target=text")
    page.wait(lambda: page.best() == "yellow-box")
    page.wait(lambda: "yellow" in page.texts("#results .said")[0])
    assert page.find("[name=target][value=text]").is_selected()


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [("shape.glb", box("yellow"), "yellow-box"), ("p.png", png("blue"), "blue-box")],
)
def test_a_file_is_searched_with(page: Page, tmp_path: Path, name: str, data: bytes, expected: str) -> None:
    (tmp_path / name).write_bytes(data)
    page.open()
    page.find("#file").send_keys(str(tmp_path / name))
    page.wait(lambda: page.best() == expected)
    assert page.find("#attached-name").text == name
    page.find("#detach").click()
    page.wait(lambda: page.find("h1").is_displayed())
    assert page.best() is None


def test_a_file_can_be_dropped(page: Page) -> None:
    page.open()
    script = """const data = new DataTransfer();
    const bytes = Uint8Array.from(atob(arguments[0]), (c) => c.charCodeAt(0));
    data.items.add(new File([bytes], 'dropped.png', {type: 'image/png'}));
    const options = {dataTransfer: data, bubbles: true, cancelable: true};
    for (const kind of ['dragenter', 'dragover', 'drop'])
      document.body.dispatchEvent(new DragEvent(kind, options));"""
    page.driver.execute_script(script, b64encode(png("green")).decode())
    page.wait(lambda: page.best() == "green-box")
    assert not page.find("#drop").is_displayed()


def test_a_result_shows_all_its_sides_and_more_like_it(page: Page) -> None:
    page.open("/?q=a+blue+box")
    page.wait(lambda: page.best() == "blue-box")
    page.find("#results .card").click()
    page.wait(lambda: page.find("#detail").is_displayed())
    assert "item=blue-box" in page.driver.current_url
    assert page.texts("#detail li") == ["a blue box", "blue thing"]
    assert len(page.driver.find_elements(By.CSS_SELECTOR, "#detail .strip img")) == 7
    before = page.find("#detail .stage > img").get_attribute("src")
    page.find("#detail").send_keys(Keys.ARROW_RIGHT)
    page.wait(lambda: page.find("#detail .stage > img").get_attribute("src") != before)
    page.find("#detail").send_keys(Keys.ESCAPE)
    page.wait(lambda: not page.find("#detail").is_displayed())
    assert page.driver.current_url == f"{page.url}/?q=a+blue+box"
    page.find("#results .card").click()
    page.wait(lambda: page.find("#detail").is_displayed())
    page.find("#detail .solid").click()
    page.wait(lambda: "like=blue-box" in page.driver.current_url and page.best() == "blue-box")
    assert not page.find("#detail").is_displayed()


def test_a_bad_file_is_explained_and_the_next_search_works(page: Page, tmp_path: Path) -> None:
    (tmp_path / "text.glb").write_text("this is a text file")
    page.open()
    page.find("#file").send_keys(str(tmp_path / "text.glb"))
    page.wait(lambda: page.find("#message").is_displayed())
    assert "not a GLB file" in page.find("#message").text
    page.find("#detach").click()
    page.type("red")
    page.wait(lambda: page.best() == "red-box")
    assert not page.find("#message").is_displayed()
    assert all("status of 422" in complaint for complaint in page.complaints())


@pytest.mark.parametrize("width", [320, 768, 1600])
def test_nothing_sticks_out(page: Page, width: int) -> None:
    size = {"width": width, "height": 700, "deviceScaleFactor": 1, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    page.open("/?q=a+red+box&item=red-box")
    page.wait(lambda: page.best() == "red-box" and page.find("#detail").is_displayed())
    assert page.driver.execute_script("return document.documentElement.scrollWidth") == width
    page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_no_request_leaves_the_host(page: Page) -> None:
    page.open("/?q=a+red+box&item=red-box")
    page.wait(lambda: page.best() == "red-box" and page.pictures_loaded())
    asked = page.requests()
    assert f"{page.url}/web/app.js" in asked
    host = urlsplit(page.url).netloc
    ours = (host, "")  # data: and blob: have no host
    assert [url for url in asked if urlsplit(url.removeprefix("blob:")).netloc not in ours] == []
    assert page.complaints() == []


def test_the_page_is_small() -> None:
    web = Path(__file__).parents[2] / "app" / "web"
    assert sum(path.stat().st_size for path in web.iterdir()) < 40_000
