"""The page for those who do not see it, or have no mouse: axe-core finds no fault in any state."""

import re
from collections.abc import Callable
from importlib.resources import files
from itertools import product
from typing import Any

import pytest

from tests.app import browser
from tests.app.browser import STICKS_OUT, Page

pytestmark = browser.marks
AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
OPTIONS = {"rules": {"target-size": {"enabled": True}}}  # of WCAG 2.2, and off unless asked for
RUN = "const done = arguments[1]; axe.run(arguments[0]).then(done, (error) => done(String(error)))"

# How far what is in a panel sticks out of it.
INNER = """const panels = document.querySelectorAll(".choices, dialog[open] > *");
return [...panels].filter((one) => one.checkVisibility()).map((one) => one.scrollWidth - one.clientWidth)"""


def empty(page: Page) -> None:
    page.open("/")
    page.wait(lambda: page.find("#words").is_displayed())


def results(page: Page) -> None:
    page.open("/?q=a+red+box")
    page.wait(lambda: page.best() == "red-box" and page.pictures_loaded())


def nothing(page: Page) -> None:
    page.open("/?is.is=pink")
    page.wait(lambda: page.find("#message").text.startswith("No item fits these filters"))


def mix(page: Page) -> None:
    page.open("/?q=red&like=blue-box&w=-0.5")
    page.wait(lambda: len(page.found()) > 0)
    page.open_filters()
    page.unfold("#filters details")
    page.wait(lambda: page.count("#filters label") > 0)


def detail(page: Page) -> None:
    page.open("/?q=a+red+box&item=red-box")
    page.wait(lambda: page.find("#detail").is_displayed() and page.count("#detail .near a") > 0)


def options(page: Page) -> None:
    results(page)
    page.open_options()


def why(page: Page) -> None:
    detail(page)
    page.click(".explain")
    page.wait(lambda: page.count(".why .sides dt") > 0)


def collection(page: Page) -> None:
    page.open("/")
    page.open_collection()


def work(page: Page) -> None:
    collection(page)
    page.unfold("#work")
    page.click("#snap")
    page.wait(lambda: page.count("#jobs li") == 1 and page.count("#snapshots a") > 0)


def listed(page: Page) -> None:
    page.open("/?all=1&sort=newest&fold=1")
    page.wait(lambda: len(page.found()) == 4 and page.pictures_loaded())
    page.open_filters()
    page.unfold("#filters details")


def told_aloud(page: Page) -> list[tuple[str, str, dict[str, Any]]]:
    """Role, name and state of all that a screen reader finds, in its order."""
    page.driver.execute_cdp_cmd("Accessibility.enable", {})
    nodes = page.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    return [
        (
            node["role"]["value"],
            node.get("name", {}).get("value", ""),
            {one["name"]: one["value"].get("value") for one in node.get("properties", [])},
        )
        for node in nodes
        if not node.get("ignored")
    ]


def test_a_screen_reader_is_told_what_matched_and_how_well(page: Page) -> None:
    results(page)
    page.wait(lambda: page.count("#results .acts > button") == 12)
    page.wait(lambda: page.texts("#results .name")[0] == "a red box")
    page.show_actions("#results .card:first-child")
    found = told_aloud(page)
    names = {(role, name) for role, name, _ in found}
    assert {("search", ""), ("searchbox", "What are you looking for?"), ("list", "Results")} <= names
    links = [name for role, name, _ in found if role == "link" and re.search(r", (view|photo) \d$", name)]
    assert len(links) == 4
    assert re.fullmatch(r"a red box, confidence \d+ %, (view|photo) \d", links[0])
    assert ("button", "More like a red box") in names
    said = [(role, state["live"]) for role, _, state in found if role == "status"]
    assert said == [("status", "polite")] * 2  # the count, and the message
    assert page.find("#status").text.startswith("4 results")


def test_a_screen_reader_is_told_where_it_is_in_an_item(page: Page) -> None:
    detail(page)
    page.click("#detail .strip .match")  # instead of the mesh in 3D
    found = told_aloud(page)
    (dialog,) = [(name, state["modal"]) for role, name, state in found if role == "dialog"]
    assert dialog == ("A red box", True)
    views = {
        name: state["pressed"]
        for _, name, state in found
        if re.match(r"(view|photo) \d", name) and "pressed" in state
    }
    assert len(views) == 7
    (shown,) = [name for name, pressed in views.items() if pressed == "true"]
    assert shown.endswith(", the one that matched")
    assert not [name for role, name, _ in found if role == "searchbox"]  # what lies behind is out of reach


STATES = [empty, results, options, nothing, mix, detail, why, collection, work, listed]


@pytest.mark.parametrize("state", STATES)
def test_no_fault_is_found(page: Page, state: Callable[[Page], None]) -> None:
    with page.sized(1280):
        state(page)
    page.script(AXE)
    for width, theme in product((360, 1400), ("light", "dark")):
        with page.sized(width, theme=theme):
            found = page.driver.execute_async_script(RUN, OPTIONS)
            page.shot(f"access-{state.__name__}-{width}-{theme}")
            assert page.script(STICKS_OUT) == 0
            assert set(page.script(INNER)) <= {0}
        assert len(found["passes"]) > 20
        assert [told(fault) for fault in found["violations"]] == []


def told(fault: dict[str, Any]) -> str:
    """What is wrong, where, and how bad it is."""
    return f"{fault['impact']}: {fault['help']}: {[node['html'] for node in fault['nodes'][:3]]}"
