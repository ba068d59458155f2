"""The page while it waits, without a network, by keyboard alone; and the original that is fetched back."""

from collections.abc import Callable, Iterator

import pytest
from selenium.webdriver import ActionChains, Keys

from tests.app import browser
from tests.app.browser import Page
from tests.app.house import House, box

pytestmark = browser.marks
SLOW = {"offline": False, "latency": 1500, "downloadThroughput": -1, "uploadThroughput": -1}


@pytest.fixture
def network(page: Page) -> Iterator[Callable[..., object]]:
    """What the network is like, until the test ends."""
    command = page.driver.execute_cdp_cmd
    command("Network.enable", {})
    yield lambda **changes: command("Network.emulateNetworkConditions", {**SLOW, **changes})
    command("Network.emulateNetworkConditions", {**SLOW, "latency": 0})


def test_waiting_is_shown(page: Page, network: Callable[..., object]) -> None:
    page.open()
    page.wait(lambda: page.find("#stock").text == "4 items")
    network()
    page.press("#words", "a red box of patience", Keys.ENTER)
    page.wait(lambda: page.find("#status").text == "Searching …")
    page.wait(lambda: page.find("#results").get_attribute("aria-busy") == "true")
    assert page.count("#results .bones") == 12
    page.shot("waiting")
    page.wait(lambda: len(page.found()) == 4)
    assert page.count("#results .bones") == 0


def test_offline_is_told_and_ends_by_itself(page: Page, network: Callable[..., object]) -> None:
    page.open("/?q=a+red+box")
    page.wait(lambda: page.best() == "red-box")
    network(offline=True)
    page.wait(lambda: "You are offline" in page.find("#health").text)
    page.type("a blue box by the sea")
    page.wait(lambda: "This computer is offline" in page.find("#message").text)
    page.shot("offline")
    network(latency=0)
    page.wait(lambda: not page.find("#health").is_displayed())
    page.wait(lambda: page.best() == "blue-box")


def test_the_keyboard_is_enough(page: Page) -> None:
    page.open("/?q=a+red+box")
    page.wait(lambda: len(page.found()) == 4)

    def press(*keys: str) -> None:
        ActionChains(page.driver).send_keys(*keys).perform()

    first = "return document.querySelectorAll('#results .open')[arguments[0]] === document.activeElement"
    page.script("document.querySelector('#results .open').focus()")
    press(Keys.ARROW_RIGHT)
    assert page.script(first, 1)
    press(Keys.ARROW_LEFT)
    assert page.script(first, 0)
    with page.sized(320):
        press(Keys.ARROW_DOWN)  # two in a row
        assert page.script(first, 2)
    press(Keys.ENTER)
    page.wait(lambda: page.find("#detail").is_displayed())
    press(Keys.ESCAPE)
    page.wait(lambda: not page.find("#detail").is_displayed() and page.script(first, 2))
    press("/")
    assert page.script("return document.activeElement.id") == "words"
    page.open()
    press(Keys.TAB, Keys.ENTER)  # the first stop: past everything to the results
    assert page.script("return location.hash") == "#results"


def test_the_original_is_fetched_back(page: Page, shop: House) -> None:
    page.open("/?item=green-box")
    page.wait(lambda: page.count("#detail a[download]") == 1)
    link = page.find("#detail a[download]")
    assert link.get_property("textContent") == "Original (glb)"
    assert shop.client.get(str(link.get_attribute("href"))).content == box("green")
