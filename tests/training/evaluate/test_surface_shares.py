"""Which parts of a mesh a small point tower has matched with a text, and the command that shows them."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import trimesh
from jaxtyping import Bool

from multifold.analysis.surface import PointRows, explain_surface
from multifold.bundle.canary import open_encoder
from multifold.bundle.point_groups import group_points
from multifold.cli import main
from multifold.errors import MultifoldError
from multifold.types import Vectors
from renderers.orders import MeshSource, PointOrder
from renderers.sandbox import Sandbox
from tests import tiny
from tests.training import small
from training import loop, prepare
from training.checkpoint import load_checkpoint
from training.evaluate.surface_shares import explain_mesh
from training.recipes.schema import SmallPointsSection
from training.retrieval.encoder import TorchEncoder
from training.towers import point_spec

COLOURS = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]], np.float32)
POINTS, MARKED = 256, 24
TOWER = {"points": POINTS, "groups": 24, "neighbours": 8, "stem": [16], "width": 32, "depth": 1, "heads": 2}
SPEC = point_spec(SmallPointsSection.model_validate(TOWER))


def marked(item: int) -> tuple[PointRows, Bool[np.ndarray, " p"]]:
    """A ball with a mark in one of four places, in one of four colours: all that tells it from others."""
    rng = np.random.default_rng(0)
    places = rng.normal(size=(POINTS, 3)).astype(np.float32)
    places /= np.linalg.norm(places, axis=1, keepdims=True)
    angle = np.pi / 2 * (item % 4)
    middle = np.array([np.cos(angle), 0, np.sin(angle)], np.float32)
    colors = np.full((POINTS, 3), 0.8, np.float32)
    mark = np.argsort(np.argsort(-places @ middle)) < MARKED
    colors[mark] = COLOURS[item // 4]
    return np.concatenate([places, places, colors], axis=1), mark


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A point tower that has learned sixteen marked balls by their captions."""
    wanted = small.recipe({**small.POINTS_ALONE, "points": TOWER}, steps=150, captions=0, items=12)
    items, tokenizer = small.groups(wanted)
    points = np.stack([group_points(marked(item)[0], SPEC) for item in range(16)])
    items = replace(items, points=points, directions=SPEC.directions)
    return loop.train(wanted, items, tokenizer, tmp_path_factory.mktemp("marked"))


def test_the_mark_that_a_text_names_is_found(trained: Path) -> None:
    checkpoint = load_checkpoint(trained)
    encoder = TorchEncoder(checkpoint.model, prepare.reader(checkpoint.recipe, checkpoint.tokenizer))

    def encode(samples: Sequence[PointRows]) -> Vectors:
        return encoder.vectors(encoder.grouped_points(np.stack([group_points(one, SPEC) for one in samples])))

    _, captions = small.pictures()
    weights = []
    for item in range(16):
        sample, mark = marked(item)
        words = encoder.vectors(encoder.texts([captions[item][0]]).features)[0]
        surface = explain_surface(sample, words, encode, encoder.metric, regions=8)
        shares = surface.at(sample[:, :3])
        weights.append([shares[mark].mean(), shares[~mark].mean()])
    inside, outside = np.array(weights).T

    assert (inside > outside).sum() >= 14  # by chance 8


def test_the_command_draws_a_mesh(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trimesh.creation.icosphere(2).export(tmp_path / "ball.stl")
    out = [str(tmp_path / name) for name in ("out.json", "out.html")]
    given = ["explain", str(trained), "--mesh", str(tmp_path / "ball.stl"), "--text", "a red square left"]
    assert main([*given, "--json", out[0], "--html", out[1]]) == 0
    assert "mesh by occlusion, 24 regions:" in capsys.readouterr().out
    told = json.loads(Path(out[0]).read_text(encoding="utf-8"))["mesh"]
    shares = [one["share"] for one in told["regions"]]
    assert shares == sorted(shares, reverse=True)
    views = len(torch.tensor(told["grids"]))
    assert views == 6
    assert Path(out[1]).read_text(encoding="utf-8").count("data:image/webp") == views


def test_a_bundle_explains_a_mesh_by_occlusion_too(tmp_path: Path) -> None:
    tiny.build_with_points(tmp_path / "bundle")
    trimesh.creation.icosphere(3).export(tmp_path / "ball.stl")
    found = explain_mesh(tmp_path / "bundle", tmp_path / "ball.stl", "a ball")
    encoder = open_encoder(tmp_path / "bundle")
    with Sandbox(1) as sandbox:
        sampled = sandbox.sample(
            MeshSource(tmp_path / "ball.stl"), PointOrder(tiny.POINTS.points, seed=tiny.POINTS.seed)
        )
    words = encoder.vectors(encoder.texts(["a ball"]).features)[0]

    def encode(samples: Sequence[PointRows]) -> Vectors:
        return encoder.vectors(encoder.points(samples))

    wanted = explain_surface(sampled.points.rows(), words, encode, encoder.metric)
    np.testing.assert_array_equal(found.surface.shares, wanted.shares)
    assert len(found.views) == len(found.maps) == 6
    assert all(np.abs(one.grid).max() > 0 for one in found.maps)


def test_what_cannot_explain_a_mesh_is_named(
    trained: Path, trained_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(MultifoldError, match="neither a bundle nor a checkpoint"):
        explain_mesh(tmp_path / "nothing", tmp_path / "ball.stl", "red")
    tiny.build(tmp_path / "plain")
    with pytest.raises(MultifoldError, match="has no point tower"):
        explain_mesh(tmp_path / "plain", tmp_path / "ball.stl", "red")
    with pytest.raises(MultifoldError, match="has no point tower"):
        explain_mesh(trained_run, tmp_path / "ball.stl", "red")
    given = ["explain", str(trained), "--mesh", "ball.stl", "--text", "red", "--method", "grad-cam"]
    assert main(given) != 0
    assert "by occlusion" in capsys.readouterr().err
