"""In a browser: long work and its end, snapshots, and what the page says where a key is wanted."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from multifold.client import Client
from tests.app import browser
from tests.app.browser import Page
from tests.app.house import House, house

pytestmark = browser.marks
WRITE, ADMIN = "write-key-0123456789", "admin-key-0123456789"


@pytest.fixture(scope="module")
def works(own: House) -> House:
    """A service with one item."""
    own.put("red-box", "red")
    return own


@pytest.fixture
def at(page: Page, works: House) -> Page:
    """Its page, with the panel of the collection open."""
    opened = Page(page.driver, works.url)
    opened.open()
    opened.wait(lambda: opened.find("#stock").text != "Collection")
    opened.open_collection()
    opened.unfold("#work")
    return opened


def later(shop: House, items: Sequence[Mapping[str, object]]) -> str:
    """A job that writes these items."""
    return str(shop.client.post("/v1/items/bulk", json={"items": [*items]}).json()["job"]["id"])


def test_jobs_are_listed_with_their_errors(at: Page, works: House) -> None:
    at.wait(lambda: at.texts("#jobs li") == ["no jobs yet"])
    later(works, [{"id": "one", "texts": ["a red word"]}, {"id": "none"}])
    with Client(works.url) as client:
        (job,) = client.jobs()
        client.wait(job.id)
    at.click("#work summary")
    at.click("#work summary")
    at.wait(lambda: "done, 2 of 2" in at.find("#jobs").text)
    assert "none" in at.find("#jobs li li").text
    at.shot("jobs")


def test_a_job_is_watched_and_can_be_cancelled(at: Page, works: House) -> None:
    before = works.service.collection.count()
    long = [later(works, [{"id": f"{turn}-{n}", "texts": [f"{n}"]} for n in range(256)]) for turn in "abcd"]
    at.click("#work summary")
    at.click("#work summary")
    cancel = f"#jobs [data-key='{long[-1]}']"
    at.wait(lambda: at.count(cancel))
    at.shot("cancel")
    at.script("document.querySelector(arguments[0])?.click()", cancel)
    with Client(works.url) as client:
        assert client.wait(long[-1]).state == "cancelled"
        assert [client.wait(one).state for one in long[:-1]] == ["done"] * 3
    at.wait(lambda: at.count("#jobs button") == 0)  # it looks by itself as long as something goes on
    assert "cancelled" in at.find("#jobs").text
    many = works.service.collection.count()
    assert before + 768 <= many < before + 1024
    at.wait(lambda: at.find("#stock").text == f"{many:,} items")


def test_a_snapshot_is_taken_and_fetched(at: Page, works: House) -> None:
    at.click("#snap")
    at.wait(lambda: at.count("#snapshots a") == 1)
    link = at.find("#snapshots a")
    assert link.text.endswith("UTC")
    assert " MB" in at.find("#snapshots li").text
    at.shot("snapshot")
    data = works.client.get(str(link.get_attribute("href"))).content
    assert link.get_attribute("download") == works.client.get("/v1/snapshots").json()["snapshots"][0]["name"]
    assert len(data) == works.client.get("/v1/snapshots").json()["snapshots"][0]["bytes"]


def test_reading_may_be_open_while_the_rest_needs_a_key(page: Page, tmp_path: Path, bundle: Path) -> None:
    with house(tmp_path, bundle, keys=f"write:{WRITE}", open_read=True) as locked:
        locked.client.headers["x-api-key"] = WRITE
        locked.put("red-box", "red")
        at = Page(page.driver, locked.url)
        at.open("/?q=a+red+box")
        at.wait(lambda: at.best() == "red-box" and at.pictures_loaded())
        at.show_actions("#results .card:first-child")
        at.click("#results [data-verdict=good]")
        at.wait(lambda: "needs a key that may write" in at.texts("#note")[0])
        at.open_collection()
        at.unfold("#work")
        at.wait(lambda: at.texts("#jobs li") == ["no jobs yet"])
        at.wait(lambda: "needs a key that may admin" in at.find("#snapshots").text)
        at.click("#snap")
        at.wait(lambda: at.find("#snap").is_enabled())
        assert "needs a key that may admin" in at.find("#snapshots").text
        at.shot("no-right")
