"""The collection in a browser: adding and deleting; and what the page says while the service is not ready."""

import codecs
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Keys

from app.errors import ApiError
from app.runtime import probes
from multifold.files.folder import HEIF_SUFFIXES, PICTURE_SUFFIXES
from multifold.payload import owner_part
from renderers.mesh.formats.table import EXTENSIONS
from tests.app import browser
from tests.app.browser import Page
from tests.app.house import House, box, png

pytestmark = browser.marks
DRAFT = """const [names, done] = arguments;
import('/web/gather.js').then(({ drafts }) => {
  const { items, refused } = drafts(names.map((path) => ({ path, file: new File(['x'], path) })));
  done([items.filter(({ mesh }) => mesh.length).length, items.length, refused.length]);
});"""


@pytest.fixture
def empty(page: Page, own: House) -> Iterator[Page]:
    """Its page."""
    yield Page(page.driver, own.url)
    ids = [item["id"] for item in own.client.post("/v1/items/scroll", json={}).json()["items"]]
    own.client.post("/v1/items/delete", json={"ids": ids})


def test_files_are_added_searched_and_deleted(empty: Page, own: House) -> None:
    page = empty
    page.open()
    page.wait(lambda: page.find("#empty").is_displayed())
    page.shot("empty")
    page.click("#empty button")
    page.drop(
        {
            "chair.glb": box("red"),
            "chair.txt": b"a red chair\n\na red box\n",
            "chair.json": b'{"texts": ["with legs"], "meta": {"name": "Chair", "price": 12}}',
            "odd.png": png("green"),
            "odd.json": b"{",
            "photo.png": png("blue"),
            "broken.glb": b"this is no mesh",
            "notes.doc": b"x",
            "alone.json": b"{}",
        }
    )
    page.wait(lambda: page.find("#adding").text == "2 items added, 4 refused.")
    refused = " ".join(page.texts("#refused li"))
    assert "notes.doc not a kind of file" in refused
    assert "alone.json there is no mesh" in refused
    assert "broken " in refused
    assert "not a GLB file" in refused
    assert "odd odd.json is not JSON" in refused
    page.shot("added")
    page.wait(lambda: page.texts("#counts dd")[:4] == ["2", "6", "1", "3"])
    chair = own.client.get("/v1/items/chair").json()
    assert owner_part(chair["payload"]) == {"name": "Chair", "price": 12}
    page.press("#collection", Keys.ESCAPE)
    page.wait(lambda: page.script("return document.activeElement.className") == "plain stock")
    page.type("a red box")
    page.wait(lambda: page.best() == "chair")
    page.click("#results .open")
    page.unfold(".further")
    page.click_for("#detail .deletion .link", lambda: page.focused() == "Keep it")
    assert "It cannot be undone" in page.find(".deletion").text
    page.shot("delete")
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    page.wait(lambda: page.focused() != "Keep it")
    assert own.client.get("/v1/items/chair").status_code == 200
    page.click_for("#detail .deletion .link", lambda: page.count("#detail .danger"))
    page.click("#detail .danger")
    page.wait(lambda: not page.find("#detail").is_displayed() and page.best() == "photo")
    assert page.texts("#note") == ["Chair (chair) is deleted."]
    page.wait(lambda: page.script("return document.activeElement.id") == "results")
    page.wait(lambda: page.texts("#stock") == ["1 item"])
    assert own.client.get("/v1/items/chair").status_code == 404


def test_every_format_that_is_read_can_be_added_and_searched_with(page: Page) -> None:
    pictures = (*PICTURE_SUFFIXES, *HEIF_SUFFIXES)
    names = [f"{number}{suffix}" for number, suffix in enumerate((*EXTENSIONS, *pictures))]
    page.open()
    drafted = page.driver.execute_async_script(DRAFT, names)
    assert drafted == [len(EXTENSIONS), len(names), 0]
    assert set(EXTENSIONS) <= set(str(page.find("#file").get_attribute("accept")).split(","))


def test_texts_are_read_as_an_ingest_reads_them(empty: Page, own: House) -> None:
    empty.open()
    empty.open_collection()
    files = {
        "windows.txt": "ein gr\u00fcner Stuhl".encode("cp1252"),
        "wide.txt": "ein breiter Stuhl".encode("utf-16"),
        "wider.txt": codecs.BOM_UTF16_BE + "noch einer".encode("utf-16-be"),
        "marked.txt": codecs.BOM_UTF8 + b"ein Stuhl",
        "one.png": png("red"),
        "one.json": b'{"caption": "a caption of its own"}',
    }
    empty.drop(files)
    empty.wait(lambda: empty.find("#adding").text == "5 items added.")
    items = own.client.post("/v1/items/scroll", json={}).json()["items"]
    texts = {item["id"]: [one["text"] for one in item["observations"] if one["text"]] for item in items}
    assert texts == {
        "windows": ["ein gr\u00fcner Stuhl"],
        "wide": ["ein breiter Stuhl"],
        "wider": ["noch einer"],
        "marked": ["ein Stuhl"],
        "one": ["a caption of its own"],
    }


def test_what_comes_during_an_upload_is_added_too(empty: Page, own: House) -> None:
    empty.open()
    empty.open_collection()
    empty.drop({"one.txt": b"a red box", "two.txt": b"a green box"})
    empty.drop({"three.txt": b"a blue box", "odd.psd": b"x"})  # at once after it
    empty.wait(lambda: empty.find("#adding").text == "3 items added, 1 refused.")
    assert empty.texts("#refused li") == ["odd.psd not a kind of file that can be added"]
    assert set(own.service.collection.ids()) == {"one", "two", "three"}


def test_a_folder_is_added_under_its_paths(empty: Page, own: House, tmp_path: Path) -> None:
    folder = tmp_path / "things"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "a.png").write_bytes(png("green"))
    (folder / "b.txt").write_text("a yellow ball")
    (folder / ".hidden.png").write_bytes(b"x")
    empty.open()
    empty.open_collection()
    empty.press("#add-folder", str(folder))
    empty.wait(lambda: empty.find("#adding").text == "2 items added.")
    assert own.client.get("/v1/items/things%2Finner%2Fa").status_code == 200
    assert own.client.get("/v1/items/things%2Fb").json()["observations"][0]["text"] == "a yellow ball"


def test_a_service_that_is_not_ready_is_told_and_waited_for(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_yet(_: object) -> None:
        raise ApiError(503, "not_ready", "the encoder is still being read.")

    with monkeypatch.context() as patched:
        patched.setattr(probes, "check_readiness", not_yet)
        page.open()
        page.wait(lambda: "not ready. the encoder is still being read" in page.find("#health").text)
        page.shot("not-ready")
    page.wait(lambda: not page.find("#health").is_displayed())


def test_a_collection_is_chosen(empty: Page, own: House) -> None:
    page = empty
    own.put("red-box", "red")
    page.open()
    page.wait(lambda: page.find("#stock").text == "1 item")
    assert not page.find("#shelf").is_displayed()
    own.client.post("/v1/collections", json={"name": "chairs"})
    for name in ("one", "two"):
        own.client.put(f"/v1/collections/chairs/items/{name}", files={"texts": (None, f"a red chair {name}")})
    page.open()
    page.wait(lambda: page.find("#shelf").is_displayed())
    page.press("#shelf", "chairs")
    page.wait(lambda: page.find("#stock").text == "2 items")
    assert "in=chairs" in page.driver.current_url
    page.open("?in=chairs&q=a+red+chair&target=text")
    page.wait(lambda: len(page.found()) == 2 and page.find("#shelf").is_displayed())
    page.shot("chosen")
    href = str(page.find("#results .open").get_property("href"))
    assert href == f"{page.driver.current_url}&item={page.best()}"  # for another window
    page.press("#results .open", "X")
    page.wait(lambda: page.find("#picked strong").text == "1 selected")
    page.open("/?in=chairs&all=1&sort=payload.size")
    page.wait(lambda: page.find("#shelf").is_displayed())
    page.press("#shelf", "main")
    page.wait(lambda: page.find("#stock").text == "1 item")
    assert page.driver.current_url == f"{page.url}/"  # a number to sort by is one of a collection
    assert not page.find("#picked").is_displayed()  # a selection is of one collection
    own.client.delete("/v1/collections/chairs")
    page.open("/?in=chairs")
    page.wait(lambda: "there is no collection 'chairs'" in page.find("#message").text)
