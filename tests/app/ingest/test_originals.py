"""Originals stay where they are: by reference and hash, so that another encoder can read them again."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from app.runtime import rebuild
from multifold.cli import main
from multifold.client import Client
from tests.app.answers import refused
from tests.app.conftest import Stored
from tests.app.house import box, house, png
from tests.app.ingest.files import CUBE


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A photo, a mesh of one file, and one of two."""
    root = tmp_path / "things"
    (root / "deep").mkdir(parents=True)
    (root / "red.png").write_bytes(png("red"))
    (root / "deep" / "green.glb").write_bytes(box("green"))
    (root / "blue.obj").write_text(CUBE.format("blue"))
    (root / "blue.mtl").write_text("newmtl m\nKd 0 0 1\n")
    return root


def copies(root: Path) -> set[str]:
    """What lies in the collection's own folder."""
    return {path.suffix for path in (root.parent / "data" / "blobs").glob("*/*")}


def test_copies_are_made_on_request(root: Path, ingest: Callable[..., int], bundle: Path) -> None:
    assert ingest(root, "--copy") == 0
    assert copies(root) == {".webp", ".png", ".glb"}
    shutil.rmtree(root)
    with house(root.parent / "data", bundle) as shop:
        assert shop.client.get("/v1/items/red/photos/0").content == png("red")


def test_another_encoder_reads_them_where_they_lie(
    root: Path, ingest: Callable[..., int], bundle: Path, others: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild, "longest_request", lambda _: 0.1)
    assert ingest(root) == 0
    with house(root.parent / "data", bundle, bundles=others) as shop, Client(shop.url) as client:
        done = client.wait(client.rebuild("default", "second", bundle="second", alias="default").id, 0.05)
        assert (done.state, done.errors) == ("done", ())
        assert client.info()["bundle"]["name"] == "second"
        hit = client.search(image=png("blue"), target="shape").hits[0]
        assert hit.id == "blue"  # its colour stands in the second file
        assert client.picture(str(client.search(text="red", target="image").hits[0].matched.url)) == png(
            "red"
        )
        at = shop.shelf.settings.data
        assert {path.suffix for path in at.glob("collections/*/blobs/*/*")} == {".webp"}


def test_what_went_away_is_named_and_nothing_moves(
    root: Path, ingest: Callable[..., int], bundle: Path, others: Path
) -> None:
    assert ingest(root) == 0
    (root / "red.png").unlink()
    (root / "blue.mtl").write_text("newmtl m\nKd 1 0 0\n")
    with house(root.parent / "data", bundle, bundles=others) as shop, Client(shop.url) as client:
        done = client.wait(client.rebuild("main", "second", bundle="second", alias="default").id, 0.05)
        assert done.state == "failed"
        told = "\n".join(done.errors)
        assert "the file red.png, which was not copied, is gone or holds something else" in told
        assert "the file blue.mtl" in told
        assert "2 items could not be encoded again" in told
        assert str(root) not in told  # where it lies is nobody's business
        assert client.info()["bundle"]["name"] == "tiny"


def test_what_lost_its_place_goes_in_again(
    root: Path, ingest: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    ingest(root)
    ingest(root)
    assert "3 unchanged" in capsys.readouterr().out
    (root.parent / "data" / "in_place.sqlite").unlink()
    ingest(root)
    assert "3 changed" in capsys.readouterr().out
    ingest(root)
    assert "3 unchanged" in capsys.readouterr().out


def test_nothing_is_copied_and_all_is_given_back(
    root: Path, ingest: Callable[..., int], bundle: Path
) -> None:
    shutil.copy(root / "red.png", root / "same.png")
    secret = root.parent / "secret.png"
    secret.write_bytes(png("yellow"))
    assert ingest(root) == 0
    assert copies(root) == {".webp"}  # the views
    (root / "same.png").unlink()
    with house(root.parent / "data", bundle) as shop, Client(shop.url) as client:
        assert shop.client.get("/v1/items/same/photos/0").content == png("red")  # a copy elsewhere will do
        assert shop.client.get("/v1/items/deep%2Fgreen/files/0").content == box("green")
        files = shop.client.get("/v1/items/blue").json()["files"]
        assert [one["format"] for one in files] == ["obj", "mtl"]
        (root / "red.png").write_bytes(png("blue"))
        (root / "blue.mtl").unlink()
        refused(shop.client.get("/v1/items/red/photos/0"), 503, "storage", "which was not copied")
        refused(shop.client.get(files[1]["url"]), 503, "storage", "blue.mtl")
        (root / "red.png").write_bytes(png("red"))
        # no request names a file
        client.update("red", payload={"source": "things", "path": "../secret.png", "in_place": str(secret)})
        assert shop.client.get("/v1/items/red/photos/0").content == png("red")
        client.upsert("mine", images=[png("red")])  # a copy of its own, whatever lies in a folder
        (root / "red.png").unlink()
        assert shop.client.get("/v1/items/mine/photos/0").content == png("red")


def test_what_moved_is_found_where_it_is_now_and_what_is_gone_is_let_go(
    root: Path, ingest: Callable[..., int], stored: Stored, bundle: Path
) -> None:
    ingest(root)
    before = stored()["red"]
    (root / "red.png").rename(root / "deep" / "crate.png")
    (root / "deep" / "green.glb").rename(root / "leaf.glb")
    ingest(root)
    assert stored()["red"].observations[-1].blob == before.observations[-1].blob
    with house(root.parent / "data", bundle) as shop:
        assert shop.client.get("/v1/items/red/photos/0").content == png("red")
        assert shop.client.get("/v1/items/deep%2Fgreen/files/0").content == box("green")
        (root / "deep" / "crate.png").rename(root / "box.png")  # and while a service has the collection
        ingest(root)
        assert shop.client.get("/v1/items/red/photos/0").content == png("red")
    (root / "box.png").rename(root.parent / "box.png")
    ingest(root)
    given = ["--data", str(root.parent / "data"), "--bundle", str(bundle)]
    assert main(["index", "verify", *given]) == 0
    assert main(["index", "compact", *given[:2]]) == 0
    assert {path.name for path in root.rglob("*.*")} == {"leaf.glb", "blue.obj", "blue.mtl"}
    (root / "blue.mtl").unlink()
    assert main(["index", "verify", *given]) != 0
