"""The start of the page, its help, a picture that comes late, a key that is entered, and what is selected."""

import io
import json
import threading
import zipfile
from pathlib import Path

import pytest
from selenium.webdriver import ActionChains, Keys

from app.concurrency.batching import QueueFullError
from tests.app import browser
from tests.app.browser import Page
from tests.app.house import House, box, house, png

pytestmark = browser.marks
KINDS = {"red": "crate", "green": "crate", "blue": "parcel", "yellow": "parcel"}
ADMIN = "admin-key-0123456789"


@pytest.fixture(scope="module")
def store(own: House) -> House:
    """A service of boxes of two kinds."""
    for colour, kind in KINDS.items():
        payload = {"name": f"{colour} box", "kind": kind, "mainColour": colour, "tags": ["old"]}
        files = {"mesh": ("box.glb", box(colour))}
        data = {"payload": json.dumps(payload), "texts": [f"a {colour} box"]}
        assert own.client.put(f"/v1/items/{colour}", files=files, data=data).status_code == 200
    return own


@pytest.fixture
def at(page: Page, store: House) -> Page:
    """Its page."""
    return Page(page.driver, store.url)


def press(page: Page, *keys: str) -> None:
    ActionChains(page.driver).send_keys(*keys).perform()


def test_the_start_shows_what_there_is(at: Page) -> None:
    at.open()
    at.wait(lambda: at.count("#start .sentences li") == 1)
    assert at.texts("#start .newest .name") == ["yellow box", "blue box", "green box", "red box"]
    assert at.texts("#start .tiles:not(.newest) .tile") == ["crate2", "parcel2"]
    assert at.texts("#start .sentences li") == ["Main colour blue (1), green (1), red (1), yellow (1)."]
    at.wait(
        lambda: at.script("return [...document.querySelectorAll('#start img')].every((i) => i.naturalWidth)")
    )
    at.shot("start")
    at.click("#start .newest a")
    at.wait(lambda: at.find("#detail").is_displayed() and at.find("#detail .id").text == "yellow")
    press(at, Keys.ESCAPE)
    at.wait(lambda: not at.find("#detail").is_displayed())
    at.click("#start .tiles:not(.newest) .tile")
    at.wait(lambda: sorted(at.found()) == ["green", "red"])
    assert at.driver.current_url == f"{at.url}/?is.kind=crate"
    assert not at.find("#start").is_displayed()
    at.driver.back()
    at.wait(lambda: at.find("#start").is_displayed())


def test_an_item_without_a_picture_has_a_drawing_of_its_kind(at: Page, store: House) -> None:
    assert store.client.put("/v1/items/said", json={"texts": ["words alone"], "payload": {}}).is_success
    try:
        at.open("/?all=1")
        at.wait(lambda: "said" in at.found())
        tile = "#results [data-item=said] .picture"
        at.wait(lambda: at.count(f"{tile} svg") == 1)
        assert at.find(tile).text == ""
        at.open()
        at.wait(lambda: at.texts("#start .newest .name")[:1] == ["words alone"])
        assert at.texts("#start .newest .picture")[0] == ""
        assert not at.find("#examples").is_displayed()
    finally:
        store.client.delete("/v1/items/said")


def test_facets_count_what_was_found(at: Page) -> None:
    at.open("/?q=a+red+box&target=text&sure=0.3")
    at.wait(lambda: at.count("#results .card") > 0 or "Nothing matches well" in at.find("#message").text)
    at.open_filters()
    at.wait(lambda: at.count("#filters [data-facet=mainColour] label") == 4)
    found = at.found()
    counted = at.texts("#filters [data-facet=mainColour] label .quiet")
    at.wait(lambda: at.texts("#filters [data-facet=mainColour] label .quiet").count("1") == len(found))
    assert len(counted) == 4
    assert [text for text in at.texts("#filters summary") if text[0].islower()] == []


def test_the_keys_are_told(at: Page) -> None:
    at.open()
    at.wait(lambda: at.count("#start .tile") > 0)
    press(at, "?")
    at.wait(lambda: at.count("#help[open]") == 1)
    assert "to the search box" in at.find("#help").text
    at.shot("help")
    press(at, Keys.ESCAPE)
    at.wait(lambda: at.count("#help") == 0)
    at.press("#words", "what?")
    assert at.count("#help") == 0


def test_a_picture_that_does_not_come_is_asked_for_again(at: Page) -> None:
    command = at.driver.execute_cdp_cmd
    command("Network.enable", {})
    command("Network.setCacheDisabled", {"cacheDisabled": True})
    command("Network.setBlockedURLs", {"urls": ["*/views/*"]})
    at.open("/?q=a+red+box&target=shape")
    at.wait(lambda: at.count("#results img") == 4)
    command("Network.setBlockedURLs", {"urls": []})
    at.wait(at.pictures_loaded)
    command("Network.setCacheDisabled", {"cacheDisabled": False})
    at.complaints()


def test_a_search_that_failed_is_asked_again_by_itself(at: Page) -> None:
    command = at.driver.execute_cdp_cmd
    at.open()
    at.wait(lambda: at.count("#start .tile") > 0)
    command("Network.enable", {})
    command("Network.setBlockedURLs", {"urls": ["*/v1/*", "*/readyz"]})
    at.type("a green box")
    at.wait(lambda: "does not answer" in at.find("#message").text)
    assert "Try again" in at.texts("#message button")
    command("Network.setBlockedURLs", {"urls": []})
    at.wait(lambda: at.best() == "green")
    at.complaints()


def test_a_busy_service_is_asked_again_by_itself(
    at: Page, store: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = threading.Event()
    busy.set()

    def refuse() -> None:
        if busy.is_set():
            raise QueueFullError(3, 2.0)

    monkeypatch.setattr(store.service.searches, "refuse_if_full", refuse)
    at.open()
    at.type("a blue box that many want")
    sentences = ["3 requests are waiting already; try again in 2 s", "Asked again in 2 s."]
    at.wait(lambda: at.texts("#message p") == sentences)
    assert at.find("#message h2").text == "The service is busy"
    busy.clear()
    at.wait(lambda: at.best() == "blue")
    assert not at.find("#message").is_displayed()
    at.complaints()


def test_words_that_cannot_be_searched_for_are_no_file(at: Page) -> None:
    at.open("/?q=a+box&like=nothing-of-this-name")
    at.wait(lambda: at.find("#message h2").text == "This cannot be searched for")
    assert "nothing-of-this-name" in at.texts("#message p")[0]
    at.complaints()


def test_what_comes_into_an_empty_collection_is_shown(page: Page, tmp_path: Path, bundle: Path) -> None:
    with house(tmp_path, bundle) as empty:
        at = Page(page.driver, empty.url)
        at.open()
        at.wait(lambda: at.find("#empty").is_displayed())
        for colour, names in (("red", ["a red box"]), ("blue", ["a blue box", "a red box"])):
            empty.fill(colour)
            at.wait(lambda names=names: at.texts("#start .newest .name") == names)  # type: ignore[misc]
        assert not at.find("#empty").is_displayed()


def select(page: Page, *names: str) -> None:
    page.open("/?all=1")
    for name in names:
        card = f"[data-item={name}] .pick input"
        page.wait(lambda card=card: page.count(card) == 1)  # type: ignore[misc]
        page.script("document.querySelector(arguments[0]).click()", card)
    page.wait(lambda: page.find("#picked strong").text == f"{len(names)} selected")


def test_selected_items_are_fetched_and_tagged(at: Page, store: House) -> None:
    select(at, "red", "blue", "green")
    at.shot("selected")
    link = str(at.find("#picked a").get_attribute("href"))
    with zipfile.ZipFile(io.BytesIO(store.client.get(link).content)) as archive:
        assert archive.read("red/red.glb") == box("red")
        assert {name.split("/")[0] for name in archive.namelist()} == {"red", "blue", "green"}
    at.click("#picked button:nth-of-type(1)")
    at.press("#picked form input", "sold, old", Keys.ENTER)
    at.wait(lambda: "3 items tagged: sold, old." in at.texts("#note"))
    tags = {name: store.client.get(f"/v1/items/{name}").json()["payload"]["tags"] for name in KINDS}
    assert tags == {name: ["old"] + ["sold"] * (name != "yellow") for name in KINDS}
    assert not at.find("#picked").is_displayed()


def test_at_most_100_are_selected(at: Page, store: House) -> None:
    names = [f"more-{place:03}" for place in range(101)]
    store.client.post("/v1/items", json={"items": [{"id": name, "texts": ["a box"]} for name in names]})
    chosen = "return document.querySelectorAll('.pick input:checked').length"
    try:
        with at.sized(1280, 9000):
            at.open("/?all=1")
            at.wait(lambda: at.count(".card .pick input") == 105)
            at.script("document.querySelectorAll('.card .pick input').forEach((box) => box.click())")
            at.wait(lambda: at.texts("#picked strong") == ["100 selected"])
            assert at.script(chosen) == 100
    finally:
        store.client.post("/v1/items/delete", json={"ids": names})


def test_two_are_compared(at: Page) -> None:
    select(at, "red", "blue")
    at.click("#picked button:nth-of-type(2)")
    at.wait(lambda: at.count("#compare canvas.mesh") == 2)
    rows = dict(
        zip(
            at.texts("#compare tbody th"),
            at.script("return [...document.querySelectorAll('#compare tbody tr')].map((e) => e.className)"),
            strict=True,
        )
    )
    assert rows["Name"] == rows["Kind"] == rows["Main colour"] == "differs"
    at.shot("compare")
    turns = "return [...document.querySelectorAll('#compare canvas')].map((e) => e.dataset.turn)"
    at.wait(lambda: None not in at.script(turns))
    start = at.script(turns)
    at.press("#compare canvas", Keys.ARROW_RIGHT)
    at.wait(lambda: at.script(turns)[1] != start[1])  # both turn together
    assert len(set(at.script(turns))) == 1
    press(at, Keys.ESCAPE)
    at.wait(lambda: at.count("#compare") == 0)
    at.script("document.querySelector('#results .open').focus()")
    press(at, Keys.ESCAPE)
    at.wait(lambda: not at.find("#picked").is_displayed())


def test_a_key_is_entered(page: Page, tmp_path: Path, bundle: Path) -> None:
    with house(tmp_path, bundle, keys=f"admin:{ADMIN}") as locked:
        locked.client.headers["x-api-key"] = ADMIN
        locked.client.put("/v1/items/red", files={"images": ("p.png", png("red"))})
        at = Page(page.driver, locked.url)
        at.open("/?all=1")
        at.wait(lambda: at.count("#message input") == 1)
        at.shot("key")
        at.press("#message input", "not-the-key-0123456", Keys.ENTER)
        at.wait(lambda: "not known here" in at.find("#message").text)
        at.press("#message input", ADMIN, Keys.ENTER)
        at.wait(lambda: at.best() == "red" and at.pictures_loaded())
        assert not at.script("return document.cookie")  # no script can read it
        at.open()
        at.open_collection()
        at.wait(lambda: "admin-1 may admin" in at.find("#key").text)
        at.click("#key button")
        at.wait(lambda: at.count("#key input") == 1 or "wants a key" in at.find("#message").text)
