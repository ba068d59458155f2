"""The page over the demo encoder and furniture: in every size, light and dark, strict, pasted into."""

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Keys

from multifold.cli import main
from tests.app import browser
from tests.app.browser import STICKS_OUT, Page
from tests.app.house import House, house

pytestmark = browser.marks
BUNDLE = Path(__file__).parents[3] / "bundles" / "furniture"
ITEMS, SEED = 24, 44
WINDOWS = [(320, 640, "light"), (1280, 800, "light"), (1280, 800, "dark"), (3840, 2160, "dark")]
QUERY = "a red chair with four black legs"
PASTE = """const data = new DataTransfer();
const bytes = Uint8Array.from(atob(arguments[0]), (c) => c.charCodeAt(0));
data.items.add(new File([bytes], 'pasted.webp', {type: 'image/webp'}));
const options = {clipboardData: data, bubbles: true, cancelable: true};
document.activeElement.dispatchEvent(new ClipboardEvent('paste', options));"""
SLIDE = """const slider = document.querySelector('#sure');
slider.value = arguments[0];
for (const kind of ['input', 'change']) slider.dispatchEvent(new Event(kind));"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A small demo collection, made as `make serve` makes it."""
    folder = tmp_path_factory.mktemp("demo")
    made, data = folder / "furniture", folder / "data"
    assert main(["data", "furniture", "--items", str(ITEMS), "--seed", str(SEED), str(made)]) == 0
    given = [str(made / "manifest.jsonl"), "--data", str(data), "--bundle", str(BUNDLE), "--workers", "1"]
    assert main(["ingest", *given]) == 0
    with house(data, BUNDLE) as opened:
        yield opened


@pytest.fixture
def at(page: Page, demo: House) -> Page:
    """Its page."""
    return Page(page.driver, demo.url)


@pytest.mark.parametrize(("width", "height", "theme"), WINDOWS)
def test_it_fits(at: Page, width: int, height: int, theme: str) -> None:
    with at.sized(width, height, theme):
        at.open()
        at.wait(lambda: at.find("#stock").text == f"{ITEMS} items" and at.find("#banner").is_displayed())
        fits(at, f"start-{width}-{theme}")
        at.open(f"/?q={QUERY.replace(' ', '+')}")
        at.wait(lambda: len(at.found()) == ITEMS and at.find("#narrow").is_displayed())
        at.open_filters()
        at.wait(lambda: at.count("#filters .facet") > 0)
        at.wait(lambda: all(at.texts("#results .said")))
        fits(at, f"results-{width}-{theme}")
        at.open(f"/?q=a+long+query+with+legs&like={at.best()}&w=-2&color.is=red")
        at.wait(lambda: at.count(".clue") == 2)
        fits(at, f"clues-{width}-{theme}")
        at.open(f"/?q={QUERY.replace(' ', '+')}")
        at.wait(lambda: len(at.found()) == ITEMS)
        at.open_options()
        fits(at, f"options-{width}-{theme}")
        at.open_filters()
        at.unfold("#filters [data-facet=colour]")
        fits(at, f"filter-{width}-{theme}")
        at.press("#filters [data-facet=colour] summary", Keys.ESCAPE)
        at.click("#results .open")
        at.wait(lambda: at.count("#detail .near img") == 6)
        at.click(".explain")
        at.wait(lambda: at.count(".why .sides dt") > 0)
        fits(at, f"detail-{width}-{theme}")
        at.click("#detail .close")
        at.open_collection()
        at.unfold("#work")
        at.wait(lambda: at.count("#jobs li") == 1)
        fits(at, f"collection-{width}-{theme}")


def fits(page: Page, name: str) -> None:
    """Nothing sticks out sideways, neither from the window nor from what is opened in it."""
    inner = (
        "const e = document.querySelector('dialog[open] > *'); return e ? e.scrollWidth - e.clientWidth : 0"
    )
    assert page.script(STICKS_OUT) == 0
    assert page.script(inner) == 0
    page.shot(f"demo-{name}")


def test_points_that_speak_for_a_hit_are_named_once(at: Page) -> None:
    at.open(f"/?q={QUERY.replace(' ', '+')}")
    at.wait(lambda: len(at.found()) == ITEMS)
    said = [part for text in at.texts("#results .words") for part in text.removeprefix("by ").split(", ")]
    assert {"view", "points"} <= {*said}
    assert all(len({*text.split(", ")}) == len(text.split(", ")) for text in at.texts("#results .words"))
    at.click("#results .open")
    at.click(".explain")
    at.wait(lambda: at.count("#detail .sides dt") > 0)
    named = at.texts("#detail .sides dt")
    assert not [name for name in (*said, *named) if "points" in name and name != "points"]
    first = at.texts("#results .words")[0].removeprefix("by ").split(", ")
    assert all(name.startswith(tuple(first)) for name in named)  # the same words for the same things


@pytest.mark.parametrize("sure", [0.05, 0.95])
def test_one_can_be_strict_and_nothing_may_match_well(at: Page, demo: House, sure: float) -> None:
    at.open("/?q=a+submarine+of+glass&target=shape")
    at.wait(lambda: len(at.found()) == ITEMS)
    assert all("%" in score for score in at.texts("#results .score"))
    at.open_options()
    at.script(SLIDE, sure)
    at.wait(lambda: f"sure={sure:g}" in at.driver.current_url)
    asked = demo.search(text="a submarine of glass", limit=ITEMS, min_confidence=sure).json()["hits"]
    at.wait(lambda: at.found() == [hit["id"] for hit in asked])
    at.wait(lambda: at.find("#strictness").text == f"{round(100 * sure)} %")
    if not asked:
        at.wait(lambda: "Nothing matches well" in at.find("#message").text)
        at.shot("demo-nothing")
    assert sure < 0.5 or not asked


def test_a_picture_is_pasted(at: Page, demo: House) -> None:
    wanted = demo.search(text=QUERY).json()["hits"][2]["id"]
    picture = demo.client.get(f"/v1/items/{wanted}/views/1").content
    at.open()
    at.click("#words")
    at.script(PASTE, b64encode(picture).decode())
    at.wait(lambda: at.texts(".clue .face") == ["pasted.webp"])
    at.wait(
        lambda: (
            at.best() == wanted and ", view 2" in str(at.find("#results .open").get_attribute("aria-label"))
        )
    )
    assert "image/*" in str(at.find("#file").get_attribute("accept"))  # where phones offer the camera
