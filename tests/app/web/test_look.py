"""Looking closer in a browser: filters, one item with all its sides, copies for the clipboard."""

import base64
import io
import json
import shlex

import numpy as np
import pytest
from PIL import Image, ImageDraw
from selenium.webdriver import ActionChains, Keys

from tests.app import browser
from tests.app.browser import Page
from tests.app.house import House, png

pytestmark = browser.marks
CARD = 300
QUERIES = ("q=it's+a+$box&target=text&is.is=red", "like=red-box", "q=red&like=blue-box&w=-0.5")
COPIED = "return window.copied"
# What is copied is kept for the test: a headless browser's clipboard belongs to nobody.
CATCH = "navigator.clipboard.writeText = async (text) => { window.copied = text; }"


def test_filters_narrow_and_are_cleared(page: Page) -> None:
    page.open("/?q=a+box")
    page.wait(lambda: len(page.found()) == 4)
    page.open_filters()
    page.unfold("#filters details")
    page.wait(lambda: page.count("#filters label") == 4)
    assert page.texts("#filters label") == ["blue1", "green1", "red1", "yellow1"]
    page.click("#filters label:nth-of-type(3) input")
    page.wait(lambda: page.found() == ["red-box"])
    page.click("#filters label:nth-of-type(1) input")
    page.wait(lambda: set(page.found()) == {"red-box", "blue-box"})
    page.wait(lambda: "2 items fit the filters" in page.find("#status").text)
    assert page.driver.current_url == f"{page.url}/?q=a+box&is.is=red&is.is=blue"
    page.wait(lambda: page.find("#filters summary").text == "Is: red, blue")
    page.shot("filters")
    page.click("#filters .clear")
    page.wait(lambda: len(page.found()) == 4)
    assert page.driver.current_url == f"{page.url}/?q=a+box"
    page.open("/?is.is=pink")
    page.wait(lambda: page.find("#message").text.startswith("No item fits these filters"))
    assert page.find("#status").text.startswith("0 results")
    assert not page.find("[type=range]").is_displayed()  # nothing to be strict about without a calibration


def test_the_size_of_a_file_is_one_filter(page: Page, shop: House) -> None:
    noted = [{"path": f"{size}.glb", "content": "0" * 64, "size": size} for size in (10, 20)]
    items = [
        {"id": one["path"], "texts": ["a file"], "payload": {**one, "measured": {"bytes": one["size"]}}}
        for one in noted
    ]
    shop.client.post("/v1/items", json={"items": items})
    try:
        page.open("/?q=a+file")
        page.open_filters()
        page.wait(lambda: "File size, bytes" in page.texts("#filters summary"))
        assert page.texts("#filters summary").count("File size, bytes") == 1
    finally:
        shop.client.post("/v1/items/delete", json={"ids": [item["id"] for item in items]})


def test_an_address_in_the_properties_is_a_link(page: Page, shop: House) -> None:
    payload = {"link": "https://models.example/a", "note": "javascript:alert(1)"}
    shop.client.put("/v1/items/linked", json={"texts": ["a thing"], "payload": payload})
    try:
        page.open("/?item=linked")
        page.wait(lambda: page.texts("#detail dd a") == ["https://models.example/a"])
        assert page.find("#detail dd a").get_attribute("href") == payload["link"]
    finally:
        shop.client.delete("/v1/items/linked")


def test_a_result_shows_all_its_sides(page: Page) -> None:
    page.open("/?q=a+blue+box&target=any")
    page.wait(lambda: page.best() == "blue-box")
    told = str(page.find("#results .open").get_attribute("aria-label"))
    card = told.rpartition(", ")[2] if "caption" not in told else ""
    page.click("#results .open")
    page.wait(lambda: page.find("#detail").is_displayed())
    assert "item=blue-box" in page.driver.current_url
    assert [text.removesuffix("matched") for text in page.texts("#detail .facts > ul li")] == [
        "a blue box",
        "blue thing",
    ]
    assert page.count("#detail .strip img") == 7
    if card:
        page.click("#detail .strip .match")
    assert len(page.texts("#detail .mark.match, #detail .matched .mark")) == 1
    assert card in page.find("#detail .table").text
    page.wait(lambda: page.count("#detail .near a") == 3)
    page.shot("detail")
    page.press("#detail", Keys.ESCAPE)
    page.wait(lambda: not page.find("#detail").is_displayed())
    assert page.driver.current_url == f"{page.url}/?q=a+blue+box&target=any"
    assert page.focused().startswith("a blue box")


def test_a_shape_turns_by_keys_and_by_dragging(page: Page) -> None:
    page.open("/?q=a+red+box&target=shape&item=red-box")
    page.wait(lambda: page.find("#detail").is_displayed() and page.count("#detail .strip img") == 7)

    page.click("#detail .strip .match")

    def name() -> str:
        return str(page.find("#detail .table").get_attribute("aria-valuetext")).split(" · ")[0]

    start = int(name().split()[1])
    turned = [f"view {(start - 1 + by) % 6 + 1}" for by in (0, 1, 2)]
    table = page.find("#detail .table")
    ActionChains(page.driver).drag_and_drop_by_offset(table, -72, 0).perform()
    page.wait(lambda: name() == turned[2])
    ActionChains(page.driver).drag_and_drop_by_offset(table, 36, 0).perform()
    page.wait(lambda: name() == turned[1])
    table.send_keys(Keys.HOME)
    page.wait(lambda: page.find("#detail .strip button:not(.in3d)").get_attribute("aria-pressed") == "true")
    table.send_keys(Keys.ARROW_LEFT)
    page.wait(lambda: page.find("#detail .strip button:last-child").get_attribute("aria-pressed") == "true")
    original = page.find("#detail .file").get_attribute("href")
    shown = page.find("#detail .table img").get_attribute("src")
    assert shown in (original, f"{original}&size=512")  # the larger picture comes a little later


def test_neighbours_lead_on_and_back_leads_back(page: Page) -> None:
    page.open("/?q=a+red+box")
    page.wait(lambda: page.best() == "red-box")
    page.click("#results .open")
    page.click("#detail .near a")
    page.wait(lambda: "item=red-box" not in page.driver.current_url)
    page.wait(lambda: page.find("#detail .id").text != "red-box")
    page.driver.back()
    page.wait(lambda: page.find("#detail .id").text == "red-box")
    page.click("#detail .solid")
    page.wait(lambda: page.driver.current_url == f"{page.url}/?like=red-box" and len(page.found()) == 3)
    assert not page.find("#detail").is_displayed()


def test_closing_closes_all_that_was_opened_in_between(page: Page) -> None:
    page.open("/?q=a+red+box")
    page.wait(lambda: page.best() == "red-box")
    page.click("#results .open")
    page.click("#detail .near a")
    page.wait(lambda: page.count("#detail .id") and page.find("#detail .id").text != "red-box")
    page.press("#detail", Keys.ESCAPE)
    page.wait(lambda: page.driver.current_url == f"{page.url}/?q=a+red+box")
    assert not page.find("#detail").is_displayed()
    page.open("/?item=red-box")
    page.unfold(".further")
    page.press(".further summary", Keys.ESCAPE)  # the menu alone
    page.wait(lambda: not page.find(".further").get_property("open"))
    assert page.find("#detail").is_displayed()
    page.click("#detail .near a")
    page.wait(lambda: page.find("#detail .id").text != "red-box")
    page.press("#detail", Keys.ESCAPE)
    page.wait(lambda: page.driver.current_url == f"{page.url}/")
    assert not page.find("#detail").is_displayed()


@pytest.mark.parametrize("query", QUERIES)
def test_the_command_for_a_search_finds_the_same(page: Page, shop: House, query: str) -> None:
    page.open(f"/?{query}")
    page.wait(lambda: page.count("#copy button") == 1)
    page.script(CATCH)
    page.open_options()
    page.click("#copy button")
    page.wait(lambda: page.script(COPIED))
    curl, _, url, *_, body = shlex.split(page.script(COPIED))
    assert curl == "curl"
    answer = shop.client.post(url, json=json.loads(body)).json()
    page.wait(lambda: page.found() == [hit["id"] for hit in answer["hits"]])
    page.click("#results .open")
    page.unfold(".further")
    page.click("#detail .copy")
    page.wait(lambda: page.script(COPIED) == page.find("#detail .id").text)


def test_further_pages_come_by_themselves(page: Page, shop: House) -> None:
    names = [f"more-{place:02}" for place in range(40)]
    shop.client.post("/v1/items", json={"items": [{"id": name, "texts": ["a yellow box"]} for name in names]})
    try:
        with page.sized(1280, 4000):  # a window that is taller than all of them
            page.open("/?q=yellow&target=text")
            page.wait(lambda: len(page.found()) == 44)
        page.open("/?q=yellow&target=text")
        page.wait(lambda: len(page.found()) >= 24)
        page.script("scrollTo(0, document.body.scrollHeight)")
        page.wait(lambda: len(page.found()) == 44)
        assert len(set(page.found())) == 44
        page.wait(lambda: page.find("#status").text.startswith("44 results"))
        where = page.wait(lambda: page.script("return scrollY"))
        last = "#results .card:last-child .icon"
        page.wait(lambda: page.count(last) > 0)
        page.script("document.querySelector(arguments[0]).click()", last)
        page.wait(lambda: "like=" in page.driver.current_url and len(page.found()) >= 24)
        page.driver.back()
        page.wait(lambda: len(page.found()) == 44 and abs(page.script("return scrollY") - where) < CARD)
        page.open("/?all=1")
        page.wait(lambda: page.best() == "blue-box")
    finally:
        shop.client.post("/v1/items/delete", json={"ids": names})


def test_a_page_that_fails_is_not_asked_for_without_a_pause(page: Page, shop: House) -> None:
    names = [f"more-{place:02}" for place in range(40)]
    shop.client.post("/v1/items", json={"items": [{"id": name, "texts": ["a yellow box"]} for name in names]})
    command = page.driver.execute_cdp_cmd
    network = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    try:
        page.open("/?q=yellow&target=text&diversity=0")
        page.wait(lambda: len(page.found()) == 24)
        page.requests()
        command("Network.enable", {})
        command("Network.emulateNetworkConditions", {**network, "offline": True})
        page.script("scrollTo(0, document.body.scrollHeight)")
        page.wait(lambda: "offline" in page.find("#status").text)
        page.script("return new Promise((resolve) => setTimeout(resolve, 1000))")
        asked = [url for url in page.requests() if url.endswith("/v1/search")]
        assert len(asked) == 1
        command("Network.emulateNetworkConditions", {**network, "offline": False})
        page.wait(lambda: len(page.found()) == 44)
    finally:
        command("Network.emulateNetworkConditions", {**network, "offline": False})
        shop.client.post("/v1/items/delete", json={"ids": names})


def test_a_photo_that_no_browser_shows_is_shown(page: Page, shop: House) -> None:
    out = io.BytesIO()
    Image.open(io.BytesIO(png("green"))).save(out, "TIFF")
    shop.client.put("/v1/items/scan", files={"images": ("scan.tif", out.getvalue())})
    shown = """return [...document.querySelectorAll('#detail .stage img, .clue img')]
        .map((image) => image.complete && image.naturalWidth > 0)"""
    try:
        page.open("/?item=scan")
        page.wait(lambda: page.script(shown) == [True, True])
        page.open("/?like=scan")
        page.wait(lambda: page.script(shown) == [True])
        page.open()
        page.drop({"query.tif": out.getvalue()})
        page.wait(lambda: "scan" in page.found() and page.count(".clue .face svg") == 1)
    finally:
        shop.client.delete("/v1/items/scan")


def test_a_key_may_have_any_name(page: Page, shop: House) -> None:
    keys = ("constructor", "__proto__", "toString")
    for name, value in (("one", "A"), ("two", "B")):
        payload = dict.fromkeys(keys, value)
        shop.client.put(f"/v1/items/{name}", json={"texts": ["a box"], "payload": payload})
    try:
        page.open("/?all=1")
        page.wait(lambda: len(page.found()) == 6)
        page.open_filters()
        for number, title in enumerate(("Constructor", "Proto", "To string"), 2):
            page.wait(lambda: page.count("#filters details") == 4)
            assert page.texts("#filters summary")[number - 1] == title
            page.unfold(f"#filters details:nth-of-type({number})")
            page.click(f"#filters details:nth-of-type({number}) label:nth-of-type(2) input")
            page.wait(lambda: page.found() == ["two"])
            page.click("#filters .clear")
            page.wait(lambda: len(page.found()) == 6)
    finally:
        shop.client.post("/v1/items/delete", json={"ids": ["one", "two"]})


def test_a_long_name_leaves_room_for_the_item(page: Page, shop: House) -> None:
    shop.client.put("/v1/items/long", json={"texts": ["a box"], "payload": {"name": "a long name " * 300}})
    try:
        page.open("/?item=long")
        page.wait(lambda: page.find("#detail-title").is_displayed())
        assert page.find("#detail .solid").location["y"] < page.script("return innerHeight") / 2
    finally:
        shop.client.delete("/v1/items/long")


def disc(shade: int) -> str:
    """The address of a picture with a bright disc on white."""
    picture, out = Image.new("RGB", (224, 224), "white"), io.BytesIO()
    ImageDraw.Draw(picture).ellipse((40, 40, 184, 184), fill=(shade, shade, shade))
    picture.save(out, "PNG")
    return f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}"


def test_a_white_thing_in_a_view_stands_out_and_a_photo_stays_as_it_is(page: Page) -> None:
    add = """
        const [src, className] = arguments;
        const image = Object.assign(new Image(224, 224), { src, className, id: "disc" });
        document.querySelector("main").prepend(image);
    """
    darkest = {}
    for kind in ("drawn", ""):
        page.open()
        page.script(add, disc(245), kind)
        page.wait(lambda: page.script("return document.getElementById('disc').complete"))
        shown = Image.open(io.BytesIO(page.find("#disc").screenshot_as_png)).convert("L").resize((224, 224))
        pixels = np.asarray(shown).astype(int)
        darkest[kind] = int(pixels.min())
        middle = pixels[100:124, 100:124]
        assert abs(int(middle.mean()) - 245) <= 1  # the thing itself is as it was drawn
        assert pixels[:8].min() >= 250  # and so is what is far from it
    assert darkest["drawn"] < 225 < 244 <= darkest[""]


def test_a_picture_that_was_found_by_is_explained(page: Page) -> None:
    page.open("/?like=red-box&item=green-box")
    page.wait(lambda: page.find("#detail").is_displayed() and page.pictures_loaded())
    page.click(".explain")
    page.wait(lambda: page.count(".table .heat i") == 49)
    shorter = "(e) => Math.min(e.clientWidth, e.clientHeight)"
    image, heat = page.script(f"return [...document.querySelectorAll('.table img, .heat')].map({shorter})")
    assert abs(image - heat) < 2
    dimmed = page.script("return [...document.querySelectorAll('.heat i')].map((e) => +e.style.opacity)")
    assert min(dimmed) == 0 < max(dimmed)
    page.press(".table", Keys.ARROW_RIGHT)
    page.wait(lambda: page.count(".heat") == 0)


def test_one_may_ask_why_and_walk_towards_the_general(page: Page) -> None:
    page.open("/?q=a+red+box&item=red-box")
    page.wait(lambda: page.find("#detail").is_displayed() and page.pictures_loaded())
    page.click(".explain")
    page.wait(lambda: page.count(".why .sides dt") > 1)
    shares = [int(share.removesuffix(" %")) for share in page.texts(".why .sides dd")]
    assert shares == sorted(shares, reverse=True)
    assert 99 <= sum(shares) <= 101
    reason = page.texts(".why p")[0]
    assert reason.startswith("Found by ")
    assert reason.endswith(": “red box”.")
    assert page.texts(".why .shares span") == ["a", "red", "box"]
    assert page.count(".heat") == 0  # the view has a twentieth of the evidence
    page.shot("why")
    page.unfold(".further")
    page.click(".general")
    page.wait(lambda: "More general captions" in page.texts(".why h3"))
    assert "everything" not in page.find(".why").text
    page.shot("way")
