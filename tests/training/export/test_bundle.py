"""A checkpoint becomes a bundle that loads, answers like the model, and reports itself."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from jaxtyping import Float

from multifold.bundle import bundle as bundles
from multifold.bundle import canary
from multifold.bundle.bundle import BundleError
from multifold.bundle.canary import made_clouds, open_encoder
from multifold.bundle.encoder import Encoder
from multifold.bundle.point_groups import group_points
from tests.training import small
from tests.training.clouds import POINTS, grouped, spec
from training import checkpoint, loop
from training.checkpoint import Checkpoint
from training.export.bundle import export_bundle
from training.export.graphs import ParityError, check_parity
from training.export.variants import write_variant
from training.recipes.schema import Recipe, parse_recipe
from training.towers import build_model

HOUSE = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def encoder(trained_bundle: Path) -> Encoder:
    return open_encoder(trained_bundle)


def test_it_answers_like_the_model_for_any_batch_and_length(trained_run: Path, encoder: Encoder) -> None:
    model = checkpoint.load_checkpoint(trained_run).model
    views, captions = small.pictures()
    for rows in (1, 3, 16):
        assert check_parity(model, encoder, views[:rows, 0], [c[0] for c in captions[:rows]]) < 1e-4
    assert check_parity(model, encoder, views[:1, 0], ["square " * 100]) < 1e-4
    assert check_parity(model, encoder, views[:1, 0], [""]) < 1e-4


def test_it_refuses_a_model_of_other_weights(encoder: Encoder) -> None:
    torch.manual_seed(99)
    other = build_model(small.recipe(), 300)
    views, captions = small.pictures()
    with pytest.raises(ParityError, match=r"image\.onnx differs from the model"):
        check_parity(other.eval(), encoder, views[0], captions[0])


def test_the_report_is_in_the_bundle(encoder: Encoder) -> None:
    numbers = encoder.bundle.evaluation
    assert numbers["text_to_shape"]["queries"] == 48
    assert numbers["shape_to_text"]["gallery"] == 48
    assert numbers["text_to_shape"]["R@5"][0] > 0.8
    assert "text to shape" in encoder.bundle.path("report.md").read_text(encoding="utf-8")
    assert encoder.bundle.provenance["recipe"]["name"] == "small"


def test_probes_are_features_of_the_held_out_items(encoder: Encoder) -> None:
    views, captions = small.pictures()
    with np.load(encoder.bundle.path("probe.npz")) as probes:
        texts = encoder.texts([text for texts in captions for text in texts]).features
        np.testing.assert_allclose(probes["text"], texts, atol=1e-5)
        np.testing.assert_allclose(probes["shape"][3], encoder.pixels(views[3]).mean(0), atol=1e-5)


def test_graphs_do_not_tell_where_they_were_made(encoder: Encoder) -> None:
    for name in ("image.onnx", "text.onnx", "geometry.onnx"):
        graph = encoder.bundle.path(name).read_bytes()
        assert b"stack_trace" not in graph
        assert str(HOUSE).encode() not in graph
        assert b"site-packages" not in graph


LOSS = {"name": "mfh_even", "agg_image": 1.0, "text_image": 0.5, "text_points": 1.0, "image_points": 0.5}


def recipe(**changes: object) -> Recipe:
    raw = small.recipe(steps=80, captions=0, views=0).model_dump(exclude_none=True)
    return parse_recipe({**raw, "points": POINTS, "loss": LOSS, **changes}, "shapes")


def groups() -> Float[np.ndarray, "i g k c"]:
    return grouped(16, spec())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    wanted = recipe()
    items, tokenizer = small.groups(wanted)
    items = replace(items, points=groups(), directions=spec().directions)
    return checkpoint.load_checkpoint(loop.train(wanted, items, tokenizer, tmp_path_factory.mktemp("run")))


@pytest.fixture(scope="module")
def points_encoder(trained: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    views, captions = small.pictures()
    folder = tmp_path_factory.mktemp("bundle")
    export_bundle(trained, views, captions, folder, {"code": "test"}, groups=groups())
    return open_encoder(folder)


def test_it_answers_like_the_model(trained: Checkpoint, points_encoder: Encoder) -> None:
    assert trained.model.points is not None
    views, captions = small.pictures()
    for count in (1, 2):
        assert check_parity(trained.model, points_encoder, views[0][:count], captions[0]) < 1e-4
    samples = made_clouds(spec().points)
    made = torch.from_numpy(np.stack([group_points(one, spec()) for one in samples]))
    with torch.inference_mode():
        ours = trained.model.points(made)
    np.testing.assert_allclose(points_encoder.points(samples), ours.numpy(), atol=1e-4)


def test_other_weights_are_refused(trained: Checkpoint, points_encoder: Encoder) -> None:
    torch.manual_seed(7)
    other = build_model(recipe(), 300).eval()
    views, captions = small.pictures()
    mixed = deepcopy(trained.model)
    mixed.points = other.points
    with pytest.raises(ParityError, match=r"points\.onnx differs"):
        check_parity(mixed, points_encoder, views[0], captions[0])


def test_the_report_says_what_points_find(points_encoder: Encoder) -> None:
    numbers = points_encoder.bundle.evaluation
    assert numbers["text_to_points"]["queries"] == numbers["text_to_shape_by_all"]["queries"] == 48
    assert numbers["text_to_points"]["R@5"][0] > 0.6  # by chance 0.31
    assert "text to points" in points_encoder.bundle.path("report.md").read_text(encoding="utf-8")


def test_the_bundle_states_how_points_are_drawn(points_encoder: Encoder) -> None:
    assert points_encoder.bundle.points == spec()
    other = replace(points_encoder.bundle, points=replace(spec(), seed=1))
    assert other.vector_id != points_encoder.bundle.vector_id


def test_canaries_watch_the_point_tower(points_encoder: Encoder, tmp_path: Path) -> None:
    path = points_encoder.bundle.path(canary.CANARY_FILE)
    with np.load(path) as stored:
        arrays = dict(stored)
    changed = {**arrays, "point_features": -arrays["point_features"]}
    with pytest.raises(BundleError, match="point tower"):
        open_encoder(copy_with(points_encoder, tmp_path / "changed", changed))
    lacking = {key: value for key, value in arrays.items() if key != "point_features"}
    with pytest.raises(BundleError, match="no canaries of its point tower"):
        open_encoder(copy_with(points_encoder, tmp_path / "lacking", lacking))


def copy_with(points_encoder: Encoder, folder: Path, canaries: dict[str, np.ndarray]) -> Path:
    folder.mkdir()
    for name in points_encoder.bundle.files:
        (folder / name).write_bytes(points_encoder.bundle.path(name).read_bytes())
    np.savez(folder / canary.CANARY_FILE, **canaries)  # type: ignore[arg-type]
    bundles.save(replace(points_encoder.bundle, folder=folder))
    return folder


def test_a_variant_keeps_them(points_encoder: Encoder, tmp_path: Path) -> None:
    views, captions = small.pictures()
    written = write_variant(points_encoder, "fp16", views, captions, tmp_path / "half", tolerance=1.0)
    half, samples = open_encoder(written.folder), made_clouds(spec().points)
    assert written.points == points_encoder.bundle.points
    np.testing.assert_array_equal(half.points(samples), points_encoder.points(samples))
