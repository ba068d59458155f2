"""Generated vectors imitate collections."""

from pathlib import Path

import numpy as np
import pytest

from benches.index import generated_vectors
from index.plain_space import PlainSpace
from multifold.files.feature_shards import FeatureRow, FeatureShard, seal_folder, write_shard

PLAIN = PlainSpace("cosine", 8)


@pytest.fixture
def features(tmp_path: Path) -> Path:
    """Forty things with two views and ten captions each; their features say which is which."""
    rng = np.random.default_rng(0)
    for number in range(40):
        views = [FeatureRow(f"{number}", "view", place, None) for place in range(2)]
        captions = [FeatureRow(f"{number}", "caption", place, "a thing") for place in range(10)]
        made = rng.standard_normal((12, 8)).astype(np.float32)
        made[:, 0] = [5.0] * 2 + [-5.0] * 10
        write_shard(tmp_path, f"{number:05d}", FeatureShard(PLAIN.vector_id, (*views, *captions), made))
    seal_folder(tmp_path, PLAIN.vector_id, 8)
    return tmp_path


def test_views_are_searched_by_captions(features: Path) -> None:
    vectors = generated_vectors.encoded_vectors(features, PLAIN, 100)
    assert [len(part) for part in (vectors.rows, vectors.probes, vectors.queries)] == [
        80,
        generated_vectors.PROBES,
        100,
    ]
    assert (vectors.rows[:, 0] > 0).all()
    assert (vectors.probes[:, 0] < 0).all()
    assert (vectors.queries[:, 0] < 0).all()
    assert not {*map(bytes, vectors.probes)} & {*map(bytes, vectors.queries)}
    assert np.linalg.norm(vectors.rows, axis=1) == pytest.approx(1)


def test_a_surface_has_few_dimensions_and_no_clusters() -> None:
    vectors = generated_vectors.surface_vectors(3000, 64, 50)
    assert [part.shape for part in (vectors.rows, vectors.probes, vectors.queries)] == [
        (3000, 64),
        (generated_vectors.PROBES, 64),
        (50, 64),
    ]
    assert np.linalg.norm(vectors.rows, axis=1) == pytest.approx(1, abs=1e-5)
    spread = np.linalg.svd(vectors.rows - vectors.rows.mean(axis=0), compute_uv=False) ** 2
    assert spread[: generated_vectors.SURFACE].sum() > 0.8 * spread.sum()


def test_features_that_are_no_use_are_refused(features: Path) -> None:
    with pytest.raises(generated_vectors.VectorSetError, match="has 400 captions; 456 are asked with"):
        generated_vectors.encoded_vectors(features, PLAIN, 200)
    with pytest.raises(generated_vectors.VectorSetError, match="compares by distance"):
        generated_vectors.encoded_vectors(features, PlainSpace("l2", 8), 10)


def test_uneven_clusters_differ_in_size_and_queries_lie_apart() -> None:
    vectors = generated_vectors.uneven_vectors(4000, 64, 200)
    assert np.linalg.norm(vectors.rows, axis=1) == pytest.approx(1, abs=1e-5)
    assert [len(one) for one in (vectors.rows, vectors.probes, vectors.queries)] == [4000, 256, 200]
    nearest = (vectors.queries @ vectors.rows.T).max(axis=1)
    own = np.sort(vectors.rows @ vectors.rows.T, axis=1)[:, -2]
    assert np.median(nearest) < np.median(own)
    near = (vectors.rows @ vectors.rows.T > 0.5).sum(axis=1)
    assert near.max() > 20 * max(near.min(), 1)


def test_noise_has_no_near_neighbours() -> None:
    vectors = generated_vectors.noise_vectors(2000, 64, 50)
    assert (vectors.queries @ vectors.rows.T).max() < 0.8
