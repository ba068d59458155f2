"""Training from tar shards: nothing is unpacked, and every step is that of the folder they were made of."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from multifold import manifest
from multifold.bundle.bundle import ViewSpec
from multifold.bundle.preprocess import ImageSpec
from multifold.cli import main
from multifold.files import tar_shards
from multifold.manifest import ManifestEntry
from tests.training import small
from tests.training.data.test_folder import CUBE
from training import checkpoint
from training.data.views import LazyViews, load_views, training_items
from training.objective import Objective
from training.recipes import library

STEPS = 6


class KilledError(Exception):
    """Stands for a process that ends in the middle of a step."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of coloured squares and one mesh, and beside them the folder that they unpack into."""
    folder = tmp_path_factory.mktemp("made")
    views, captions = small.pictures()
    entries = []
    for place, (seen, texts) in enumerate(zip(views, captions, strict=True)):
        paths = [folder / f"{place}-{number}.png" for number in range(len(seen) - place % 2)]
        for path, view in zip(paths, seen, strict=False):
            Image.fromarray(view).save(path)
        split = "val" if place % 5 == 4 else "train"
        entries.append(ManifestEntry(f"square {place}", tuple(paths), texts=tuple(texts), split=split))
    (folder / "cube.obj").write_text(CUBE, encoding="utf-8")
    entries.append(ManifestEntry("cube", mesh=folder / "cube.obj", texts=("a cube",), split="train"))
    manifest.write(folder / "made.jsonl", entries)
    shards = str(folder / "shards" / "%02d.tar")
    assert main(["data", "to-webdataset", str(folder / "made.jsonl"), shards, "--items", "5"]) == 0
    assert main(["data", "webdataset", str(folder / "shards" / "*.tar"), str(folder / "unpacked.jsonl")]) == 0
    return folder


def train(data: str | Path, out: Path, *more: str) -> int:
    wanted = small.recipe(steps=STEPS, views=2, captions=2, log_every=1, save_every=2, warmup=2)
    out.mkdir(exist_ok=True)
    (out.parent / "small.toml").write_text(library.to_toml(wanted), encoding="utf-8")
    changes = ["--set", f"data.manifest={data}", "views.rig=ring3", "views.size=32", "validation.every=3"]
    words = [
        str(out.parent / "small.toml"),
        *changes,
        "--out",
        str(out),
        "--cache",
        str(out.parent / "cache"),
    ]
    return main(["train", *words, *more])


def told(folder: Path) -> list[dict[str, float]]:
    """Losses and recalls, step for step."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [{key: line[key] for key in line if key in ("step", "loss") or "R@" in key} for line in lines]


def test_the_index_is_what_unpacking_gives(made: Path) -> None:
    words = [str(made / "shards" / "*.tar"), str(made / "placed.jsonl"), "--in-place"]
    assert main(["data", "webdataset", *words]) == 0
    ours, theirs = ([*manifest.read(made / f"{name}.jsonl")] for name in ("placed", "unpacked"))
    assert not (made / "placed").exists()
    for one, other in zip(ours, theirs, strict=True):
        assert (one.id, one.texts, one.split, one.meta) == (other.id, other.texts, other.split, other.meta)
        places = [*one.images, *([one.mesh] if one.mesh else [])]
        files = [*other.images, *([other.mesh] if other.mesh else [])]
        assert all(tar_shards.is_tar_member(path) for path in places)
        assert [tar_shards.read_bytes(path) for path in places] == [path.read_bytes() for path in files]


def test_every_step_is_that_of_the_folder(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(made / "unpacked.jsonl", tmp_path / "folder") == 0
    (tmp_path / "cache").rename(tmp_path / "other-cache")
    assert train(made / "shards" / "{00..03}.tar", tmp_path / "shards") == 0
    assert told(tmp_path / "shards") == told(tmp_path / "folder")
    assert sum("loss" in line for line in told(tmp_path / "shards")) == STEPS
    assert sum("val/text_to_shape/R@1" in line for line in told(tmp_path / "shards")) == 2
    weights = [
        checkpoint.read_checkpoint(tmp_path / name / "checkpoint.pt").weights for name in ("shards", "folder")
    ]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[1])
    assert "reading where things lie in 4 shards" in capsys.readouterr().out
    kept = sorted(len(np.load(path)) for path in (tmp_path / "cache").glob("views-*.npy"))
    assert kept == [1, 3]  # the mesh that was drawn, and what is held out; no other picture was unpacked
    assert train(made / "shards" / "{00..03}.tar", tmp_path / "again") == 0
    assert "reading where" not in capsys.readouterr().out


def test_an_interrupted_run_goes_on(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Objective.__call__

    def dies(self: Objective, model: Any, batch: Any, progress: float) -> Any:  # noqa: ANN401
        if round(progress * STEPS) == 4:
            raise KilledError
        return calls(self, model, batch, progress)

    shards = made / "shards" / "*.tar"
    assert train(shards, tmp_path / "whole") == 0
    with monkeypatch.context() as patch:
        patch.setattr(Objective, "__call__", dies)
        with pytest.raises(KilledError):
            train(shards, tmp_path / "torn")
    assert train(shards, tmp_path / "torn", "--resume") == 0
    assert told(tmp_path / "torn") == told(tmp_path / "whole")
    weights = [
        checkpoint.read_checkpoint(tmp_path / name / "checkpoint.pt").weights for name in ("torn", "whole")
    ]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[1])


def test_views_are_those_of_the_array(made: Path, tmp_path: Path) -> None:
    main(["data", "webdataset", str(made / "shards" / "*.tar"), str(made / "placed.jsonl"), "--in-place"])
    spec = ViewSpec(rig="ring3", size=32, background="white", up="auto", views=3, renderer="x")
    entries, image = [*manifest.read(made / "placed.jsonl")], ImageSpec(size=16)
    unopened = training_items(entries, spec, image, tmp_path / "cache").views
    assert isinstance(unopened, LazyViews)
    array = load_views(entries, spec, image, tmp_path / "cache")
    assert unopened.shape == array.shape == (17, 3, 16, 16, 3)
    items, views = np.array([16, 0, 1, 16, 5, 0]), np.array([2, 0, 2, 0, 1, 2])
    assert np.array_equal(unopened[items, views], array[items, views])


def test_a_damaged_picture_or_shard_is_named(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(made / "shards", tmp_path / "shards")
    path = tmp_path / "shards" / "01.tar"
    (picture, *_) = [one for one in tar_shards.members(path) if one.name.endswith(".png")]
    data = bytearray(path.read_bytes())
    data[picture.offset_data : picture.offset_data + 20] = b"x" * 20
    path.write_bytes(data)
    assert train(tmp_path / "shards" / "*.tar", tmp_path / "out") == 0
    assert f"01.tar/{picture.offset_data}+{picture.size}/{picture.name}" in capsys.readouterr().out
    data[picture.offset : picture.offset + 20] = b"x" * 20
    path.write_bytes(data)
    assert train(tmp_path / "shards" / "*.tar", tmp_path / "other") == 2
    assert "01.tar" in capsys.readouterr().err
