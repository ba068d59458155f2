"""A mesh in 3D in a browser: it turns, it shows its edges, and without WebGL the stills stay."""

import io
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image
from selenium.webdriver import ActionChains, Keys

from tests.app import browser
from tests.app.browser import Page

pytestmark = browser.marks
NO_WEBGL = """const before = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind, ...more) {
  return kind === 'webgl2' ? null : before.call(this, kind, ...more);
};"""


def opened(page: Page) -> None:
    page.open("/?q=a+red+box&item=red-box")
    page.wait(lambda: page.count("#detail canvas.mesh") == 1 and at(page, "turn") > 0)


def at(page: Page, name: str) -> float:
    """Where the camera of the drawn picture was; not a number before there is one."""
    return float(page.find("canvas.mesh").get_attribute(f"data-{name}") or "nan")


def canvas(page: Page) -> np.ndarray:
    """What is seen of the canvas."""
    seen = Image.open(io.BytesIO(page.find("canvas.mesh").screenshot_as_png)).convert("RGB")
    return np.asarray(seen, float)


def picture(page: Page) -> np.ndarray:
    """Its middle, where the box is."""
    seen = canvas(page)
    height, width, _ = seen.shape
    return seen[height // 3 : -height // 3, width // 3 : -width // 3]


def test_a_mesh_is_shown_in_its_colour_and_turns(page: Page) -> None:
    opened(page)
    red, green, blue = picture(page).mean(axis=(0, 1))
    assert red > 100 > 1.5 * max(green, blue)
    page.shot("viewer")
    start = at(page, "turn")
    ActionChains(page.driver).drag_and_drop_by_offset(page.find("canvas.mesh"), 60, 0).perform()
    page.wait(lambda: at(page, "turn") != start)
    assert abs(at(page, "turn") - start + 0.6) < 0.05
    page.press("canvas.mesh", Keys.ARROW_RIGHT, Keys.ARROW_UP, "+")
    page.wait(lambda: at(page, "near") < 3)
    page.press("canvas.mesh", Keys.HOME)
    page.wait(lambda: at(page, "turn") == start)
    assert page.complaints() == []


def test_edges_and_grey_are_toggled(page: Page) -> None:
    opened(page)
    plain = picture(page)
    page.press("canvas.mesh", "g")
    page.wait(lambda: page.find(".tools button:nth-child(2)").get_attribute("aria-pressed") == "true")
    page.wait(lambda: np.ptp(picture(page).mean(axis=(0, 1))) < 3)
    assert np.abs(picture(page) - plain).max() > 50
    grey = canvas(page)
    page.click(".tools button:nth-child(1)")
    page.wait(lambda: np.abs(canvas(page) - grey).max() > 30)
    page.shot("viewer-edges")


def test_the_pictures_are_a_click_away_and_larger(page: Page) -> None:
    opened(page)
    page.click("#detail .strip [aria-label^=view]")
    page.wait(lambda: not page.find("canvas.mesh").is_displayed() and page.find(".table").is_displayed())
    page.wait(lambda: "size=512" in str(page.find(".table img").get_attribute("src")))
    page.wait(lambda: page.script("return document.querySelector('.table img').naturalWidth") == 512)
    page.click(".in3d")
    page.wait(lambda: page.find("canvas.mesh").is_displayed())


def test_it_is_loaded_only_when_an_item_is_open(page: Page) -> None:
    page.requests()
    page.open("/?q=a+red+box")
    page.wait(lambda: page.best() == "red-box" and page.pictures_loaded())
    assert not [url for url in page.requests() if "/ondemand/" in url or "/model" in url]
    page.click("#results .open")
    page.wait(lambda: page.count("#detail canvas.mesh") == 1)
    assert [url for url in page.requests() if url.endswith("/web/ondemand/viewer.js")]


@pytest.fixture
def without_webgl(page: Page) -> Iterator[Page]:
    command = page.driver.execute_cdp_cmd
    script = command("Page.addScriptToEvaluateOnNewDocument", {"source": NO_WEBGL})
    yield page
    command("Page.removeScriptToEvaluateOnNewDocument", script)


def test_without_webgl_the_stills_stay(without_webgl: Page) -> None:
    page = without_webgl
    page.open("/?q=a+red+box&item=red-box")
    page.wait(lambda: "this browser has no WebGL" in page.find("#detail .hint").text)
    assert page.count("#detail canvas") == 0
    before = page.find(".table").get_attribute("aria-valuenow")
    page.press(".table", Keys.ARROW_RIGHT)
    page.wait(lambda: page.find(".table").get_attribute("aria-valuenow") != before)
