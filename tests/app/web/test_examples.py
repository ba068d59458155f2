"""In a browser: thumbs order a search anew, a click takes them back, and look-alikes can be spread out."""

from tests.app import browser
from tests.app.browser import Page
from tests.app.house import House

pytestmark = browser.marks


def thumb(item: str, verdict: str) -> str:
    return f"#results [data-item='{item}'] [data-verdict={verdict}]"


def judge(page: Page, item: str, verdict: str) -> None:
    page.show_actions(f"#results [data-item='{item}']")
    page.click(thumb(item, verdict))


def test_thumbs_order_a_search_at_once_and_a_click_takes_them_back(page: Page, shop: House) -> None:
    page.open("/?q=a+red+box")
    page.wait(lambda: page.best() == "red-box" and page.count("#results .thumbs") > 0)
    plain = page.found()
    last = plain[-1]
    judge(page, last, "good")
    page.wait(lambda: page.best() == last)
    page.wait(lambda: page.find(thumb(last, "good")).get_attribute("aria-pressed") == "true")
    assert page.driver.current_url == f"{page.url}/?q=a+red+box&good={last}"
    judge(page, "red-box", "bad")
    page.wait(lambda: page.found()[-1:] == ["red-box"] and page.best() == last)
    page.wait(lambda: page.count("#judged button") == 2)
    assert "a red box" in page.texts("#judged button")[1]
    page.wait(lambda: len(shop.client.get("/v1/feedback").json()["feedback"]) == 2)
    kept = {one["item"]: one for one in shop.client.get("/v1/feedback").json()["feedback"]}
    assert (kept[last]["verdict"], kept[last]["query"][0]["text"]) == ("good", "a red box")
    assert kept["red-box"]["verdict"] == "bad"
    page.shot("examples")
    judge(page, last, "good")  # a second click takes it back, and the feedback too
    page.wait(lambda: page.count("#judged button") == 1)
    page.wait(lambda: len(shop.client.get("/v1/feedback").json()["feedback"]) == 1)
    page.click("#judged button")
    page.wait(lambda: page.found() == plain)
    assert page.driver.current_url == f"{page.url}/?q=a+red+box"
    page.wait(lambda: not shop.client.get("/v1/feedback").json()["feedback"])
    page.driver.back()
    page.wait(lambda: page.found()[-1:] == ["red-box"])
    page.type("a blue box")  # another question has no examples yet
    page.wait(lambda: page.best() == "blue-box" and page.count("#judged button") == 0)
    assert not page.complaints()


def test_a_thumb_of_an_earlier_visit_is_taken_back_in_the_service_too(page: Page, shop: House) -> None:
    page.open("/?q=a+red+box")
    page.wait(lambda: page.best() == "red-box" and page.count("#results .thumbs") > 0)
    judge(page, "blue-box", "good")
    page.wait(lambda: page.best() == "blue-box")
    holder = "return document.activeElement.closest('.card')?.dataset.item"
    page.wait(lambda: page.script(holder) == "blue-box")  # the keyboard stays with the result
    page.wait(lambda: len(shop.client.get("/v1/feedback").json()["feedback"]) == 1)
    page.driver.refresh()
    page.click("#judged button")
    page.wait(lambda: page.best() == "red-box")
    page.wait(lambda: not shop.client.get("/v1/feedback").json()["feedback"])


def test_variety_is_part_of_the_address(page: Page) -> None:
    page.open("/?q=a+red+box")
    page.wait(lambda: page.best() == "red-box")
    page.open_options()
    set_to = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('change'))"
    page.script(set_to, page.find("#diversity"), "0.5")
    page.wait(lambda: page.driver.current_url == f"{page.url}/?q=a+red+box&diversity=0.5")
    page.wait(lambda: page.best() == "red-box" and len(page.found()) == 4)
    page.click("[name=target][value=shape] + span")
    page.wait(lambda: "target=shape" in page.driver.current_url and len(page.found()) == 4)
    assert not page.find("#diversity").is_displayed()
    page.wait(lambda: not page.find("#message").is_displayed())
