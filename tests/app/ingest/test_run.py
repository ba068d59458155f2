"""`multifold ingest` from a command line to a collection that is searched."""

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index.collection import Collection
from multifold.bundle.encoder import Encoder
from multifold.payload import owner_part
from multifold.types import Features, Item
from tests import tiny
from tests.app.house import house, png
from tests.app.ingest.conftest import Take
from tests.app.ingest.files import COLOURS, change_entry, write_boxes, write_manifest
from tests.files import put

Ingest = Callable[..., int]


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    return write_boxes(tmp_path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put(tmp_path / "things" / "red box.png", png("red"))
    put(tmp_path / "things" / "more" / "one.png", png("green"))
    return tmp_path / "things"


def test_items_of_a_manifest_are_found(
    manifest: Path, data: Path, bundle: Path, ingest: Ingest, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ingest(manifest) == 0
    assert "3 added, 0 changed, 0 moved, 0 deleted, 0 unchanged, 0 skipped" in capsys.readouterr().out
    with house(data, bundle) as shop:
        for colour in COLOURS:
            for target in ("shape", "image", "text"):
                assert shop.best(text=f"{colour} box", target=target) == colour
        assert owner_part(shop.client.get("/v1/items/red").json()["payload"]) == {"is": "red"}


def test_a_dry_run_says_what_would_happen(
    root: Path, data: Path, bundle: Path, ingest: Ingest, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root / "old.fbx", b"x")
    assert ingest(root, "--dry-run") == 0
    output = capsys.readouterr()
    assert "would be: 2 added" in output.out
    assert "added red box" in output.out
    assert "convert it to glb with FBX2glTF" in output.err
    assert not data.exists()
    report = root.parent / "report.json"
    assert ingest(root, "--report", str(report)) == 0
    assert json.loads(report.read_text())["added"] == ["more/one", "red box"]
    with house(data, bundle) as shop:
        assert shop.best(text="red", target="image") == "red box"


def test_what_cannot_be_read_is_skipped_with_the_reason(
    manifest: Path, ingest: Ingest, capsys: pytest.CaptureFixture[str]
) -> None:
    put(manifest.parent / "red.glb", b"text")
    (manifest.parent / "green.png").unlink()
    change_entry(manifest, 2, id="x" * 600)
    with manifest.open("a") as lines:
        lines.write('{"id": "fine", "texts": ["white"]}\n')
    path = manifest.parent / "report.json"
    assert ingest(manifest, "--report", str(path)) == 0
    report = json.loads(path.read_text())
    assert report["added"] == ["fine"]
    reasons = {problem["name"]: problem["reason"] for problem in report["skipped"]}
    assert set(reasons) == {"red", "green", "x" * 600}
    assert "not a GLB" in reasons["red"]
    assert "No such file" in reasons["green"]
    assert "3 skipped" in capsys.readouterr().out


def test_files_that_somebody_may_have_meant_are_named(
    root: Path, ingest: Ingest, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("notes.txt", "more.zip", "film.mp4", "odd.xyz", "red box.txt"):
        put(root / name, b"text")
    assert ingest(root) == 0
    lines = capsys.readouterr().err
    assert f"{root / 'notes.txt'}: no mesh or picture has its name" in lines
    assert f"{root / 'more.zip'}: archives are not opened" in lines
    assert f"{root / 'film.mp4'}: films are not read" in lines
    assert "1 other file was passed over" in lines
    assert "red box.txt" not in lines
    assert ingest(root / "red box.png") == 0
    assert "notes.txt" not in capsys.readouterr().err


def test_a_run_that_writes_nothing_is_a_failure(
    manifest: Path, ingest: Ingest, capsys: pytest.CaptureFixture[str]
) -> None:
    lines: list[dict[str, Any]] = [
        {"id": "a", "mesh": "none.glb", "split": "test"},
        {"id": "b", "texts": ["red"]},
    ]
    write_manifest(manifest, lines)
    assert ingest(manifest, "--split", "test") == 1
    output = capsys.readouterr()
    assert "0 unchanged, 1 skipped" in output.out
    assert "a: " in output.err


def test_an_empty_folder_deletes_nothing_unasked(
    root: Path, ingest: Ingest, capsys: pytest.CaptureFixture[str]
) -> None:
    ingest(root)
    for path in root.rglob("*.png"):
        path.unlink()
    assert ingest(root) == 2
    assert "Is its drive there?" in capsys.readouterr().err
    assert ingest(root, "--allow-empty") == 0
    assert "2 deleted" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "more", "reason"),
    [
        ("none.png", [], "no file or folder"),
        ("none.jsonl", [], "there is no manifest"),
        ("red box.png", ["--watch"], "follows a folder"),
        ("", ["--split", "a"], "--split"),
        ("", ["--report", "none/report.json"], "no folder none for the report"),
    ],
)
def test_a_senseless_request_is_refused(
    root: Path, ingest: Ingest, name: str, more: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ingest(root / name, *more) == 2
    assert reason in capsys.readouterr().err


def test_no_process_that_renders_is_refused(root: Path, ingest: Ingest) -> None:
    with pytest.raises(SystemExit, match="2"):
        ingest(root, "--workers", "0")


def test_a_collection_of_another_encoder_is_refused(
    manifest: Path, take: Take, ingest: Ingest, capsys: pytest.CaptureFixture[str]
) -> None:
    take(manifest)
    other = tiny.build(manifest.parent / "other", seed=1)
    assert ingest(manifest, "--bundle", str(other.folder)) == 2
    assert other.vector_id in capsys.readouterr().err


def count_items(store: Path) -> int:
    """How many items are written, as another process sees it."""
    try:
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT count(*) FROM items").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def written(folder: Path, encoder: Encoder) -> list[tuple[object, Features]]:
    """What is known of each item of a collection, and its features."""

    def told(item: Item) -> tuple[object, Features]:
        seen = [(one.kind, one.index, one.text, one.blob) for one in item.observations]
        features = np.stack([one.feature for one in item.observations])
        return (item.id, dict(item.payload), item.files, seen), features

    with Collection.open(folder, encoder, read_only=True) as collection:
        return [told(item) for item in collection.scroll(limit=200)]


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was_and_ends_as_one_that_went_through(
    root: Path, data: Path, bundle: Path, encoder: Encoder, ingest: Ingest
) -> None:
    for number in range(100):
        put(root / f"{number}.png", png(COLOURS[number % 3]) + bytes([number]))
    command = "import sys; from multifold.cli import main; sys.exit(main(sys.argv[1:]))"
    words = ["ingest", str(root), "--data", str(data), "--bundle", str(bundle)]
    with subprocess.Popen([sys.executable, "-c", command, *words], stderr=subprocess.DEVNULL) as running:
        while running.poll() is None and not count_items(data / "store.sqlite"):
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
    path = root.parent / "report.json"
    assert ingest(root, "--report", str(path)) == 0
    report = json.loads(path.read_text())
    assert report["unchanged"] > 0
    assert len(report["added"]) > 0
    assert report["unchanged"] + len(report["added"]) == 102
    assert ingest(root, "--report", str(path)) == 0
    assert json.loads(path.read_text())["unchanged"] == 102
    through = root.parent / "through"
    assert ingest(root, "--data", str(through)) == 0
    resumed, whole = (written(folder, encoder) for folder in (data, through))
    assert [known for known, _ in resumed] == [known for known, _ in whole]
    for (_, ours), (_, theirs) in zip(resumed, whole, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)  # batches of other sizes differ in the last bits


def test_an_encoder_that_knows_other_views_is_refused(
    manifest: Path, ingest: Ingest, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("renderer", "software-0"), ("views", 5), ("rig", "ring0")):
        other = tiny.build(manifest.parent / name, views=replace(tiny.SPEC.views, **{name: value}))  # type: ignore[arg-type]
        assert ingest(manifest, "--bundle", str(other.folder)) == 2
        assert str(value) in capsys.readouterr().err
