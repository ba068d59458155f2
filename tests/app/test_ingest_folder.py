"""A folder goes into a collection, and the collection follows what becomes of the folder."""

import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import trimesh
from PIL import Image

from app.ingest.pipeline import IngestPipeline
from app.ingest.plan import metadata_captions, name_captions, plan_folder, strip_suffixes
from app.ingest.run import IngestReport, make_report
from app.ingest.sources import ContentCache, find_source, record_source
from app.ingest.watching import hash_folder_state
from app.settings import Settings
from index.collection import Collection
from multifold.bundle.canary import open_encoder
from multifold.bundle.preprocess import decode
from multifold.cli import main
from multifold.files import folder
from multifold.files.folder import FolderLayout
from multifold.types import Item
from renderers.mesh.formats.mesh_file import EXTENSIONS
from renderers.sandbox import Sandbox
from tests import tiny
from tests.app.house import box, glb, house, png
from tests.waiting import PATIENCE

Take = Callable[..., IngestReport]
CUBE = "mtllib m.mtl\nusemtl m\nv 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1 2 4\nf 2 3 4\nf 1 3 4\n"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=1, seconds=PATIENCE) as opened:
        yield opened


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two photos, one of them in a folder and with a caption."""
    put(tmp_path / "things" / "red box.png", png("red"))
    put(tmp_path / "things" / "more" / "one.png", png("green"))
    put(tmp_path / "things" / "more" / "one.txt", b"a green thing\n")
    return tmp_path / "things"


@pytest.fixture
def take(bundle: Path, sandbox: Sandbox, root: Path) -> Take:
    """One run over a folder, into the collection beside it."""
    encoder = open_encoder(bundle, threads=1)
    settings = Settings(data=root.parent / "data", bundle=bundle)

    def taken(below: Path = root, *, names: bool = True, metadata: bool = True) -> IngestReport:
        source = find_source(settings.data, below)
        with Collection.open(settings.data, encoder) as collection:
            record_source(settings.data, source)
            with ContentCache(settings.data / "contents.sqlite", settled=0) as contents:
                found = folder.read(source.root, FolderLayout(EXTENSIONS, contents.companions), below=below)
                plan = plan_folder(found, source, below, collection, contents, names=names, metadata=metadata)
            collection.delete(plan.deleted)
            pipeline = IngestPipeline(encoder, collection, sandbox, settings)
            assert sum(pipeline.run(plan.tasks())) == len(plan.tasks())
        return make_report(plan, pipeline.skipped)

    return taken


@pytest.fixture
def stored(bundle: Path, root: Path) -> Callable[[], dict[str, Item]]:
    """What the collection has, by id."""
    encoder = open_encoder(bundle, threads=1)

    def items() -> dict[str, Item]:
        with Collection.open(root.parent / "data", encoder, read_only=True) as collection:
            return {item.id: item for item in collection.scroll()}

    return items


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def texts(item: Item) -> list[str | None]:
    return [seen.text for seen in item.observations if seen.kind == "caption"]


def test_a_folder_becomes_items(take: Take, stored: Callable[[], dict[str, Item]]) -> None:
    assert take() == IngestReport(added=["more/one", "red box"])
    items = stored()
    assert texts(items["more/one"]) == ["a green thing"]
    assert texts(items["red box"]) == ["red box"]
    payload = dict(items["more/one"].payload)
    assert len(payload.pop("content")) == 64
    size = len(png("green"))
    assert payload == {
        "source": "things",
        "path": "more/one.png",
        "folder": "more",
        "format": "png",
        "size": size,
    }
    assert take() == IngestReport(unchanged=2)


FORMS: dict[str, dict[str, Any]] = {
    "jpeg": {"quality": 95},
    "png": {},
    "webp": {"lossless": True},
    "gif": {"save_all": True, "append_images": [Image.new("RGB", (40, 40), "blue")], "duration": 50},
    "tiff": {"compression": "tiff_lzw", "save_all": True, "append_images": [Image.new("RGB", (9, 9))]},
    "bmp": {},
    "avif": {"quality": 90},
}


@pytest.fixture
def gallery(tmp_path: Path) -> Path:
    """The same red picture in every format, and a photo of a phone."""
    picture = Image.fromarray(tiny.picture("red"))
    (tmp_path / "gallery").mkdir()
    for form, how in FORMS.items():
        picture.save(tmp_path / "gallery" / f"a{form}.{form}", form, **how)
    phone = Path(__file__).parents[1] / "kernel" / "two_colours.heic"
    shutil.copy(phone, tmp_path / "gallery" / "phone.heic")
    return tmp_path / "gallery"


def test_every_kind_of_picture_goes_in_and_is_shown(gallery: Path, bundle: Path) -> None:
    with house(gallery.parent / "data", bundle) as shop:
        assert ingest(gallery, bundle) == 0
        found = {hit["id"]: hit for hit in shop.search(text="red", target="image", limit=20).json()["hits"]}
        assert found.keys() == {f"a{form}" for form in FORMS} | {"phone"}
        scores = [hit["score"] for name, hit in found.items() if name != "phone"]
        assert max(scores) - min(scores) < 0.01  # the first frame, the first page; lossy ones nearly so
        for name, hit in found.items():
            shown = shop.client.get(hit["matched"]["url"])
            kind = {"ajpeg": "jpeg", "phone": "heif"}.get(name, name[1:])
            assert (shown.status_code, shown.headers["content-type"]) == (200, f"image/{kind}")
            assert decode(shown.content).size == ((64, 48) if name == "phone" else (40, 40))


def test_large_photos_are_made_small_at_once(root: Path, take: Take) -> None:
    Image.new("RGB", (1200, 900), "red").save(root / "large.jpg")
    Image.new("RGB", (1000, 900), "blue").save(root / "not so large.jpg")
    take()
    (small,) = (root.parent / "data" / "thumbnails").glob("*/*.webp")
    with Image.open(small) as picture:
        assert picture.size == (256, 192)
    assert small.stem == hashlib.sha256((root / "large.jpg").read_bytes()).hexdigest()


def test_names_can_be_switched_off(take: Take, stored: Callable[[], dict[str, Item]]) -> None:
    take(names=False)
    assert texts(stored()["red box"]) == []
    assert take() == IngestReport(changed=["red box"], unchanged=1)


def test_only_what_changed_goes_in_again(take: Take, root: Path) -> None:
    take()
    put(root / "more" / "one.txt", b"other words\n")
    assert take() == IngestReport(changed=["more/one"], unchanged=1)
    before = (root / "red box.png").stat()
    put(root / "red box.png", png("black"))
    os.utime(root / "red box.png", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert take() == IngestReport(changed=["red box"], unchanged=1)
    os.utime(root / "red box.png")
    assert take() == IngestReport(unchanged=2)


def test_what_is_damaged_goes_in_again(take: Take, root: Path, stored: Callable[[], dict[str, Item]]) -> None:
    take()
    with closing(sqlite3.connect(root.parent / "data" / "store.sqlite")) as store, store:
        store.execute("UPDATE observations SET blob = 'no blob' WHERE kind = 'photo'")
    assert all(item.damaged for item in stored().values())
    assert take() == IngestReport(changed=["more/one", "red box"])
    assert not any(item.damaged for item in stored().values())


def test_what_moved_keeps_its_item(take: Take, root: Path, stored: Callable[[], dict[str, Item]]) -> None:
    take()
    seen = [one.blob for one in stored()["red box"].observations if one.kind == "photo"]
    (root / "deep").mkdir()
    (root / "red box.png").rename(root / "deep" / "crate.png")
    assert take() == IngestReport(moved=["red box"], unchanged=1)
    item = stored()["red box"]
    assert item.payload["path"] == "deep/crate.png"
    assert texts(item)[0] == "crate"
    assert [one.blob for one in item.observations if one.kind == "photo"] == seen
    put(root / "red box.png", png("yellow"))
    assert len(take().added) == 1
    assert take() == IngestReport(unchanged=3)


def test_what_is_gone_goes(take: Take, root: Path, stored: Callable[[], dict[str, Item]]) -> None:
    other = put(root.parent / "other" / "red box.png", png("blue")).parent
    take()
    assert take(other) == IngestReport(added=["other/red box"])
    (root / "red box.png").unlink()
    assert take(root / "more") == IngestReport(unchanged=1)
    assert take() == IngestReport(deleted=["red box"], unchanged=1)
    assert set(stored()) == {"more/one", "other/red box"}


def test_a_part_of_a_known_folder_is_no_new_source(take: Take, root: Path) -> None:
    take()
    put(root / "more" / "two.png", png("black"))
    put(root / "three.png", png("white"))
    assert take(root / "more") == IngestReport(added=["more/two"], unchanged=1)


def test_a_copy_is_an_item_of_its_own(take: Take, root: Path) -> None:
    take()
    put(root / "more" / "copy.png", png("red"))
    assert take(root / "more") == IngestReport(added=["more/copy"], unchanged=1)
    assert take() == IngestReport(unchanged=3)


def test_the_side_files_of_a_mesh_are_its_content(take: Take, root: Path) -> None:
    put(root / "m.obj", CUBE.encode())
    put(root / "m.mtl", b"newmtl m\nKd 1 0 0\n")
    put(root / "blue.glb", box("blue"))
    assert take().added == ["blue", "m", "more/one", "red box"]
    put(root / "m.mtl", b"newmtl m\nKd 0 0 1\n")
    assert take() == IngestReport(changed=["m"], unchanged=3)
    put(root / "m.mtl", b"newmtl m\nmap_Kd t.png\n")
    assert take().changed == ["m"]
    put(root / "t.png", png("green"))
    assert take() == IngestReport(changed=["m"], unchanged=3)


def test_a_broken_file_is_skipped_and_its_item_stays(
    take: Take, root: Path, stored: Callable[[], dict[str, Item]]
) -> None:
    take()
    put(root / "red box.png", b"broken")
    put(root / "new.glb", b"broken")
    report = take()
    assert [problem.name for problem in report.skipped] == ["red box", "new"]
    assert "not a picture we can read" in report.skipped[0].reason
    assert (report.added, report.changed, report.deleted) == ([], [], [])
    assert set(stored()) == {"more/one", "red box"}


def ingest(root: Path, bundle: Path, *more: str) -> int:
    data = str(root.parent / "data")
    return main(["ingest", str(root), "--data", data, "--bundle", str(bundle), "--workers", "1", *more])


def test_the_command_finds_plans_and_reports(
    root: Path, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root / "old.fbx", b"x")
    assert ingest(root, bundle, "--dry-run") == 0
    told = capsys.readouterr()
    assert "would be: 2 added" in told.out
    assert "added red box" in told.out
    assert "convert it to glb with FBX2glTF" in told.err
    assert not (root.parent / "data").exists()
    report = root.parent / "report.json"
    assert ingest(root, bundle, "--report", str(report)) == 0
    assert json.loads(report.read_text())["added"] == ["more/one", "red box"]
    with house(root.parent / "data", bundle) as shop:
        assert shop.best(text="red", target="image") == "red box"


def test_an_empty_folder_deletes_nothing_unasked(
    root: Path, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ingest(root, bundle)
    for path in root.rglob("*.png"):
        path.unlink()
    assert ingest(root, bundle) == 2
    assert "Is its drive there?" in capsys.readouterr().err
    assert ingest(root, bundle, "--allow-empty") == 0
    assert "2 deleted" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "more", "reason"),
    [
        ("none.png", [], "no file or folder"),
        ("red box.png", ["--watch"], "follows a folder"),
        ("", ["--split", "a"], "--split"),
    ],
)
def test_what_makes_no_sense_is_told(
    root: Path, bundle: Path, name: str, more: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(root.parent / "data")
    assert main(["ingest", str(root / name), "--data", data, "--bundle", str(bundle), *more]) == 2
    assert reason in capsys.readouterr().err


def _items_in(store: Path) -> int:
    """How many items are written, as another process sees it."""
    try:
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT count(*) FROM items").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was(root: Path, bundle: Path) -> None:
    for number in range(200):
        put(root / f"{number}.png", png(("red", "green", "blue")[number % 3]) + bytes([number]))
    command = "import sys; from multifold.cli import main; sys.exit(main(sys.argv[1:]))"
    given = ["ingest", str(root), "--data", str(root.parent / "data"), "--bundle", str(bundle)]
    store = root.parent / "data" / "store.sqlite"
    with subprocess.Popen([sys.executable, "-c", command, *given], stderr=subprocess.DEVNULL) as running:
        while running.poll() is None and not _items_in(store):
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
    report = root.parent / "report.json"
    assert ingest(root, bundle, "--report", str(report)) == 0
    told = json.loads(report.read_text())
    assert told["unchanged"] > 0
    assert len(told["added"]) > 0
    assert told["unchanged"] + len(told["added"]) == 202
    assert ingest(root, bundle, "--report", str(report)) == 0
    assert json.loads(report.read_text())["unchanged"] == 202


@pytest.mark.parametrize(
    ("name", "bare"),
    [("a/lamp.gltf.glb", "a/lamp"), ("lamp.v2.GLB", "lamp.v2"), ("photo.jpg", "photo"), ("lamp", "lamp")],
)
def test_suffixes_are_no_words(name: str, bare: str) -> None:
    assert str(strip_suffixes(PurePosixPath(name))) == bare


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Food-Bits-1.0/Assets/gltf/kitchenTable_A", ("kitchen table a", "food bits 1 0 kitchen table a")),
        ("holiday/IMG_2034", ("holiday",)),
        ("IMG_2034", ()),
        ("Stühle/ROT7", ("rot 7", "stühle rot 7")),
    ],
)
def test_names_are_split_into_words(name: str, told: tuple[str, ...]) -> None:
    assert name_captions(Path(name)) == told


def test_a_glance_sees_every_change(root: Path) -> None:
    first = hash_folder_state(root, frozenset())
    assert hash_folder_state(root, frozenset()) == first
    put(root / "new.png", b"x")
    second = hash_folder_state(root, frozenset())
    assert second != first
    assert hash_folder_state(root, frozenset([(root / "more").resolve()])) != second


@pytest.mark.parametrize("suffix", [".glb", ".gltf"])
def test_a_gltf_says_what_it_is(tmp_path: Path, suffix: str) -> None:
    said = {
        "asset": {
            "version": "2.0",
            "extras": {"title": "Reading chair KX-42", "license": "CC0", "tags": ["oak"]},
        },
        "nodes": [{"name": "RootNode"}, {"name": "backRest_2"}, {"name": 3}, "odd"],
        "meshes": [{"name": "Cube.001", "extras": {"part": "Q7"}}],
    }
    data = glb(said) if suffix == ".glb" else json.dumps(said).encode()
    path = put(tmp_path / f"a{suffix}", data)
    assert metadata_captions(path) == ("Reading chair KX-42", "oak", "Q7", "back rest 2")
    assert metadata_captions(put(path, data[: len(data) // 2])) == ()
    assert metadata_captions(put(tmp_path / "a.obj", data)) == ()


def test_what_a_gltf_says_is_a_caption_of_what_has_none(
    take: Take, root: Path, stored: Callable[[], dict[str, Item]]
) -> None:
    scene = trimesh.Scene({"footStool": trimesh.creation.box()})
    put(root / "b.glb", bytes(scene.export(file_type="glb")))  # type: ignore[no-untyped-call]
    take()
    assert "foot stool" in " ".join(filter(None, texts(stored()["b"])))
    take(metadata=False)
    assert "foot stool" not in " ".join(filter(None, texts(stored()["b"])))
