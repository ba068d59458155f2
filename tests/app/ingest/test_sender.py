"""An ingest while a service has the collection: all goes through it, and it is searched meanwhile."""

import json
import threading
from pathlib import Path

import pytest

from app.ingest.sender import diff_patch
from multifold.cli import main
from multifold.client import Client
from tests.app.house import House, box, house, png


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "things" / "deep").mkdir(parents=True)
    (tmp_path / "things" / "red box.png").write_bytes(png("red"))
    (tmp_path / "things" / "deep" / "blue.glb").write_bytes(box("blue"))
    (tmp_path / "things" / "deep" / "blue.json").write_text('{"text": "a blue box", "meta": {"a": {"b": 1}}}')
    return tmp_path / "things"


def ingest(own: House, what: Path, *more: str) -> dict[str, object]:
    settings = own.service.settings
    report = what.parent / "report.json"
    given = ["--data", str(settings.data), "--bundle", str(settings.bundle), "--workers", "1"]
    assert main(["ingest", str(what), *given, "--report", str(report), *more]) == 0
    told: dict[str, object] = json.loads(report.read_text())
    return told


def test_a_folder_goes_through_the_service(
    own: House, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ingest(own, root)["added"] == ["deep/blue", "red box"]
    assert f"through {own.url}" in capsys.readouterr().out
    assert own.best(text="blue", target="shape") == "deep/blue"
    assert ingest(own, root)["unchanged"] == 2
    (root / "deep" / "blue.json").write_text('{"text": "a box", "meta": {"a": {"c": 2}}}')
    (root / "red box.png").rename(root / "deep" / "crate.png")
    told = ingest(own, root)
    assert (told["changed"], told["moved"]) == (["deep/blue"], ["red box"])
    with Client(own.url) as client:
        blue = client.get("deep/blue")
        assert blue.payload["a"] == {"c": 2}
        assert [seen.text for seen in blue.observations if seen.kind == "caption"] == ["a box"]
        assert client.get("red box").payload["path"] == "deep/crate.png"
    (root / "deep" / "crate.png").unlink()
    assert ingest(own, root)["deleted"] == ["red box"]


def test_what_the_service_cannot_take_is_told(own: House, tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "broken.png").write_bytes(b"broken")
    (folder / "many.obj").write_bytes(b"mtllib m.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    (folder / "m.mtl").write_bytes(b"newmtl m\n")
    (folder / "good.png").write_bytes(png("green"))
    told = ingest(own, folder)
    assert told["added"] == ["good"]
    reasons = {one["name"]: one["reason"] for one in told["skipped"]}  # type: ignore[attr-defined]
    assert "not a picture we can read" in reasons["broken"]
    assert "names other files (m.mtl)" in reasons["many"]


def test_files_below_a_services_roots_are_not_copied(root: Path, bundle: Path) -> None:
    def copies(data: Path) -> set[str]:
        return {path.suffix for path in (data / "blobs").glob("*/*")}

    def blue(of: House) -> str:
        return str(of.client.get("/v1/items/deep%2Fblue").json()["files"][0]["url"])

    with house(root.parent / "kept", bundle, in_place_folders=f"{root}, /nowhere") as near:
        assert near.client.get("/v1/info").json()["in_place"]
        near.put("red", "red")  # the same bytes as a file that nobody has noted yet
        assert copies(root.parent / "kept") == {".webp", ".png", ".glb"}
        assert ingest(near, root)["added"] == ["deep/blue", "red box"]
        assert near.client.get(blue(near)).content == box("blue")
        (root / "deep" / "blue.glb").unlink()
        assert near.client.get(blue(near)).status_code == 503
    (root / "deep" / "blue.glb").write_bytes(box("blue"))
    with house(root.parent / "far", bundle, in_place_folders=f"{root}-other") as far:
        assert ingest(far, root)["added"] == ["deep/blue", "red box"]
        assert copies(root.parent / "far") == {".webp", ".png", ".glb"}
        (root / "deep" / "blue.glb").unlink()
        assert far.client.get(blue(far)).content == box("blue")


def test_searches_are_answered_during_an_ingest(own: House, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(20):
        (folder / f"part{number}.png").write_bytes(png("green") + bytes([number]))
    ingesting = threading.Thread(target=ingest, args=(own, folder))
    ingesting.start()
    seen = []
    while ingesting.is_alive():
        answer = own.search(text="green", target="image", limit=1)
        assert answer.status_code == 200
        seen.append(answer.json()["version"])
    ingesting.join()
    assert seen == sorted(seen)
    assert own.search(text="part19", target="image", lexical="only").json()["hits"][0]["id"] == "part19"


def test_a_patch_makes_one_object_another() -> None:
    assert diff_patch({"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"d": 3}, "e": [1]}) == {
        "a": None,
        "b": {"c": None, "d": 3},
        "e": [1],
    }
