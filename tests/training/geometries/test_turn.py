"""Vectors that can be cut: turned onto main axes, they compare as before; the first numbers tell most."""

from pathlib import Path

import numpy as np
import pytest
import torch

from multifold.bundle.canary import open_encoder
from multifold.errors import MultifoldError
from tests.training import small
from tests.training.export.test_beside import LOSS, beside, of_bundle
from tests.training.test_objective import recipe, started
from training import checkpoint, geometries, loop
from training.batches import TrainingBatch
from training.export.bundle import export_bundle
from training.geometries import GEOMETRIES
from training.geometries.turn import Turn, main_axes
from training.recipes.schema import Recipe, RecipeError
from training.run import TrainingRun
from training.sides import encode_batch
from training.towers.base import TowerError

DIM = 12
NESTS = ("clip", "elliptic")


def spread(rows: int, seed: int = 0) -> torch.Tensor:
    """Features that differ most along a few axes which are no single number."""
    chance = torch.Generator().manual_seed(seed)
    mix = torch.randn(DIM, DIM, generator=torch.Generator().manual_seed(99))
    return torch.randn(rows, DIM, generator=chance) * 0.5 ** torch.arange(DIM) @ mix


def nested(**train: object) -> Recipe:
    return small.recipe({"loss": {"nested": (4, 8)}}, **train)


@pytest.fixture(scope="module")
def turned_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.train(nested(steps=40), tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def turned_bundle(turned_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    export_bundle(checkpoint.load_checkpoint(turned_run), *small.pictures(), folder, {"code": "test"})
    return folder


@pytest.mark.parametrize("name", NESTS)
def test_the_first_numbers_are_those_of_the_main_axes(name: str) -> None:
    geometry, seen = geometries.build(name, DIM), spread(400)
    plain = geometry.index_vectors(seen)
    turn = geometry.nest()
    for _ in range(50):
        turn.observe(seen[:200], seen[200:])
    assert torch.equal(geometry.index_vectors(seen), plain)  # nothing is turned while it learns
    geometry.eval()
    vectors = geometry.index_vectors(seen)
    torch.testing.assert_close(vectors @ vectors.T, plain @ plain.T, atol=1e-5, rtol=0)
    kept = vectors.square().mean(0)
    assert (kept.diff() <= 1e-6).all()
    by_numpy = np.linalg.svd(plain.numpy(), compute_uv=False) ** 2 / len(seen)
    np.testing.assert_allclose(kept, by_numpy, atol=1e-5)


def test_each_side_counts_the_same() -> None:
    few, many = torch.eye(DIM)[:1], torch.eye(DIM)[1:2].repeat(100, 1)
    turn = Turn(DIM)
    turn.observe(few, many)
    assert turn.moment[0, 0] == turn.moment[1, 1] > 0


def test_what_was_not_observed_is_not_turned() -> None:
    turn = Turn(DIM).eval()
    assert torch.equal(turn(torch.eye(DIM)), torch.eye(DIM))


def test_axes_that_are_adopted_are_found_again() -> None:
    axes = main_axes(spread(100).T @ spread(100))
    turn = Turn(DIM)
    turn.adopt(axes)
    torch.testing.assert_close(turn.eval().axes, axes, atol=1e-5, rtol=0)


def test_the_loss_is_that_of_whole_vectors() -> None:
    plain, turned = (started(recipe(loss={"name": "mfh", "nested": some})) for some in ((), (4, 8)))
    losses = [objective(model, batch, 0.5).item() for model, objective, batch in (plain, turned)]
    assert losses[0] == losses[1]
    model, _, batch = turned
    assert model.geometry.turn is not None
    seen = encode_batch(model, batch)
    expected = Turn(16)
    expected.observe(seen.images.features, seen.texts.features)
    torch.testing.assert_close(model.geometry.turn.moment, expected.moment)


def test_a_run_that_is_stopped_and_resumed_turns_alike(
    turned_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = nested(steps=40, save_every=20)

    class StoppedError(Exception):
        pass

    def stop(run: TrainingRun, batch: TrainingBatch) -> float:
        if run.step > 30:
            raise StoppedError
        return step(run, batch)

    step = loop.step
    monkeypatch.setattr(loop, "step", stop)
    with pytest.raises(StoppedError):
        small.train(half, tmp_path)
    monkeypatch.setattr(loop, "step", step)
    done = small.train(half, tmp_path, resume=True)
    moments = [small.weights(path)["geometry.turn.moment"] for path in (turned_run, done)]
    assert torch.equal(*moments)
    assert moments[0].any()


def test_a_run_may_begin_with_a_model_that_turns_or_does_not(trained_run: Path, turned_run: Path) -> None:
    plain, turning = small.recipe(start=str(turned_run)), nested(start=str(trained_run))
    assert checkpoint.starting_model(plain, small.VOCABULARY).geometry.turn is None
    turn = checkpoint.starting_model(turning, small.VOCABULARY).geometry.turn
    assert turn is not None
    assert not turn.moment.any()


def test_a_bundle_says_what_its_shorter_vectors_are_worth(turned_bundle: Path) -> None:
    views, captions = small.pictures()
    encoder = open_encoder(turned_bundle)
    assert encoder.bundle.prefixes == (4, 8)
    worth = encoder.bundle.evaluation["prefixes"]
    assert set(worth) == {"4", "8"}
    texts = encoder.vectors(encoder.texts([text for some in captions for text in some]).features)
    shapes = encoder.vectors(np.stack([encoder.pixels(item).mean(0) for item in views]))
    own = np.repeat(np.arange(len(captions)), [len(some) for some in captions])
    for length in (4, 8):
        short = [encoder.bundle.shorten(vectors, length) for vectors in (texts, shapes)]
        found = float((np.argmax(short[0] @ short[1].T, axis=1) == own).mean())
        assert worth[str(length)]["text_to_shape"]["R@1"][0] == pytest.approx(found, abs=0.05)
    assert "text to shape, first 8 numbers" in encoder.bundle.path("report.md").read_text(encoding="utf-8")


def test_points_beside_a_bundle_are_turned_as_its_vectors_are(turned_bundle: Path) -> None:
    encoder = open_encoder(turned_bundle)
    model = small.model(beside(of_bundle(turned_bundle)))
    features = encoder.texts(["a red square left", "blue"]).features
    vectors = model.eval().geometry.index_vectors(torch.from_numpy(features))
    np.testing.assert_allclose(vectors, encoder.vectors(features), atol=1e-4)


def test_the_vectors_of_a_bundle_are_not_turned_anew(turned_bundle: Path) -> None:
    with pytest.raises(TowerError, match="leave nested out"):
        small.model(beside({**of_bundle(turned_bundle), "loss": {**LOSS, "nested": (4,)}}))


@pytest.mark.parametrize("geometry", sorted(set(GEOMETRIES) - set(NESTS)))
def test_geometries_whose_vectors_cannot_be_cut_refuse_nested_lengths(geometry: str) -> None:
    with pytest.raises(MultifoldError, match=f"clip or elliptic, not {geometry}"):
        geometries.build(geometry, 16).nest()


def test_nested_lengths_that_make_no_sense_are_refused() -> None:
    with pytest.raises(MultifoldError, match="below the geometry's own, which is 16"):
        small.model(recipe(loss={"nested": (8, 16)}))
    for lengths in ((8, 4), (4, 4), (0,)):
        with pytest.raises(RecipeError, match="nested"):
            recipe(loss={"nested": lengths})
