"""Half precision and 8 bits: smaller bundles that say what they lose, and none that loses too much."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from multifold.bundle import bundle as bundles
from multifold.bundle.bundle import BundleError
from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import Encoder
from tests import reading
from tests.training import small
from training.export import variants

VIEWS, CAPTIONS = small.pictures()
TEXTS = [text for texts in CAPTIONS for text in texts]


@pytest.fixture(scope="module")
def original(trained_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    folder = tmp_path_factory.mktemp("original")
    shutil.copytree(trained_bundle, folder / "bundle")
    bundles.add_reader(folder / "bundle", reading.write_table_reader(folder / "reader"))
    return open_encoder(folder / "bundle")


@pytest.fixture(scope="module", params=variants.VARIANTS)
def written(
    request: pytest.FixtureRequest, original: Encoder, tmp_path_factory: pytest.TempPathFactory
) -> Encoder:
    folder = tmp_path_factory.mktemp("written") / "bundle"
    variants.write_variant(original, request.param, VIEWS, CAPTIONS, folder, tolerance=0.2)
    return open_encoder(folder)


def test_a_variant_is_smaller_and_says_what_it_loses(original: Encoder, written: Encoder) -> None:
    before, bundle = original.bundle, written.bundle
    assert bundle.vector_id != before.vector_id
    assert bundle.provenance["original"] == before.bundle_id
    assert written.reader is not None
    assert original.reader is not None
    assert written.reader.id == original.reader.id
    size, full = (b.path("image.onnx").stat().st_size for b in (bundle, before))
    assert size < 0.8 * full
    ours, theirs = written.texts(TEXTS).features, original.texts(TEXTS).features
    assert not np.array_equal(ours, theirs)
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    assert ((ours * theirs).sum(1) / lengths).min() > {"fp16": 0.9999, "int8": 0.99}[bundle.variant]
    told = bundle.serves[before.vector_id]
    assert told["tolerance"] == 0.2
    assert told["recalls"]["text_to_shape/R@5"][1] == before.evaluation["text_to_shape"]["R@5"][0]
    assert f"{bundle.variant} of small" in bundle.path("report.md").read_text(encoding="utf-8")


def test_what_it_states_is_what_its_queries_find_in_the_original_collection(
    original: Encoder, written: Encoder
) -> None:
    queries = written.texts(TEXTS).features
    shapes = np.stack([original.pixels(views).mean(0) for views in VIEWS])
    scores = original.vectors(queries) @ original.vectors(shapes).T
    right = scores.argmax(1) == np.repeat(np.arange(len(CAPTIONS)), 3)
    stated = written.bundle.serves[original.vector_id]["recalls"]["text_to_shape/R@1"][0]
    assert stated == pytest.approx(right.mean(), abs=1e-4)


def test_a_variant_of_a_variant_is_refused(written: Encoder, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=f"is {written.bundle.variant} already; take its original"):
        variants.write_variant(written, "int8", VIEWS, CAPTIONS, tmp_path / "int8")


def test_one_that_loses_too_much_is_not_written(original: Encoder, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"the int8 variant loses more than -0\.5 alone: .*--tolerance"):
        variants.write_variant(original, "int8", VIEWS, CAPTIONS, tmp_path / "int8", tolerance=-0.5)
    assert not list(tmp_path.iterdir())


def test_a_bundle_that_serves_nobody_else_says_nothing_of_it(original: Encoder) -> None:
    """So that the ids of bundles from before there were variants stay as they were."""
    text = (original.bundle.folder / bundles.DESCRIPTION_FILE).read_text(encoding="utf-8")
    assert "serves" not in text
