"""A checkpoint becomes a bundle that loads, answers like the model, and reports itself."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from multifold.bundle import bundle as bundles
from multifold.bundle import canary
from multifold.bundle.bundle import BundleError
from multifold.bundle.canary import made_clouds, open_encoder
from multifold.bundle.encoder import Encoder
from multifold.bundle.point_groups import group_points
from tests.training import small
from training import checkpoint
from training.checkpoint import Checkpoint
from training.export.bundle import export_bundle
from training.export.graphs import ParityError, check_parity
from training.export.variants import write_variant

HOUSE = Path(__file__).resolve().parents[3]
LOSS = {"name": "mfh_even", "agg_image": 1.0, "text_image": 0.5, "text_points": 1.0, "image_points": 0.5}
WITH_POINTS = {"points": small.POINTS, "loss": LOSS}
SPEC = small.cloud_spec()
VIEWS, CAPTIONS = small.pictures()


@pytest.fixture(scope="module")
def encoder(trained_bundle: Path) -> Encoder:
    return open_encoder(trained_bundle)


def test_it_answers_like_the_model_for_any_batch_and_length(trained_run: Path, encoder: Encoder) -> None:
    model = checkpoint.load_checkpoint(trained_run).model
    for rows in (1, 3, 16):
        assert check_parity(model, encoder, VIEWS[:rows, 0], [c[0] for c in CAPTIONS[:rows]]) < 1e-4
    for text in ("square " * 100, ""):
        assert check_parity(model, encoder, VIEWS[:1, 0], [text]) < 1e-4
    other = small.model(small.recipe(), seed=99).eval()
    with pytest.raises(ParityError, match=r"image\.onnx differs from the model"):
        check_parity(other, encoder, VIEWS[0], CAPTIONS[0])


def test_the_report_and_its_numbers_are_in_the_bundle(encoder: Encoder) -> None:
    numbers = encoder.bundle.evaluation
    assert numbers["text_to_shape"]["queries"] == 48
    assert numbers["shape_to_text"]["gallery"] == 48
    assert numbers["text_to_shape"]["R@5"][0] > 0.8
    assert "text to shape" in encoder.bundle.path("report.md").read_text(encoding="utf-8")
    assert encoder.bundle.provenance["recipe"]["name"] == "small"


def test_probes_are_features_of_the_held_out_items(encoder: Encoder) -> None:
    with np.load(encoder.bundle.path("probe.npz")) as probes:
        texts = encoder.texts([text for texts in CAPTIONS for text in texts]).features
        np.testing.assert_allclose(probes["text"], texts, atol=1e-5)
        np.testing.assert_allclose(probes["shape"][3], encoder.pixels(VIEWS[3]).mean(0), atol=1e-5)


def test_graphs_do_not_tell_where_they_were_made(encoder: Encoder) -> None:
    for name in ("image.onnx", "text.onnx", "geometry.onnx"):
        graph = encoder.bundle.path(name).read_bytes()
        assert not [word for word in (b"stack_trace", str(HOUSE).encode(), b"site-packages") if word in graph]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    wanted = small.recipe(WITH_POINTS, steps=80, captions=0, views=0)
    return checkpoint.load_checkpoint(small.train(wanted, tmp_path_factory.mktemp("run")))


@pytest.fixture(scope="module")
def points_encoder(trained: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    folder = tmp_path_factory.mktemp("bundle")
    export_bundle(trained, VIEWS, CAPTIONS, folder, {"code": "test"}, groups=small.clouds(SPEC))
    return open_encoder(folder)


def test_its_point_tower_answers_like_the_model(trained: Checkpoint, points_encoder: Encoder) -> None:
    assert trained.model.points is not None
    samples = made_clouds(SPEC.points)
    made = torch.from_numpy(np.stack([group_points(one, SPEC) for one in samples]))
    with torch.inference_mode():
        ours = trained.model.points(made)
    np.testing.assert_allclose(points_encoder.points(samples), ours.numpy(), atol=1e-4)
    mixed = deepcopy(trained.model)
    mixed.points = small.model(small.recipe(WITH_POINTS), seed=7).eval().points
    with pytest.raises(ParityError, match=r"points\.onnx differs"):
        check_parity(mixed, points_encoder, VIEWS[0], CAPTIONS[0])


def test_views_points_and_captions_have_learned_as_one_group(points_encoder: Encoder) -> None:
    numbers = points_encoder.bundle.evaluation
    assert numbers["text_to_points"]["queries"] == numbers["text_to_shape_by_all"]["queries"] == 48
    assert numbers["text_to_points"]["R@5"][0] > 0.6  # by chance 0.31
    assert "text to points" in points_encoder.bundle.path("report.md").read_text(encoding="utf-8")
    features = points_encoder.grouped_points(small.clouds(SPEC)), points_encoder.pixels(VIEWS[:, 0])
    by_points, by_views = (normalize(torch.from_numpy(one), dim=1) for one in features)
    found = (by_points @ by_views.T).argmax(1)
    assert (found == torch.arange(16)).float().mean() > 0.8


def test_the_bundle_states_how_points_are_drawn(points_encoder: Encoder) -> None:
    assert points_encoder.bundle.points == SPEC
    other = replace(points_encoder.bundle, points=replace(SPEC, seed=1))
    assert other.vector_id != points_encoder.bundle.vector_id


def test_canaries_watch_the_point_tower(points_encoder: Encoder, tmp_path: Path) -> None:
    with np.load(points_encoder.bundle.path(canary.CANARY_FILE)) as stored:
        arrays = dict(stored)
    features = arrays.pop("point_features")
    for name, canaries, said in (
        ("changed", {**arrays, "point_features": -features}, "point tower"),
        ("lacking", arrays, "no canaries of its point tower"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        for file in points_encoder.bundle.files:
            (folder / file).write_bytes(points_encoder.bundle.path(file).read_bytes())
        np.savez(folder / canary.CANARY_FILE, **canaries)
        bundles.save(replace(points_encoder.bundle, folder=folder))
        with pytest.raises(BundleError, match=said):
            open_encoder(folder)


def test_a_variant_keeps_its_points(points_encoder: Encoder, tmp_path: Path) -> None:
    written = write_variant(points_encoder, "fp16", VIEWS, CAPTIONS, tmp_path / "half", tolerance=1.0)
    half, samples = open_encoder(written.folder), made_clouds(SPEC.points)
    assert written.points == points_encoder.bundle.points
    np.testing.assert_array_equal(half.points(samples), points_encoder.points(samples))
