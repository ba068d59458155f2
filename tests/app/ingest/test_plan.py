"""What a folder or a manifest changes in a collection: added, changed, moved, deleted, unchanged."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import trimesh

from app.ingest.report import IngestReport
from index.collection import Collection
from multifold.bundle.encoder import Encoder
from multifold.types import Item
from tests.app.conftest import Stored
from tests.app.house import box, png
from tests.app.ingest.conftest import Take
from tests.app.ingest.files import COLOURS, CUBE, change_entry, write_boxes
from tests.files import put


@pytest.fixture
def tag(data: Path, encoder: Encoder) -> Callable[[str], None]:
    """Accept a tag that a machine proposed for an item."""

    def accept(name: str) -> None:
        with Collection.open(data, encoder) as collection:
            item = collection.get(name)
            assert item is not None
            tagged = {**item.payload, "machine_tags": {"kind": ["box"]}}
            collection.upsert([replace(item, payload=tagged)])

    return accept


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two photos, one of them in a folder and with a caption."""
    put(tmp_path / "things" / "red box.png", png("red"))
    put(tmp_path / "things" / "more" / "one.png", png("green"))
    put(tmp_path / "things" / "more" / "one.txt", "a green thing\n")
    return tmp_path / "things"


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    return write_boxes(tmp_path)


def texts(item: Item) -> list[str | None]:
    return [seen.text for seen in item.observations if seen.kind == "caption"]


def test_a_folder_becomes_items(take: Take, root: Path, stored: Stored) -> None:
    assert take(root) == IngestReport(added=["more/one", "red box"])
    items = stored()
    assert texts(items["more/one"]) == ["a green thing"]
    assert texts(items["red box"]) == ["red box"]
    payload = dict(items["more/one"].payload)
    assert len(payload.pop("content")) == 64
    size = len(png("green"))
    place = {"source": "things", "path": "more/one.png", "folder": "more"}
    assert payload == {**place, "format": "png", "size": size}
    assert take(root) == IngestReport(unchanged=2)


def test_names_can_be_switched_off(take: Take, root: Path, stored: Stored) -> None:
    take(root, names=False)
    assert texts(stored()["red box"]) == []
    assert take(root) == IngestReport(changed=["red box"], unchanged=1)


def test_names_of_parts_are_words_and_no_captions(take: Take, root: Path, stored: Stored) -> None:
    scene = trimesh.Scene({"footStool": trimesh.creation.box()})
    put(root / "b.glb", bytes(scene.export(file_type="glb")))  # type: ignore[no-untyped-call]
    take(root)
    assert texts(stored()["b"]) == []
    assert "foot stool" in stored()["b"].payload["part_names"]
    assert take(root).unchanged == 3
    put(root / "b.txt", "a stool for feet")
    assert take(root) == IngestReport(changed=["b"], unchanged=2)
    assert "part_names" not in stored()["b"].payload  # people say what it is
    (root / "b.txt").unlink()
    take(root, metadata=False)
    assert "part_names" not in stored()["b"].payload


def test_what_is_damaged_goes_in_again(take: Take, root: Path, data: Path, stored: Stored) -> None:
    take(root)
    with closing(sqlite3.connect(data / "store.sqlite")) as store, store:
        store.execute("UPDATE observations SET blob = 'no blob' WHERE kind = 'photo'")
    assert all(item.damaged for item in stored().values())
    assert take(root) == IngestReport(changed=["more/one", "red box"])
    assert not any(item.damaged for item in stored().values())


def test_what_moved_keeps_its_item(take: Take, root: Path, stored: Stored) -> None:
    take(root)
    seen = stored()["red box"].pictures("photo")
    (root / "deep").mkdir()
    (root / "red box.png").rename(root / "deep" / "crate.png")
    assert take(root) == IngestReport(moved=["red box"], unchanged=1)
    item = stored()["red box"]
    assert item.payload["path"] == "deep/crate.png"
    assert texts(item)[0] == "crate"
    assert item.pictures("photo") == seen
    put(root / "red box.png", png("yellow"))
    assert len(take(root).added) == 1
    assert take(root) == IngestReport(unchanged=3)


def test_what_is_gone_goes(take: Take, root: Path, stored: Stored) -> None:
    other = put(root.parent / "other" / "red box.png", png("blue")).parent
    take(root)
    assert take(other) == IngestReport(added=["other/red box"])
    (root / "red box.png").unlink()
    assert take(root / "more") == IngestReport(unchanged=1)
    assert take(root) == IngestReport(deleted=["red box"], unchanged=1)
    assert set(stored()) == {"more/one", "other/red box"}


def test_a_part_of_a_known_folder_is_no_new_source(take: Take, root: Path) -> None:
    take(root)
    put(root / "more" / "copy.png", png("red"))  # an item of its own
    put(root / "three.png", png("white"))
    assert take(root / "more") == IngestReport(added=["more/copy"], unchanged=1)


def test_the_side_files_of_a_mesh_are_its_content(take: Take, root: Path) -> None:
    put(root / "m.obj", CUBE.format("m"))
    put(root / "m.mtl", "newmtl m\nKd 1 0 0\n")
    put(root / "blue.glb", box("blue"))
    assert take(root).added == ["blue", "m", "more/one", "red box"]
    put(root / "m.mtl", "newmtl m\nKd 0 0 1\n")
    assert take(root) == IngestReport(changed=["m"], unchanged=3)
    put(root / "m.mtl", "newmtl m\nmap_Kd t.png\n")
    assert take(root).changed == ["m"]
    put(root / "t.png", png("green"))
    assert take(root) == IngestReport(changed=["m"], unchanged=3)


def test_a_broken_file_is_skipped_and_its_item_stays(take: Take, root: Path, stored: Stored) -> None:
    take(root)
    put(root / "red box.png", b"broken")
    put(root / "new.glb", b"broken")
    report = take(root)
    assert [problem.name for problem in report.skipped] == ["red box", "new"]
    assert "not a picture we can read" in report.skipped[0].reason
    assert (report.added, report.changed, report.deleted) == ([], [], [])
    assert set(stored()) == {"more/one", "red box"}


def test_what_changed_in_a_manifest_goes_in_again(manifest: Path, take: Take, data: Path) -> None:
    folder = manifest.parent
    entries: tuple[dict[str, object], ...] = (
        {"texts": ["other words"]},
        {"texts": ["words", "other"]},
        {"texts": ["other", "words"]},
        {"meta": {"is": "new"}},
        {"images": ["blue.png"]},
        {"images": []},
        {"mesh": None},
        {"mesh": "blue.glb", "images": ["red.png"]},
        {"mesh": "red.glb"},
    )
    assert take(manifest) == IngestReport(added=[*COLOURS])
    assert take(manifest) == IngestReport(unchanged=3)
    changes: list[Callable[[], object]] = [
        *(partial(change_entry, manifest, 0, **fields) for fields in entries),
        partial(put, folder / "red.glb", box("yellow")),
        partial(put, folder / "red.png", png("yellow")),
        partial(change_entry, manifest, 0, mesh="red.obj"),
        partial(put, folder / "red.mtl", "newmtl m\nKd 0 0 1\n"),  # a texture beside a mesh is part of it
    ]
    put(folder / "red.obj", CUBE.format("red"))
    put(folder / "red.mtl", "newmtl m\nKd 1 0 0\n")
    for number, change in enumerate(changes):
        change()
        assert take(manifest) == IngestReport(changed=["red"], unchanged=2), number
    assert take(manifest) == IngestReport(unchanged=3)
    for remembered in (data / "drawn").iterdir():
        remembered.write_text("half a li")
    assert take(manifest) == IngestReport(changed=[*COLOURS])  # drawn again if the cache is lost


def test_machine_tags_outlast_an_ingest(
    take: Take, root: Path, manifest: Path, stored: Stored, tag: Callable[[str], None]
) -> None:
    put(root / "red box.json", json.dumps({"meta": {"colour": "red"}}))
    take(root)
    take(manifest)
    named = ("red box", "red")
    for name in named:
        tag(name)
    assert not take(root).changed
    assert not take(manifest).changed
    put(root / "red box.json", json.dumps({"meta": {"colour": "dark red"}}))
    assert take(root).changed == ["red box"]
    change_entry(manifest, 0, meta={"is": "dark red"})
    assert take(manifest).changed == ["red"]
    assert [stored()[name].payload["machine_tags"] for name in named] == 2 * [{"kind": ["box"]}]


def test_facts_of_a_mesh_go_with_it(take: Take, tmp_path: Path, stored: Stored) -> None:
    root = tmp_path / "models"
    put(root / "box.glb", box("red"))
    put(root / "box.json", json.dumps({"meta": {"colour": "red"}}))
    assert take(root).added == ["box"]
    assert stored()["box"].payload["measured"]["height"] == 0.8
    assert take(root) == IngestReport(unchanged=1)
    put(root / "box.json", json.dumps({"meta": {"colour": "dark red"}}))  # its pictures stay
    assert take(root).changed == ["box"]
    assert stored()["box"].payload["measured"]["height"] == 0.8
    put(root / "box.glb", box("red", 0.9))
    assert take(root).changed == ["box"]
    assert stored()["box"].payload["measured"]["height"] == 0.9
