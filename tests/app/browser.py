"""The search page in a headless Chromium, as somebody in front of it sees and uses it."""

import json
import os
import shutil
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    StaleElementReferenceException,
    TimeoutException,
)
from selenium.webdriver import ActionChains, Chrome, ChromeOptions, ChromeService, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from tests.waiting import PATIENCE

marks = [
    pytest.mark.browser,
    pytest.mark.skipif(not shutil.which("chromedriver"), reason="chromium-driver is not installed"),
]
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--enable-unsafe-swiftshader",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
STICKS_OUT = "const { scrollWidth, clientWidth } = document.documentElement; return scrollWidth - clientWidth"
DROP = """const data = new DataTransfer();
for (const [name, coded] of Object.entries(arguments[0]))
  data.items.add(new File([Uint8Array.from(atob(coded), (c) => c.charCodeAt(0))], name));
const options = {dataTransfer: data, bubbles: true, cancelable: true};
for (const kind of ['dragenter', 'dragover', 'drop'])
  (document.querySelector('dialog[open]') ?? document.body).dispatchEvent(new DragEvent(kind, options));"""
STATE = """return {
  clues: [...document.querySelectorAll('.clue .face')].map((e) => e.textContent),
  words: document.getElementById('words')?.value,
  status: document.getElementById('status')?.textContent,
  message: document.getElementById('message')?.textContent,
  found: [...document.querySelectorAll('#results .card')].map((e) => e.dataset.item),
  keyboard: document.activeElement?.outerHTML.slice(0, 200),
};"""
# Reasons to look again: the page is being drawn, or draws something anew.
NOT_YET = StaleElementReferenceException, ElementNotInteractableException, ElementClickInterceptedException
POLL = 0.03  # seconds between two looks
T = TypeVar("T")


class Page:
    """The page, as somebody in front of it sees it."""

    def __init__(self, driver: Chrome, url: str) -> None:
        self.driver, self.url = driver, url

    def open(self, path: str = "/") -> None:
        self.driver.get(self.url + path)

    def wait(self, condition: Callable[[], T]) -> T:
        patient = WebDriverWait(self.driver, PATIENCE, POLL, ignored_exceptions=NOT_YET)
        try:
            return patient.until(lambda _: condition())
        except TimeoutException as late:
            raise AssertionError(f"waited {PATIENCE:g} s before {self.state()}") from late

    def state(self) -> str:
        """What the page shows and has logged, in a few lines."""
        shown = "\n".join(f"{name}: {value}" for name, value in self.script(STATE).items())
        return f"{self.driver.current_url}\n{shown}\nlogged: {self.complaints()}"

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def count(self, selector: str) -> int:
        return len(self.driver.find_elements(By.CSS_SELECTOR, selector))

    def click(self, selector: str) -> None:
        """Click what stands there, as soon as it does; what is drawn anew meanwhile is looked for again."""
        self.wait(lambda: self.count(selector) and self._clicked(selector))

    def click_for(self, selector: str, effect: Callable[[], object]) -> None:
        """Click until it has its effect: what moves, or is drawn anew, under a click has missed it."""

        def effective() -> bool:
            if not effect():
                self._clicked(selector)
            return bool(effect())

        self.wait(effective)

    def open_collection(self) -> None:
        """Open its dialog, by a button that moves when the number of items is known."""
        self.click_for(".stock", lambda: self.find("#collection").is_displayed())

    def unfold(self, details: str) -> None:
        """Open what is folded, by its summary."""
        self.click_for(f"{details} summary", lambda: self.find(details).get_property("open"))

    def open_filters(self) -> None:
        self.click_for("#narrow", lambda: self.find("#filters").is_displayed())

    def open_options(self) -> None:
        self.unfold("#options")

    def show_actions(self, card: str) -> None:
        """What can be done with a card: shown by a button where nothing can hover, else under the pointer."""

        def shown() -> bool:
            dots = self.find(f"{card} .dots")
            if dots.is_displayed():
                dots.click()
            else:
                ActionChains(self.driver).move_to_element(self.find(card)).perform()
            return self.find(f"{card} .acts").is_displayed()

        self.wait(shown)

    def _clicked(self, selector: str) -> bool:
        element = self.find(selector)
        if element.is_displayed():
            element.click()
            return True
        return False

    def press(self, selector: str, *keys: str, clear: bool = False) -> None:
        """Press keys, or enter text, in the element, as soon as it takes them; `clear` empties it first."""

        def pressed() -> bool:
            element = self.find(selector)
            if clear:
                element.clear()
            element.send_keys(*keys)
            return True

        self.wait(pressed)

    def script(self, text: str, *given: object) -> Any:  # noqa: ANN401 (whatever the page says)
        return self.driver.execute_script(text, *given)

    def texts(self, selector: str) -> list[str]:
        text = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
        return list(self.script(text, selector))

    def focused(self) -> str:
        """What the one at the keyboard is told."""
        text = "const at = document.activeElement; return at.getAttribute('aria-label') ?? at.textContent"
        return str(self.script(text))

    def type(self, words: str) -> None:
        self.press("#words", words, Keys.ENTER, clear=True)

    def drop(self, files: Mapping[str, bytes]) -> None:
        """Drop files where one may."""
        self.script(DROP, {name: b64encode(data).decode() for name, data in files.items()})

    def found(self) -> list[str]:
        """The ids of the cards, best first."""
        return list(
            self.script("return [...document.querySelectorAll('#results .card')].map((e) => e.dataset.item)")
        )

    def best(self) -> str | None:
        return next(iter(self.found()), None)

    def pictures_loaded(self) -> bool:
        script = """const all = [...document.querySelectorAll('#results img')];
        return all.length > 0 && all.every((image) => image.complete && image.naturalWidth > 0)"""
        return bool(self.script(script))

    @contextmanager
    def sized(self, width: int, height: int = 800, theme: str = "light") -> Iterator[None]:
        """The page in a window of this size, in light or dark."""
        command = self.driver.execute_cdp_cmd
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        command("Emulation.setDeviceMetricsOverride", size)
        command(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]}
        )
        try:
            yield
        finally:
            command("Emulation.clearDeviceMetricsOverride", {})
            command("Emulation.setEmulatedMedia", {"features": []})

    def shot(self, name: str) -> None:
        """A picture of the page, where somebody wants to look at it."""
        if folder := os.environ.get("MULTIFOLD_SCREENSHOTS"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.driver.save_screenshot(f"{folder}/{name}.png")

    def requests(self) -> list[str]:
        """Every address that our pages asked for since the last call (the browser's own start page aside)."""
        log = self.driver.get_log("performance")  # type: ignore[no-untyped-call]
        messages = (json.loads(entry["message"])["message"] for entry in log)
        sent = (m["params"] for m in messages if m["method"] == "Network.requestWillBeSent")
        return [p["request"]["url"] for p in sent if p["documentURL"].startswith(self.url)]

    def complaints(self) -> list[str]:
        logged = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [entry["message"] for entry in logged if entry["level"] == "SEVERE"]


@contextmanager
def browsing(url: str, profile: Path) -> Iterator[Page]:
    """A browser of its own."""
    options = ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = Chrome(options, ChromeService(shutil.which("chromedriver")))
    try:
        yield Page(driver, url)
    finally:
        driver.quit()
