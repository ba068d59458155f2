"""Views that the last blocks of the image tower read together: the bundle answers like the model."""

from pathlib import Path

import numpy as np
import pytest
import torch

from multifold.bundle.bundle import BundleError
from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import Encoder
from tests.training import small
from training import checkpoint, loop
from training.checkpoint import Checkpoint
from training.evaluate.subject import evaluated_bundle
from training.export.bundle import export_bundle
from training.export.graphs import ParityError, check_parity
from training.export.variants import write_variant
from training.recipes.schema import Recipe, parse_recipe
from training.towers import build_model


def recipe() -> Recipe:
    raw = small.recipe(steps=3, captions=0, views=0).model_dump(exclude_none=True)
    loss = {"name": "mfh_even", "agg_image": 1.0, "text_image": 0.5}
    return parse_recipe({**raw, "together": {"last": 1}, "loss": loss}, "last")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    items, tokenizer = small.groups(recipe())
    return checkpoint.load_checkpoint(loop.train(recipe(), items, tokenizer, tmp_path_factory.mktemp("run")))


@pytest.fixture(scope="module")
def encoder(trained: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    views, captions = small.pictures()
    folder = tmp_path_factory.mktemp("bundle")
    export_bundle(trained, views, captions, folder, {"code": "test"})
    return open_encoder(folder)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_it_answers_like_the_model(trained: Checkpoint, encoder: Encoder, count: int) -> None:
    views, _ = small.pictures()
    pixels = np.concatenate(views[:3])[:count]
    features, of = encoder.pixels(pixels), torch.zeros(count, dtype=torch.int64)
    with torch.inference_mode():
        ours = trained.model.views_together(torch.from_numpy(pixels), torch.from_numpy(features), of)
    assert ours is not None
    np.testing.assert_allclose(encoder.together(features, pixels), ours[0].numpy(), atol=1e-4)
    np.testing.assert_allclose(
        encoder.together(features[::-1], pixels[::-1]), encoder.together(features, pixels), atol=1e-5
    )
    if count > 1:  # one view has no other to attend to
        assert not np.allclose(encoder.together(features, pixels), features.mean(0), atol=1e-4)


def test_weights_are_stored_once(encoder: Encoder) -> None:
    sizes = {name: encoder.bundle.path(name).stat().st_size for name in ("image.onnx", "views.onnx")}
    assert sizes["views.onnx"] < sizes["image.onnx"] / 4


def test_other_weights_are_refused(encoder: Encoder) -> None:
    torch.manual_seed(7)
    views, captions = small.pictures()
    with pytest.raises(ParityError, match=r"image\.onnx differs"):
        check_parity(build_model(recipe(), 300).eval(), encoder, views[0], list(captions[0]))


def test_it_is_measured_by_its_views_together(encoder: Encoder) -> None:
    assert encoder.bundle.evaluation["text_to_views_together"]["queries"] == 48
    assert evaluated_bundle(encoder.bundle.folder).encoder.reads_together  # type: ignore[attr-defined]


def test_features_alone_are_not_enough(encoder: Encoder) -> None:
    with pytest.raises(BundleError, match="by their pixels"):
        encoder.together(np.zeros((2, encoder.bundle.geometry.feature_dim), np.float32))


def test_there_is_no_variant_of_it(encoder: Encoder, tmp_path: Path) -> None:
    views, captions = small.pictures()
    with pytest.raises(BundleError, match="no variant"):
        write_variant(encoder, "fp16", views, captions, tmp_path / "half", tolerance=1.0)
