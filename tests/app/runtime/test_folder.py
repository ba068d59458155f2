"""A service follows a folder: names first, then pictures; changes, bad files, a drive that is away."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
from PIL import Image

from app.collections.service import CollectionService
from app.encoding.observations import MeshPath, ObservationEncoder
from app.ingest import pipeline
from app.ingest.pipeline import Encoded, EncodedItem, Written
from app.ingest.plan import plan_names
from app.ingest.sources import FileStamp, IngestTask, SourceFolder
from app.runtime import folder
from index.collection import Collection
from index.store import browse
from multifold.client import Client
from multifold.files.folder import FolderContents
from renderers.contracts import MeshError
from renderers.lanes import TOO_LONG
from renderers.mesh.formats.mesh_file import find_companions, peek_companions
from renderers.orders import RenderedMesh
from tests.app.house import House, box, house, png
from tests.app.process import serve
from tests.waiting import PATIENCE, until

OBJ = b"mtllib m.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nusemtl m\nf 1 2 3\n"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks that follow each other at once."""
    monkeypatch.setattr(folder, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(folder, "TRY_AGAIN_SECONDS", 0.05)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a mesh, and with a photo that has a caption."""
    made = tmp_path / "own things"
    (made / "deep").mkdir(parents=True)
    (made / "deep" / "blue crate.glb").write_bytes(box("blue"))
    (made / "IMG_2034.png").write_bytes(png("red"))
    (made / "IMG_2034.txt").write_text("a red wall")
    return made


def told(of: House) -> dict[str, Any]:
    answer: dict[str, Any] = of.client.get("/v1/folder").json()
    return answer


def waits(of: House, reason: str) -> bool:
    """Whether it will try again after a trouble; while it does, it tells of none."""
    folder = told(of)["folder"]
    return folder["state"] == "waiting" and reason in folder["trouble"]


def ids(of: House) -> list[str]:
    return of.service.collection.ids()


def rest(of: House, ready: Callable[[], bool] = lambda: True) -> None:
    """Wait until all is done, and something is so."""
    until(lambda: told(of)["folder"]["state"] == "watching" and ready(), what="the folder to be ingested")


@contextmanager
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Event]:
    """Nothing is drawn or decoded until the event is set."""
    go, decode, draw = Event(), ObservationEncoder.picture, ObservationEncoder.draw

    def wait_to_decode(self: ObservationEncoder, data: bytes) -> Image.Image:
        go.wait(PATIENCE)
        return decode(self, data)

    def wait_to_draw(self: ObservationEncoder, mesh: MeshPath) -> RenderedMesh:
        go.wait(PATIENCE)
        return draw(self, mesh)

    monkeypatch.setattr(ObservationEncoder, "picture", wait_to_decode)
    monkeypatch.setattr(ObservationEncoder, "draw", wait_to_draw)
    try:
        yield go
    finally:
        go.set()


def test_names_and_captions_come_before_pictures(
    root: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held(monkeypatch) as go, house(root.parent / "data", bundle, folder=root) as own:
        until(lambda: told(own)["folder"]["state"] == "encoding")
        assert own.best(text="blue crate", target="item") == "deep/blue crate"
        assert own.best(text="a red wall", target="item") == "IMG_2034"
        early = own.client.get("/v1/items/IMG_2034/thumbnail")  # before anything is decoded
        assert (early.status_code, early.headers["content-type"]) == (200, "image/webp")
        assert own.client.get("/v1/items/deep%2Fblue%20crate/thumbnail").status_code == 404
        away = {"payload": {"path": "../outside.png"}}
        (root.parent / "outside.png").write_bytes(png("red"))
        assert own.client.patch("/v1/items/IMG_2034", json=away).is_success
        assert own.client.get("/v1/items/IMG_2034/thumbnail").status_code == 404
        assert own.client.patch("/v1/items/IMG_2034", json={"payload": {"path": "IMG_2034.png"}}).is_success
        info = own.client.get("/v1/info").json()
        assert info["folder"] == told(own)["folder"]
        assert (info["folder"]["name"], info["folder"]["total"]) == ("own things", 2)
        assert info["folder"]["captioned"] == 1
        assert info["collection"]["observations"]["photo"] == 0
        (root / "later.png").write_bytes(png("green"))
        go.set()
        rest(own, lambda: len(ids(own)) == 3)
        seen = own.client.get("/v1/info").json()["collection"]["observations"]
        assert (seen["photo"], seen["view"] > 0) == (2, True)
        assert own.best(text="blue", target="shape") == "deep/blue crate"
        assert [one.kind for one in own.service.item("IMG_2034").observations] == ["caption", "photo"]


def test_photos_are_seen_before_meshes_and_small_files_first(
    root: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "large.png").write_bytes(png("green") + bytes(100_000))
    written: list[str] = []
    put = CollectionService.put

    def noted(service: CollectionService, items: Sequence[Encoded]) -> list[Written]:
        ready = [one for one in items if isinstance(one, EncodedItem)]
        written.extend(one.item.id for one in ready if any(seen.blob for seen in one.item.observations))
        return put(service, items)

    monkeypatch.setattr(CollectionService, "put", noted)
    with house(root.parent / "data", bundle, folder=root) as own:
        rest(own, lambda: len(written) == 3)
    assert written == ["IMG_2034", "large", "deep/blue crate"]


def test_a_file_that_comes_during_a_long_pass_is_named_before_its_end(
    root: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "PREPARE_AHEAD", 1)
    monkeypatch.setattr(folder, "LEAST_TASKS", 4)
    for number in range(20):
        (root / f"part {number}.png").write_bytes(png("green") + bytes([number]))
    pictures: list[int] = []

    def note(
        files: FolderContents, source: SourceFolder, collection: Collection, unread: dict[str, FileStamp]
    ) -> list[IngestTask]:
        pictures.append(collection.read(browse.count_observations)["photo"])
        tasks = plan_names(files, source, collection, unread)
        if len(pictures) == 1:
            (root / "new.png").write_bytes(png("yellow"))
        return tasks

    monkeypatch.setattr(folder, "plan_names", note)
    with house(root.parent / "data", bundle, folder=root) as own:
        rest(own, lambda: own.service.collection.read(browse.count_observations)["photo"] == 22)
        assert "new" in ids(own)
    assert pictures[0] == 0
    assert 0 < pictures[1] < 22


def test_the_collection_follows_the_folder(root: Path, bundle: Path) -> None:
    with house(root.parent / "data", bundle, folder=root) as own:
        rest(own, lambda: len(ids(own)) == 2)
        before = own.service.item("IMG_2034")
        own.client.patch("/v1/items/IMG_2034", json={"payload": {"tags": ["hall"]}})
        (root / "green ball.png").write_bytes(png("green"))
        rest(own, lambda: own.service.collection.read(browse.count_observations)["photo"] == 2)
        (root / "IMG_2034.txt").write_text("a wall")
        rest(own, lambda: own.service.item("IMG_2034").texts == ("a wall",))
        assert own.service.item("IMG_2034").pictures("photo") == before.pictures("photo")
        assert own.service.item("IMG_2034").payload["tags"] == ["hall"]
        (root / "green ball.png").write_bytes(png("yellow"))
        rest(own, lambda: own.best(text="yellow", target="image") == "green ball")
        (root / "green ball.png").rename(root / "deep" / "sun.png")
        rest(own, lambda: own.service.item("green ball").payload["path"] == "deep/sun.png")
        (root / "deep" / "blue crate.glb").unlink()
        rest(own, lambda: ids(own) == ["IMG_2034", "green ball"])


def test_what_cannot_be_read_is_told_by_name_and_tried_again_once_it_changes(
    root: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    draw = ObservationEncoder.draw

    def note(self: ObservationEncoder, mesh: MeshPath) -> RenderedMesh:
        tried.append(mesh.path.stem)
        return draw(self, mesh)

    monkeypatch.setattr(ObservationEncoder, "draw", note)
    (root / "broken.glb").write_bytes(b"this is no mesh")
    (root / "broken.png").write_bytes(png("green"))
    (root / "scene.blend").write_bytes(b"BLENDER")
    with house(root.parent / "data", bundle, folder=root) as own, Client(own.url) as client:
        rest(own, lambda: len(ids(own)) == 2)
        reasons = {one.name: one.reason for one in client.folder().refused}
        assert set(reasons) == {"broken.glb", "scene.blend"}
        assert "not a GLB file" in reasons["broken.glb"]
        assert "With it, broken.png is left out." in reasons["broken.glb"]
        assert "Blender" in reasons["scene.blend"]
        assert told(own)["folder"]["refused"] == 2
        (root / "more.png").write_bytes(png("green"))
        rest(own, lambda: len(ids(own)) == 3)
        assert tried.count("broken") == 1
        assert told(own)["folder"]["refused"] == 2
        (root / "broken.glb").write_bytes(box("yellow"))
        (root / "scene.blend").unlink()
        rest(own, lambda: own.best(text="yellow", target="shape") == "broken")
        assert told(own)["refused"] == []


def test_a_mesh_that_took_too_long_is_tried_once_more(
    root: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    draw = ObservationEncoder.draw

    def slow_at_first(self: ObservationEncoder, mesh: MeshPath) -> RenderedMesh:
        tried.append(mesh.path.stem)
        if mesh.path.stem == "huge" or tried.count(mesh.path.stem) == 1:
            raise MeshError(f"{TOO_LONG} 20 seconds")
        return draw(self, mesh)

    monkeypatch.setattr(ObservationEncoder, "draw", slow_at_first)
    (root / "huge.glb").write_bytes(box("green"))
    with house(root.parent / "data", bundle, folder=root) as own:
        rest(own, lambda: own.best(text="blue", target="shape") == "deep/blue crate")
        assert [one["name"] for one in told(own)["refused"]] == ["huge.glb"]
    assert (tried.count("huge"), tried.count("blue crate")) == (2, 2)


def test_a_caption_of_nothing_is_told(root: Path, bundle: Path) -> None:
    (root / "deep" / "blue crates.txt").write_text("a caption with a slip in its name")
    (root / "deep" / "list.csv").write_text("name;words\n1;2\n")
    with house(root.parent / "data", bundle, folder=root) as own:
        rest(own, lambda: told(own)["folder"]["refused"] == 2)
        reasons = {one["name"]: one["reason"] for one in told(own)["refused"]}
        assert "no mesh or picture has its name" in reasons["deep/blue crates.txt"]
        assert reasons["deep/list.csv"].startswith("deep/list.csv has the columns")


def test_a_name_that_no_address_can_hold_is_told(root: Path, bundle: Path) -> None:
    (root / "two\nlines.png").write_bytes(png("green"))
    (root / "up.png").write_bytes(png("green"))
    (root / "up.json").write_text('{"id": ".."}')
    with house(root.parent / "data", bundle, folder=root) as own:
        rest(own, lambda: told(own)["folder"]["refused"] == 2)
        assert ids(own) == ["IMG_2034", "deep/blue crate"]
        reasons = {one["name"]: one["reason"] for one in told(own)["refused"]}
        assert "no control characters" in reasons["two\nlines.png"]
        assert "an address cannot hold the id" in reasons["up.png"]


def test_a_note_goes_with_what_it_is_about(root: Path, bundle: Path) -> None:
    (root / "deep" / "part.obj").write_bytes(OBJ)
    (root / "deep" / "m.mtl").write_bytes(b"newmtl m\nmap_Kd bark.png\n")
    (root / "deep" / "other.obj").write_bytes(OBJ)

    def noted(own: House) -> set[str]:
        return {one["name"] for one in told(own)["notes"]}

    with house(root.parent / "data", bundle, folder=root) as own:
        rest(own, lambda: noted(own) == {"deep/part", "deep/other"})
    with house(root.parent / "data", bundle, folder=root) as own:
        rest(own, lambda: noted(own) == {"deep/part", "deep/other"})
        (root / "deep" / "other.obj").unlink()
        rest(own, lambda: noted(own) == {"deep/part"})
        (root / "deep" / "bark.png").write_bytes(png("red"))
        rest(own, lambda: not noted(own))
        assert own.service.item("deep/part").notes == ()


def test_a_drive_that_is_away_deletes_nothing(root: Path, bundle: Path) -> None:
    with house(root.parent / "data", bundle, folder=root) as own:
        rest(own, lambda: len(ids(own)) == 2)
        root.rename(root.parent / "elsewhere")
        root.mkdir()
        until(lambda: waits(own, "Is its drive there?"))
        root.rmdir()
        until(lambda: waits(own, "there is no folder"))
        assert len(ids(own)) == 2
        (root.parent / "elsewhere").rename(root)
        rest(own)
        assert len(ids(own)) == 2


def test_a_textures_name_is_no_item(root: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "deep" / "part.obj").write_bytes(OBJ)
    (root / "deep" / "m.mtl").write_bytes(b"newmtl m\nmap_Kd bark.png\n")
    (root / "deep" / "bark.png").write_bytes(png("red"))
    mesh = root / "deep" / "part.obj"
    assert peek_companions(mesh, root) == find_companions(mesh, root)
    assert peek_companions(root / "gone.obj", root) == ()
    with held(monkeypatch) as go, house(root.parent / "data", bundle, folder=root) as own:
        until(lambda: told(own)["folder"]["state"] == "encoding")
        assert ids(own) == ["IMG_2034", "deep/blue crate", "deep/part"]
        go.set()


@pytest.mark.slow
def test_a_killed_service_goes_on_where_it_was(tmp_path: Path, bundle: Path) -> None:
    root = tmp_path / "many"
    root.mkdir()
    for number in range(300):
        (root / f"part {number}.png").write_bytes(png("green") + os.urandom(8))
    (root / "crate.glb").write_bytes(box("red"))
    (root / "broken.glb").write_bytes(b"this is no mesh")

    def info(client: httpx.Client) -> dict[str, Any]:
        time.sleep(0.1)  # the folder has a lower priority than questions
        found: dict[str, Any] = client.get("/v1/info").json()
        return found

    def photos(client: httpx.Client) -> int:
        return int(info(client)["collection"]["observations"]["photo"])

    given = ("--folder", str(root))
    with serve(tmp_path / "data", bundle, *given) as running, running.client() as client:
        until(lambda: photos(client) > 0)
        assert photos(client) < 300
        found = client.post("/v1/search", json={"text": "part 299", "limit": 1}).json()["hits"]
        assert found[0]["id"] == "part 299"
        running.process.kill()
        running.wait()
    (root / "part 0.png").unlink()
    (root / "late.png").write_bytes(png("blue"))
    with serve(tmp_path / "data", bundle, *given) as running, running.client() as client:
        had = photos(client)
        assert had > 0
        until(lambda: info(client)["folder"]["state"] == "watching")
        assert photos(client) == 300
        assert info(client)["collection"]["items"] == 301
        assert [one["name"] for one in client.get("/v1/folder").json()["refused"]] == ["broken.glb"]
        running.process.terminate()
        assert running.wait() == 0
