"""In a browser: sorted, narrowed by numbers, folded, judged; and titles that people can read."""

import json

import pytest
from selenium.webdriver import Keys

from tests.app import browser
from tests.app.browser import Page
from tests.app.house import House, box

pytestmark = browser.marks
PRICES = {colour: 10 * (1 + n) + n / 4 for n, colour in enumerate(["blue", "red", "green", "yellow"])}
HEIGHTS = {"blue": 0.9, "red": 0.8, "green": 0.7, "yellow": 1.2}
NAMES = {"red": "Zebra", "green": "Apple"}


@pytest.fixture(scope="module")
def priced(own: House) -> House:
    """A service of boxes with prices, one of them twice; and many captions, each with a number."""
    for colour, price in PRICES.items():
        payload = {"price": price, "sizes": {"legs": 4 if price > 30 else 3}}
        payload |= {"name": NAMES[colour]} if colour in NAMES else {}
        for name in (f"old/{colour}_box",) if colour != "red" else ("old/red_box", "copy/red_box"):
            files = {"mesh": ("box.glb", box(colour, HEIGHTS[colour]), "model/gltf-binary")}
            texts = [] if colour == "yellow" else [f"a {colour} box", "a thing"]
            data = {"texts": texts, "payload": json.dumps(payload)}
            path = f"/v1/items/{name.replace('/', '%2F')}"
            assert own.client.put(path, data=data, files=files).status_code == 200
    rows = [{"id": f"n{n:02}", "texts": ["a purple word"], "payload": {"weight": n}} for n in range(60)]
    assert own.client.post("/v1/items", json={"items": rows}).json()["refused"] == 0
    return own


@pytest.fixture
def at(page: Page, priced: House) -> Page:
    """Its page."""
    return Page(page.driver, priced.url)


def names(page: Page) -> list[str]:
    """The titles of the cards."""
    return page.texts("#results .name")


def sort(page: Page, label: str) -> None:
    """Choose an order by what it is called."""
    page.wait(lambda: f"Sort: {label}" in page.texts("#sort option"))
    text = "[...arguments[0].options].find((one) => one.text === arguments[1]).index"
    chosen = f"arguments[0].selectedIndex = {text}; arguments[0].dispatchEvent(new Event('change'))"
    page.script(chosen, page.find("#sort"), f"Sort: {label}")


def test_titles_are_names_or_captions_or_the_end_of_an_id(at: Page) -> None:
    at.open("/?q=a+box&target=shape")
    at.wait(lambda: sorted(names(at)) == ["Apple", "Zebra", "Zebra", "a blue box", "yellow box"])
    labels = "return [...document.querySelectorAll('#results [aria-label]')].map((e) => e.ariaLabel)"
    assert len(at.script(labels)) == 45
    assert not [label for label in at.script(labels) if "_box" in label]
    at.click("[data-item='old/blue_box'] .open")
    at.wait(lambda: at.count("#detail-title") and at.find("#detail-title").text == "a blue box")


def test_a_search_is_sorted_among_its_best(at: Page) -> None:
    at.open("/?q=a+red+box&target=shape")
    at.wait(lambda: len(at.found()) == 5)
    sort(at, "Price, low first")
    ends = ["old/blue_box", "old/green_box", "old/yellow_box"]
    twins = ["copy/red_box", "old/red_box"]  # of one price, in any order
    at.wait(lambda: at.found() in ([*ends[:1], *order, *ends[1:]] for order in (twins, twins[::-1])))
    assert at.driver.current_url == f"{at.url}/?q=a+red+box&target=shape&sort=payload.price"
    sort(at, "Price, high first")
    at.wait(lambda: at.best() == "old/yellow_box")
    at.shot("sorted")
    sort(at, "name")
    at.wait(lambda: names(at) == ["a blue box", "Apple", "yellow box", "Zebra", "Zebra"])
    at.driver.back()
    at.wait(lambda: at.best() == "old/yellow_box")
    at.open("/?q=a+purple+word&target=text&sort=-payload.weight")
    at.wait(lambda: len(at.found()) == 64)
    assert at.found()[:60] == [f"n{n:02}" for n in reversed(range(60))]  # what has no weight comes last
    assert at.find("#status").text.startswith("64 results")


def test_what_was_measured_of_a_mesh_is_shown_and_sorts(at: Page) -> None:
    at.open("/?q=a+box&target=shape")
    at.wait(lambda: len(at.found()) == 5)
    sort(at, "Height (m), high first")
    at.wait(lambda: at.best() == "old/yellow_box")
    at.click("[data-item='old/yellow_box'] .open")
    at.wait(lambda: "1.2" in facts(at).get("Height (m)", ""))
    assert facts(at)["Triangles"] == "12"
    at.shot("measured")


def facts(at: Page) -> dict[str, str]:
    """The payload of the open item."""
    read = "return [...document.querySelectorAll('#detail dt')]"
    return dict(at.script(f"{read}.map((e) => [e.textContent, e.nextSibling.textContent])"))


def test_all_items_are_listed_in_the_services_order(at: Page) -> None:
    at.open("/?all=1")
    at.wait(lambda: at.best() == "copy/red_box")
    sort(at, "newest first")
    at.wait(lambda: at.found()[:2] == ["n59", "n58"])

    def scrolled() -> bool:
        at.script("scrollTo(0, document.body.scrollHeight)")  # again, for the page may still grow
        return len(at.found()) >= 48

    at.wait(scrolled)
    assert at.found()[:48] == [f"n{n}" for n in range(59, 11, -1)]
    sort(at, "Weight, low first")
    at.wait(lambda: at.found()[:3] == ["n00", "n01", "n02"])
    at.open_options()
    assert not at.find(".fold").is_displayed()


def test_numbers_narrow_from_here_to_there(at: Page) -> None:
    at.open("/?all=1")
    at.open_filters()
    at.unfold("[data-facet=weight]")
    fields = "[data-facet=weight] [type=number]"
    at.wait(lambda: at.count(fields) == 2)
    hints = "return [...document.querySelectorAll(arguments[0])].map((e) => e.placeholder)"
    assert at.script(hints, fields) == ["0", "59"]
    at.press(fields, "20", Keys.ENTER)
    at.wait(lambda: at.best() == "n20")
    at.wait(lambda: at.find("[data-facet=weight] summary").text == "Weight: from 20")
    assert at.script("return document.activeElement.dataset.key") == "gte weight"  # the keyboard stays
    at.press("[data-facet=weight] label:nth-child(2) input", "22.5", Keys.ENTER)
    at.wait(lambda: at.found() == ["n20", "n21", "n22"])
    at.wait(lambda: "3 items fit the filters" in at.find("#status").text)
    assert at.driver.current_url == f"{at.url}/?from.weight=20&to.weight=22.5&all=1"
    at.shot("range")
    at.open("/?to.weight=1")
    at.wait(lambda: at.found() == ["n00", "n01"])
    at.wait(lambda: at.find("[data-facet=weight] summary").text == "Weight: to 1")
    at.click("#filters .clear")
    at.wait(lambda: at.find("h1").is_displayed())
    at.open("/?all=1")
    at.open_filters()
    at.unfold("[data-facet='sizes.legs']")  # few numbers are chosen one by one, in their order
    at.wait(lambda: at.texts("[data-facet='sizes.legs'] label") == ["33", "42"])


def test_what_shows_the_same_is_shown_once(at: Page) -> None:
    at.open("/?q=a+red+box&target=shape")
    at.wait(lambda: len(at.found()) == 5)
    at.open_options()
    at.click("#fold")
    at.wait(lambda: len(at.found()) == 4)
    assert at.driver.current_url == f"{at.url}/?q=a+red+box&target=shape&fold=1"
    at.wait(lambda: "and 1 more of the same" in at.texts("#results .words"))
    shown = at.best()
    at.click("#results .open")
    at.wait(lambda: at.count("#detail .same a") == 1)
    (other,) = at.texts("#detail .same a")
    assert {shown, other} == {"old/red_box", "copy/red_box"}
    at.shot("folded")
    at.click("#detail .same a")
    at.wait(lambda: at.find("#detail .id").text == other)
    assert at.count("#detail .same") == 0
