"""What is computed of a mesh in bulk: its views, and points where the encoder reads them."""

from pathlib import Path

import numpy as np
import trimesh

from multifold.bundle.canary import open_encoder
from multifold.files.feature_shards import read_features
from multifold.manifest import ManifestEntry, write
from renderers.mesh.load import load_model
from renderers.points import sample_points
from tests import tiny
from training.data.extraction.extract import ExtractionOrder, extract_features
from training.data.extraction.parts import FeatureExtractor


def test_features_in_bulk_hold_points(tmp_path: Path) -> None:
    bundle, manifest = tmp_path / "points", tmp_path / "things.jsonl"
    tiny.build_with_points(bundle)
    trimesh.creation.icosphere(2).export(tmp_path / "ball.stl")
    ball = ManifestEntry("ball", mesh=tmp_path / "ball.stl", texts=("a ball",))
    write(manifest, [ball, ManifestEntry("word", texts=("a thing",))])
    extractor = FeatureExtractor(bundle)
    try:
        order = ExtractionOrder(manifest, bundle, tmp_path / "out", 2)
        assert extract_features(order, lambda parts: map(extractor, parts)).problems == {}
    finally:
        extractor.close()
    found = [
        pair
        for rows, features in read_features(tmp_path / "out")
        for pair in zip(rows, features, strict=True)
    ]
    kinds = [row.kind for row, _ in found if row.id == "ball"]
    assert sorted(kinds) == ["caption", "points", *["view"] * 6]
    (points,) = (feature for row, feature in found if row.kind == "points")
    sample = sample_points(load_model(tmp_path / "ball.stl"), tiny.POINTS.points, tiny.POINTS.seed)
    np.testing.assert_allclose(points, open_encoder(bundle).points([sample.rows()])[0], atol=1e-5)
