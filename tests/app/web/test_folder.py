"""A folder on the page: one that the service follows, and one that is handed over in the browser."""

from pathlib import Path

import pytest

from tests.app import browser
from tests.app.browser import STICKS_OUT, Page
from tests.app.house import box, house, png

pytestmark = browser.marks
FURNITURE = Path(__file__).parents[3] / "bundles" / "furniture"


@pytest.fixture
def things(tmp_path: Path) -> Path:
    """A folder of 40 photos, a mesh, and files that are refused."""
    made = tmp_path / "things"
    for name in ("inner", "outer"):
        (made / name).mkdir(parents=True)
    for number in range(40):
        (made / ("outer" if number < 10 else "inner") / f"photo {number}.png").write_bytes(
            png("green") + bytes([number])
        )
    (made / "crate.glb").write_bytes(box("red"))
    (made / ".hidden.png").write_bytes(b"x")
    (made / "broken.glb").write_bytes(b"this is no mesh")
    (made / "poster.psd").write_bytes(b"8BPS")
    return made


def test_a_followed_folder_is_told_with_its_progress_and_what_was_refused(
    page: Page, things: Path, tmp_path: Path
) -> None:
    with house(tmp_path / "data", FURNITURE, folder=things) as own:
        at = Page(page.driver, own.url)
        at.open()
        at.wait(lambda: "Folder things." in at.find("#folder").text)
        at.shot("folder-begins")
        at.wait(lambda: "Up to date" in at.find("#folder").text and at.texts("#stock") == ["41 items"])
        at.wait(lambda: at.texts("#start .tiles:not(.newest) .tile") == ["inner30", "outer10", "top folder1"])
        offers = at.texts("#banner li")
        command = 'make serve FOLDER="…/things" BUNDLE=bundles/siglip2-b16-small'
        assert offers[0].endswith(f"make pull, then {command}")
        assert "multifold train" in offers[1]
        at.unfold("#folder details")
        at.wait(lambda: at.count("#folder li") == 2)
        reasons = at.texts("#folder li")
        assert reasons[0].startswith("poster.psd psd pictures are not read")
        assert reasons[1].startswith("broken.glb this is not a GLB file")
        for width, theme in ((320, "light"), (1280, "dark")):
            with at.sized(width, 800, theme):
                assert at.script(STICKS_OUT) == 0
                at.shot(f"folder-{width}-{theme}")
        (things / "late ball.png").write_bytes(png("blue"))
        at.wait(lambda: at.texts("#stock") == ["42 items"])
        at.open("/?item=late+ball")
        at.unfold(".further")
        at.click_for("#detail .deletion .link", lambda: at.focused() == "Keep it")
        assert "The file late ball.png stays, and the item comes back" in at.find(".deletion").text


def test_a_whole_folder_is_handed_over_paused_and_reported(
    page: Page, things: Path, tmp_path: Path, bundle: Path
) -> None:
    with house(tmp_path / "data", bundle) as own:
        at = Page(page.driver, own.url)
        at.open()
        at.open_collection()
        at.press("#add-folder", str(things))
        at.click("#pause")
        at.wait(lambda: at.find("#pause").text == "Go on")
        far = at.wait(lambda: at.find("#adding").text if paused_for_good(at) else "")
        assert far.endswith(" of 42 items, paused")
        at.shot("folder-paused")
        assert own.service.collection.count() < 41
        at.click("#pause")
        at.wait(lambda: at.find("#adding").text == "41 items added, 2 refused.")
        assert own.service.collection.count() == 41
        assert {"things/crate", "things/inner/photo 10"} <= set(own.service.collection.ids())
        assert not at.find("#pause").is_displayed()
        at.shot("folder-added")
        saved = tmp_path / "saved" / "not-added.txt"
        given = {"behavior": "allow", "downloadPath": str(saved.parent)}
        at.driver.execute_cdp_cmd("Browser.setDownloadBehavior", given)
        at.click("#report a")
        at.wait(saved.is_file)
        lines = saved.read_text().splitlines()
        assert lines[0] == "things/poster.psd not a kind of file that can be added"
        assert lines[1].startswith("things/broken this is not a GLB file")


def paused_for_good(at: Page) -> bool:
    """Whether what was under way is over: no request is open, and nothing moves."""
    value = at.script("return document.querySelector('#progress').value")
    at.script("return new Promise((resolve) => setTimeout(resolve, 500))")
    return bool(value == at.script("return document.querySelector('#progress').value"))
