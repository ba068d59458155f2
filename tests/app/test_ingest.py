"""A manifest goes into a collection once, and only what has changed goes in again."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.ingest.pipeline import IngestPipeline
from app.ingest.plan import plan_manifest
from app.ingest.run import make_report
from app.ingest.sources import ContentCache, ViewCache
from app.settings import Settings
from index.collection import Collection
from index.store.blobs import BlobError, FolderBlobs
from multifold.bundle.canary import open_encoder
from multifold.cli import main
from multifold.manifest import read
from renderers.sandbox import Sandbox
from tests import tiny
from tests.app.house import box, house, png
from tests.waiting import PATIENCE

COLOURS = ("red", "green", "blue")


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """Three boxes, each with a mesh, a photo and two captions."""
    lines: list[dict[str, Any]] = []
    for colour in COLOURS:
        (tmp_path / f"{colour}.glb").write_bytes(box(colour))
        (tmp_path / f"{colour}.png").write_bytes(png(colour))
        texts = [f"a {colour} box", f"{colour} thing"]
        files = {"mesh": f"{colour}.glb", "images": [f"{colour}.png"]}
        lines.append({"id": colour, "texts": texts, "meta": {"is": colour}, **files})
    return write(tmp_path / "manifest.jsonl", lines)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=2, seconds=PATIENCE) as opened:
        yield opened


Counts = dict[str, list[str] | int]


@pytest.fixture
def take(bundle: Path, sandbox: Sandbox, manifest: Path) -> Callable[[], Counts]:
    """Take the manifest into the collection beside it."""
    encoder = open_encoder(bundle, threads=1)
    settings = Settings(data=manifest.parent / "data", bundle=bundle)

    def taken() -> Counts:
        with Collection.open(settings.data, encoder) as collection, ContentCache(None) as contents:
            views = ViewCache(settings.data, encoder.bundle.views)
            plan = plan_manifest(read(manifest), collection, views, contents)
            pipeline = IngestPipeline(encoder, collection, sandbox, settings)
            assert sum(pipeline.run(plan.tasks())) == len(plan.tasks())
        report = make_report(plan, pipeline.skipped)
        told: Counts = {"added": report.added, "changed": report.changed, "unchanged": report.unchanged}
        return {name: value for name, value in told.items() if value}

    return taken


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def change(manifest: Path, index: int, **fields: Any) -> None:  # noqa: ANN401 (any JSON)
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    lines[index].update(fields)
    write(manifest, lines)


def ingest(manifest: Path, bundle: Path, *more: str) -> int:
    data = manifest.parent / "data"
    return main(
        ["ingest", str(manifest), "--data", str(data), "--bundle", str(bundle), "--workers", "1", *more]
    )


def test_items_are_found_after_ingestion(
    manifest: Path, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ingest(manifest, bundle) == 0
    assert "3 added, 0 changed, 0 moved, 0 deleted, 0 unchanged, 0 skipped" in capsys.readouterr().out
    with house(manifest.parent / "data", bundle) as shop:
        for colour in COLOURS:
            for target in ("shape", "image", "text"):
                assert shop.best(text=f"{colour} box", target=target) == colour
        assert shop.client.get("/v1/items/red").json()["payload"] == {"is": "red"}


def test_a_second_run_changes_nothing(take: Callable[[], Counts]) -> None:
    assert take() == {"added": [*COLOURS]}
    assert take() == {"unchanged": 3}


@pytest.mark.parametrize(
    "fields",
    [
        {"texts": ["other words"]},
        {"texts": ["red thing", "a red box"]},
        {"meta": {"is": "new"}},
        {"images": []},
        {"images": ["blue.png"]},
        {"mesh": "blue.glb"},
        {"mesh": None},
    ],
)
def test_what_changed_goes_in_again(
    manifest: Path, take: Callable[[], Counts], fields: dict[str, object]
) -> None:
    take()
    change(manifest, 0, **fields)
    assert take() == {"changed": ["red"], "unchanged": 2}
    assert take() == {"unchanged": 3}


@pytest.mark.parametrize(("name", "data"), [("red.glb", box("yellow")), ("red.png", png("yellow"))])
def test_a_file_that_changed_goes_in_again(
    manifest: Path, take: Callable[[], Counts], name: str, data: bytes
) -> None:
    take()
    (manifest.parent / name).write_bytes(data)
    assert take() == {"changed": ["red"], "unchanged": 2}


def test_what_was_forgotten_about_drawing_is_drawn_again(manifest: Path, take: Callable[[], Counts]) -> None:
    take()
    for remembered in (manifest.parent / "data" / "drawn").iterdir():
        remembered.write_text("half a li")
    assert take() == {"changed": [*COLOURS]}


def test_what_cannot_be_read_is_skipped_with_the_reason(
    manifest: Path, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (manifest.parent / "red.glb").write_bytes(b"text")
    (manifest.parent / "green.png").unlink()
    change(manifest, 2, id="x" * 600)
    write(manifest, [*map(json.loads, manifest.read_text().splitlines()), {"id": "fine", "texts": ["white"]}])
    report = manifest.parent / "report.json"
    assert ingest(manifest, bundle, "--report", str(report)) == 0
    told = json.loads(report.read_text())
    assert told["added"] == ["fine"]
    reasons = {problem["name"]: problem["reason"] for problem in told["skipped"]}
    assert set(reasons) == {"red", "green", "x" * 600}
    assert "not a GLB" in reasons["red"]
    assert "No such file" in reasons["green"]
    assert "3 skipped" in capsys.readouterr().out


def test_a_texture_beside_a_mesh_is_part_of_it(manifest: Path, take: Callable[[], Counts]) -> None:
    folder = manifest.parent
    cube = "mtllib red.mtl\nusemtl m\nv 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1 2 4\nf 2 3 4\n"
    (folder / "red.obj").write_text(cube)
    (folder / "red.mtl").write_text("newmtl m\nKd 1 0 0\n")
    change(manifest, 0, mesh="red.obj")
    take()
    (folder / "red.mtl").write_text("newmtl m\nKd 0 0 1\n")
    assert take() == {"changed": ["red"], "unchanged": 2}
    assert take() == {"unchanged": 3}


def test_nothing_taken_in_is_a_failure(
    manifest: Path, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(manifest, [{"id": "a", "mesh": "none.glb", "split": "test"}, {"id": "b", "texts": ["red"]}])
    assert ingest(manifest, bundle, "--split", "test") == 1
    output = capsys.readouterr()
    assert "0 unchanged, 1 skipped" in output.out
    assert "a: " in output.err


def test_a_missing_manifest_is_named(
    tmp_path: Path, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ingest(tmp_path / "none.jsonl", bundle) == 2
    assert "there is no manifest" in capsys.readouterr().err


def test_a_running_service_is_sent_what_it_keeps_to_itself(
    manifest: Path, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with house(manifest.parent / "data", bundle) as shop:
        assert ingest(manifest, bundle) == 0
        assert shop.url in capsys.readouterr().out
        assert shop.client.post("/v1/items/count", json={}).json()["count"] > 0


def test_a_collection_of_another_encoder_is_refused(
    manifest: Path, take: Callable[[], Counts], capsys: pytest.CaptureFixture[str]
) -> None:
    take()
    other = tiny.build(manifest.parent / "other", seed=1)
    assert ingest(manifest, other.folder) == 2
    assert other.vector_id in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"renderer": "software-0"}, "software-0"), ({"views": 5}, "5 views"), ({"rig": "ring0"}, "ring0")],
)
def test_an_encoder_that_knows_shapes_drawn_otherwise_is_refused(
    manifest: Path, changes: dict[str, Any], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    views = {**vars(tiny.SPEC.views), **changes}
    other = tiny.build(manifest.parent / "other", views=type(tiny.SPEC.views)(**views))
    assert ingest(manifest, other.folder) == 2
    assert reason in capsys.readouterr().err


def test_views_that_cannot_be_stored_keep_their_item_out(
    manifest: Path, bundle: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, plain = open_encoder(bundle, threads=1), FolderBlobs.put

    def full(self: FolderBlobs, data: bytes, suffix: str = "", *, copy: bool = True) -> str:
        if suffix == ".webp":
            raise BlobError("the disk takes no more")
        return plain(self, data, suffix, copy=copy)

    monkeypatch.setattr(FolderBlobs, "put", full)
    with Collection.open(manifest.parent / "data", encoder) as collection, ContentCache(None) as contents:
        views = ViewCache(manifest.parent / "data", encoder.bundle.views)
        tasks = plan_manifest(read(manifest), collection, views, contents).tasks()
        pipeline = IngestPipeline(
            encoder, collection, sandbox, Settings(data=manifest.parent / "data", bundle=bundle)
        )
        assert sum(pipeline.run(tasks)) == len(tasks)
        drawn_ones = {task.id for task in tasks if task.mesh is not None}
        assert {problem.name for problem in pipeline.skipped} == drawn_ones != set()
        assert {problem.reason for problem in pipeline.skipped} == {"the disk takes no more"}
        assert set(collection.ids()) == {task.id for task in tasks} - drawn_ones
