"""Points beside the towers of a bundle: the same as beside its checkpoint, and a bundle that has both."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from multifold.bundle import bundle as bundles
from multifold.bundle.bundle import BundleError
from multifold.bundle.canary import made_clouds, open_encoder
from multifold.bundle.point_groups import group_points
from multifold.cli import main
from multifold.errors import MultifoldError
from tests import tiny
from tests.training import small
from training import checkpoint, loop, prepare
from training.checkpoint import Checkpoint
from training.export.beside import add_trained_points
from training.recipes.schema import Recipe
from training.retrieval.comparison import WorseError
from training.run import TrainingRun
from training.towers import bundled
from training.towers.base import TowerError

LOSS: dict[str, Any] = {"name": "mfh_even", "agg_image": 0.0, "text_points": 1.0, "image_points": 0.5}
SPEC = small.cloud_spec()


def beside(sections: Mapping[str, Any], **train: object) -> Recipe:
    """Points beside the towers of these sections."""
    options = {"steps": 40, "shift": 0, "views": 0, "captions": 0, **train}
    return small.recipe({"points": small.POINTS, "loss": LOSS, **sections}, **options)


def of_bundle(folder: Path) -> dict[str, Any]:
    section = {"kind": "bundle", "bundle": str(folder)}
    return {"image": section, "text": section}


@pytest.fixture(scope="module")
def learned(trained_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of points that have learned beside the bundle."""
    return small.train(beside(of_bundle(trained_bundle), steps=60), tmp_path_factory.mktemp("learned"))


def add(model: Checkpoint, original: Path, folder: Path, force: bool = False) -> bundles.Bundle:
    views, captions = small.pictures()
    origin = {"code": "test"}
    return add_trained_points(
        model, bundles.load(original), folder, origin, views, captions, small.clouds(SPEC), force
    )


def test_points_learn_what_they_learn_beside_the_checkpoint(trained_run: Path, trained_bundle: Path) -> None:
    towers = {side: {"trainable": "none"} for side in ("image", "text")}
    recipes = beside(towers, start=str(trained_run)), beside(of_bundle(trained_bundle))
    plain, run = (TrainingRun(one, *small.groups(one), torch.device("cpu")) for one in recipes)
    assert run.model.points is not None
    assert plain.model.points is not None
    run.model.points.load_state_dict(plain.model.points.state_dict())
    for _ in range(3):
        losses = [loop.step(one, next(one.batches)) for one in (run, plain)]
        assert losses[0] == pytest.approx(losses[1], abs=1e-3)
    assert not [name for name in run.model.state_dict() if name.startswith(("image.stem", "text.embed"))]


def test_the_bundle_has_both(learned: Path, trained_bundle: Path, tmp_path: Path) -> None:
    model = checkpoint.load_checkpoint(learned)
    before = {path.name: path.read_bytes() for path in trained_bundle.iterdir()}
    both = add(model, trained_bundle, tmp_path / "both")
    encoder, original = open_encoder(tmp_path / "both"), open_encoder(trained_bundle)
    assert {path.name: path.read_bytes() for path in trained_bundle.iterdir()} == before
    assert encoder.vector_id != original.vector_id
    views, captions = small.pictures()
    assert np.array_equal(encoder.texts(captions[0]).features, original.texts(captions[0]).features)
    assert np.array_equal(encoder.pixels(views[0]), original.pixels(views[0]))
    clouds = made_clouds(SPEC.points)
    made = torch.from_numpy(np.stack([group_points(one, SPEC) for one in clouds]))
    assert model.model.points is not None
    with torch.inference_mode():
        np.testing.assert_allclose(encoder.points(clouds), model.model.points(made).numpy(), atol=1e-4)
    numbers = encoder.bundle.evaluation
    assert numbers["text_to_points"]["R@5"][0] > 0.6  # by chance 0.31
    assert numbers["text_to_shape"]["R@1"] == original.bundle.evaluation["text_to_shape"]["R@1"]
    report = encoder.bundle.path("report.md").read_text(encoding="utf-8")
    assert "text to points" in report
    assert "without points" in report
    assert encoder.bundle.provenance["points"]["against"]["bundle_id"] == original.bundle.bundle_id
    with pytest.raises(BundleError, match="has a point tower already"):
        add(model, both.folder, tmp_path / "again")
    with pytest.raises(BundleError, match="write the new bundle elsewhere"):
        add(model, trained_bundle, trained_bundle)


def test_points_that_say_the_contrary_are_refused_unless_forced(
    learned: Path, trained_bundle: Path, tmp_path: Path
) -> None:
    model = checkpoint.load_checkpoint(learned)
    project = model.model.points and model.model.points.project
    assert isinstance(project, torch.nn.Module)
    with torch.no_grad():
        next(project.parameters()).mul_(-3)
    with pytest.raises(WorseError, match="finds less than small"):
        add(model, trained_bundle, tmp_path / "worse")
    assert not (tmp_path / "worse").exists()
    assert add(model, trained_bundle, tmp_path / "worse", force=True).points is not None


def test_another_bundle_in_the_place_of_the_first_is_refused(trained_bundle: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    shutil.copytree(trained_bundle, folder)
    path = small.train(beside(of_bundle(folder), steps=2), tmp_path)
    assert checkpoint.load_checkpoint(path).model.points is not None
    bundle = bundles.load(folder)
    bundles.save(replace(bundle, views=replace(bundle.views, size=100)))  # other vectors of shapes
    bundled.opened.cache_clear()  # as in another process
    with pytest.raises(TowerError, match="this was trained beside"):
        checkpoint.load_checkpoint(path)


def test_what_does_not_fit_is_refused(trained_bundle: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(trained_bundle, other)
    towers = of_bundle(trained_bundle)
    for sections, said in (
        ({"text": of_bundle(other)["text"]}, "must name the same one"),
        ({"text": small.SECTIONS["text"]}, "must name the same one"),
        ({"geometry": {"dim": 8}}, "is not that of .* dim = 16"),
        ({"geometry": {"name": "euclidean", "dim": 16}}, "is not that of"),
    ):
        with pytest.raises(MultifoldError, match=said):
            TrainingRun(beside({**towers, **sections}), *small.groups(beside(towers)), torch.device("cpu"))
    with pytest.raises(BundleError, match="is no bundle"):
        small.groups(beside(of_bundle(tmp_path / "none")))


def test_from_a_recipe_to_a_bundle_by_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prepare, "cores", lambda: 1)  # so little furniture needs no processes
    tiny.build(tmp_path / "tiny")
    changes: dict[str, object] = {f"{side}.bundle": tmp_path / "tiny" for side in ("image", "text")}
    changes |= {f"points.{name}": small.POINTS[name] for name in ("points", "groups", "neighbours", "width")}
    changes |= {"geometry.dim": 16, "data.furniture_items": 20}
    changes |= {"train.items": 4, "train.steps": 2, "train.warmup": 1}
    settings = [f"{key}={value}" for key, value in changes.items()]
    run, folder, cache = tmp_path / "run", tmp_path / "both", ["--cache", str(tmp_path / "cache")]
    train = ["train", "points-beside", *cache, "--out", str(run), "--device", "cpu", "--set", *settings]
    assert main(train) != 0
    assert "[views] size = 224, and" in capsys.readouterr().err
    assert main([*train, "views.size=48"]) == 0
    export = ["export", str(run / "checkpoint.pt"), str(folder), *cache, "--force"]
    assert main([*export, "--against", str(tmp_path / "tiny")]) != 0
    assert "leave --against out" in capsys.readouterr().err
    assert main(export) == 0
    bundle = open_encoder(folder).bundle
    assert bundle.points is not None
    assert bundle.name == "tiny"
    assert bundle.provenance["points"]["recipe"]["name"] == "points-beside"
