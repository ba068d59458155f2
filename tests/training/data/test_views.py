"""What a training sees of an item: its mesh from all sides, or else its pictures."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from multifold.bundle.bundle import ViewSpec
from multifold.bundle.preprocess import ImageSpec
from multifold.manifest import ManifestEntry
from tests.training.data.sources.test_folder import CUBE
from training.data import views
from training.data.views import ViewsError, load_views, training_items, visible_items

SPEC = ViewSpec(rig="ring3", size=32, background="white", up="auto", views=3, renderer="x")
IMAGE = ImageSpec(size=16)
COLOURS = {"red": (255, 0, 0), "lime": (0, 255, 0), "blue": (0, 0, 255)}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    for name in COLOURS:
        Image.new("RGB", (20, 16), name).save(tmp_path / f"{name}.png")
    (tmp_path / "cube.obj").write_text(CUBE, encoding="utf-8")
    return {path.stem: path for path in tmp_path.iterdir()}


def test_meshes_are_drawn_and_pictures_shown_in_turn(files: dict[str, Path], tmp_path: Path) -> None:
    entries = [
        ManifestEntry("photos", images=tuple(files[name] for name in COLOURS)),
        ManifestEntry("photo", images=(files["blue"],)),
        ManifestEntry("cube", mesh=files["cube"], images=(files["red"],)),
    ]
    seen = load_views(entries, SPEC, IMAGE, tmp_path / "cache")
    assert seen.shape == (3, 3, 16, 16, 3)
    assert [tuple(view[8, 8]) for view in seen[0]] == list(COLOURS.values())
    assert [tuple(view[8, 8]) for view in seen[1]] == [COLOURS["blue"]] * 3
    assert not np.array_equal(seen[2, 0], seen[2, 1])
    assert all(255 > view[8, 8].mean() > 0 for view in seen[2])  # neither the red picture nor nothing
    assert len(np.unique(seen[2, 0])) > 3


def test_an_item_of_one_picture_is_stored_once(files: dict[str, Path], tmp_path: Path) -> None:
    several = ManifestEntry("several", images=tuple(files[name] for name in COLOURS))
    entries = [ManifestEntry(str(n), images=(files["blue"],)) for n in range(30)]
    entries.insert(7, several)
    seen = training_items(entries, SPEC, IMAGE, tmp_path / "cache")
    stored = sum(path.stat().st_size for path in (tmp_path / "cache").glob("*.npy"))
    assert stored < 1.1 * (30 + 3) * 16 * 16 * 3
    dense = load_views(entries, SPEC, IMAGE, tmp_path / "dense")
    items, shown = np.repeat(np.arange(31), 3), np.tile(np.arange(3), 31)
    assert seen.views.shape == dense.shape
    assert np.array_equal(seen.views[items, shown], dense[items, shown])


def test_the_cache_knows_its_pictures(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [ManifestEntry("photo", images=(files["blue"],))]
    first = load_views(entries, SPEC, IMAGE, tmp_path / "cache")
    with monkeypatch.context() as patch:
        patch.setattr(views, "_render", lambda *_: pytest.fail("made again"))
        assert np.array_equal(load_views(entries, SPEC, IMAGE, tmp_path / "cache"), first)
    Image.new("RGB", (20, 16), "red").save(files["blue"])
    assert tuple(load_views(entries, SPEC, IMAGE, tmp_path / "cache")[0, 0, 8, 8]) == COLOURS["red"]


def test_what_is_broken_is_named_and_the_others_are_whole(files: dict[str, Path], tmp_path: Path) -> None:
    files["lime"].write_bytes(b"no picture")
    images = {"a": files["red"], "b": files["lime"], "c": tmp_path / "gone.png", "d": files["blue"]}
    entries = [ManifestEntry(name, images=(path,)) for name, path in images.items()]
    entries.append(ManifestEntry("e", texts=("words",)))
    for _ in range(2):  # the second time from the cache
        seen = visible_items(entries, SPEC, IMAGE, tmp_path / "cache")
        assert [entry.id for entry in seen.entries] == ["a", "d"]
        assert [tuple(item[0, 8, 8]) for item in np.asarray(seen.views)] == [COLOURS["red"], COLOURS["blue"]]
        assert sorted(seen.problems) == ["b", "c", "e"]
        assert str(files["lime"]) in seen.problems["b"]
        assert "gone.png" in seen.problems["c"]


def test_what_cannot_be_seen_is_told(files: dict[str, Path], tmp_path: Path) -> None:
    files["red"].write_bytes(b"no picture")
    files["cube"].write_text("v 0 0\n", encoding="utf-8")
    for entry, message in (
        (ManifestEntry("a", images=(files["red"],)), r"red\.png: this is not a picture we can read"),
        (ManifestEntry("b", mesh=files["cube"]), r"cube\.obj: "),
        (ManifestEntry("c", texts=("words",)), "item c has neither a mesh nor a picture to look at"),
    ):
        with pytest.raises(ViewsError, match=message):
            load_views([entry], SPEC, IMAGE, tmp_path / "cache")
