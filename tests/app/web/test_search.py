"""The search page in a real browser, against a real service. Needs chromium and chromium-driver."""

from base64 import b64encode
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.app import browser
from tests.app.browser import Page
from tests.app.house import House, box, png

pytestmark = browser.marks
WEB = Path(__file__).parents[3] / "app" / "web"
PASTE = """const data = new DataTransfer();
const bytes = Uint8Array.from(atob(arguments[0]), (c) => c.charCodeAt(0));
for (const name of ['0.png', '1.png']) data.items.add(new File([bytes], name, {type: 'image/png'}));
const options = {clipboardData: data, bubbles: true, cancelable: true};
document.activeElement.dispatchEvent(new ClipboardEvent('paste', options));"""
MOST = 130_000  # without what is loaded only when it is wanted, in the folder ondemand


def kept_focus(page: Page, name: str) -> bool:
    """Whether the keyboard is where it was, at the control of this name."""
    return page.focused() == name


def test_words_find_pictures_with_scores(page: Page) -> None:
    page.open()
    assert page.find("h1").is_displayed()
    page.type("a red box")
    page.wait(lambda: page.best() == "red-box")
    page.wait(page.pictures_loaded)
    assert len(page.found()) == 4
    scores = [int(score.removesuffix(" %")) for score in page.texts("#results .score")]
    assert scores
    assert min(scores) >= 10  # a smaller number says no more than the order
    assert scores == sorted(scores, reverse=True)
    page.wait(lambda: page.texts("#results .name")[0] == "a red box")
    page.wait(lambda: page.texts("#results .said")[0] == "red thing")
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


def test_clues_are_mixed_by_their_weights(page: Page, shop: House) -> None:
    page.open("/?q=a+red+box&target=any")
    page.wait(lambda: page.best() == "red-box")
    page.open_options()
    page.click("#another")
    page.type("blue")
    page.wait(lambda: page.texts(".clue .face") == ["a red box", "blue"])
    for label in ("More", "Less", "Less", "Less", "Less"):
        page.wait(lambda: page.count(".clue") == 2)
        page.click(f'.clue:nth-child(2) [aria-label^="{label}"]')
        page.wait(partial(kept_focus, page, f"{label} of this: blue"))
    page.wait(lambda: page.texts(".clue output") == ["×1", "−1"])
    assert page.driver.current_url == f"{page.url}/?q=a+red+box&q=blue&w=-1&target=any"
    shop_says = shop.search(mix=[{"text": "a red box"}, {"text": "blue", "weight": -1}], target="any").json()
    page.wait(lambda: page.found() == [hit["id"] for hit in shop_says["hits"]])
    page.shot("clues")
    page.open("/?q=a+red+box&q=blue&w=-1&target=any")
    page.wait(lambda: page.texts(".clue output") == ["×1", "−1"])
    page.click('.clue:nth-child(1) [aria-label^="Remove"]')
    page.wait(lambda: page.texts(".clue .face") == ["blue"])
    page.driver.back()
    page.wait(lambda: page.texts(".clue .face") == ["a red box", "blue"])


def test_words_that_are_filters_are_chips(page: Page) -> None:
    page.open("/?q=a+red+box+below+120+cm")
    page.wait(lambda: page.texts("#understood .face") == ["below 120 cm"])
    page.click("#understood .face")
    assert page.script("return words.value.slice(words.selectionStart, words.selectionEnd)") == "below 120 cm"
    page.click('#understood [aria-label^="No filter"]')
    page.wait(lambda: page.driver.current_url == f"{page.url}/?q=a+red+box+below+120+cm&text=below+120+cm")
    page.wait(lambda: page.texts("#understood li") == ["Filter by “below 120 cm”"])
    page.click("#understood .chip")
    page.wait(lambda: page.texts("#understood .face") == ["below 120 cm"])
    page.type("a red box under 5 cm")
    page.wait(lambda: "nothing fits 'under 5 cm'; the least is 1 m" in page.find("#status").text)
    assert not page.find("#understood").is_displayed()


def test_more_like_a_result_and_away_from_it(page: Page) -> None:
    page.open("/?q=a+green+box")
    page.wait(lambda: page.best() == "green-box")
    page.show_actions("#results .card:first-child")
    page.click("#results [aria-label^='More like']")
    page.wait(lambda: page.driver.current_url == f"{page.url}/?like=green-box" and len(page.found()) == 3)
    assert "green-box" not in page.found()
    first = page.best()
    page.show_actions(f"#results [data-item='{first}']")
    page.click(f"#results [data-item='{first}'] [aria-label^='Search away']")
    page.wait(lambda: page.texts(".clue output") == ["×1", "−0.5"])
    page.wait(lambda: page.best() == "green-box")
    assert page.driver.current_url == f"{page.url}/?like=green-box&like={first}&w=-0.5"


@pytest.mark.parametrize(
    ("name", "data", "colour"),
    [("shape.glb", box("yellow"), "yellow"), ("p.png", png("blue"), "blue")],
)
def test_a_file_is_searched_with(page: Page, tmp_path: Path, name: str, data: bytes, colour: str) -> None:
    (tmp_path / name).write_bytes(data)
    page.open()
    page.press("#file", str(tmp_path / name))
    page.wait(lambda: page.best() == f"{colour}-box")
    assert page.texts(".clue .face") == [name]
    page.type("a green box")
    page.wait(lambda: page.texts(".clue .face") == [name, "a green box"] and page.best() == "green-box")
    page.click("[aria-label='Remove: a green box']")
    page.wait(lambda: page.count(".clue") == 1)
    page.click(f"[aria-label='Remove: {name}']")
    page.wait(lambda: page.find("h1").is_displayed())
    assert page.best() is None


def test_files_can_be_dropped(page: Page) -> None:
    page.open()
    page.drop({"dropped.png": png("green"), "shape.glb": box("green")})
    page.wait(lambda: page.texts(".clue .face") == ["dropped.png", "shape.glb"])
    page.wait(lambda: page.best() == "green-box")
    assert not page.find("#drop").is_displayed()
    page.driver.back()  # they were one step
    page.wait(lambda: page.find("h1").is_displayed())
    page.drop({f"{number}.png": png("green") for number in range(9)})
    page.wait(lambda: "At most 8 at once; these are 9" in page.find("#message").text)
    assert page.count(".clue") == 0


def test_files_that_a_reload_loses_are_told(page: Page) -> None:
    page.open("/?q=a+box")
    page.wait(lambda: len(page.found()) == 4)
    page.drop({"dropped.png": png("green")})
    page.wait(lambda: page.texts(".clue .face") == ["a box", "dropped.png"])
    page.driver.refresh()
    page.wait(lambda: "The files of this search are gone" in page.find("#message").text)
    assert len(page.found()) == 4
    page.drop({"dropped.png": png("green")})
    page.wait(lambda: page.texts(".clue .face") == ["a box", "dropped.png"])
    page.wait(lambda: "gone" not in page.find("#message").text)


def test_several_pictures_are_pasted(page: Page) -> None:
    page.open()
    page.click("#words")
    page.script(PASTE, b64encode(png("green")).decode())
    page.wait(lambda: page.texts(".clue .face") == ["0.png", "1.png"] and page.best() == "green-box")


def test_what_is_typed_is_not_lost(page: Page) -> None:
    page.open("/?q=a+red+box")
    page.wait(lambda: page.best() == "red-box")
    page.press("#words", " or two")
    page.open_options()
    page.click("#fold")
    page.wait(lambda: page.driver.current_url == f"{page.url}/?q=a+red+box&fold=1")
    assert page.find("#words").get_property("value") == "a red box or two"
    page.open("/?like=red-box")
    page.wait(lambda: len(page.found()) == 3)
    page.press("#words", "blue")
    page.click('.clue [aria-label^="More of"]')
    page.wait(lambda: page.driver.current_url == f"{page.url}/?like=red-box&w=2&q=blue")


def test_a_bad_file_is_explained_and_the_next_search_works(page: Page, tmp_path: Path) -> None:
    (tmp_path / "text.glb").write_text("this is a text file")
    page.open()
    page.press("#file", str(tmp_path / "text.glb"))
    page.wait(lambda: page.find("#message").is_displayed())
    assert "not a GLB file" in page.find("#message").text
    page.click("[aria-label='Remove: text.glb']")
    page.wait(lambda: page.find("h1").is_displayed())
    page.type("red")
    page.wait(lambda: page.best() == "red-box")
    assert not page.find("#message").is_displayed()
    assert all("status of 422" in complaint for complaint in page.complaints())


def test_no_request_leaves_the_host(page: Page) -> None:
    page.open("/?q=a+red+box&item=red-box")
    page.wait(lambda: page.best() == "red-box" and page.pictures_loaded())
    page.wait(lambda: page.count("#detail .near img") == 3)
    asked = page.requests()
    assert f"{page.url}/web/app.js" in asked
    host = urlsplit(page.url).netloc
    ours = (host, "")  # data: and blob: have no host
    assert [url for url in asked if urlsplit(url.removeprefix("blob:")).netloc not in ours] == []
    assert page.complaints() == []


def test_the_page_is_small() -> None:
    assert sum(path.stat().st_size for path in WEB.iterdir() if path.is_file()) <= MOST
