"""Shapes from files: points are taken in, and missed where they are needed."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import trimesh

from index.collection import Collection
from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import Encoder
from multifold.cli import main
from multifold.manifest import ManifestEntry, write
from multifold.types import Observation
from renderers.mesh.load import load_model
from renderers.points import sample_points
from tests import tiny
from training.data.extraction.extract import ExtractionOrder, extract_features
from training.data.extraction.parts import FeatureExtractor


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundles") / "points"
    tiny.build_with_points(folder)
    return folder


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    trimesh.creation.icosphere(2).export(tmp_path / "ball.stl")
    trimesh.creation.box((1, 1, 1)).export(tmp_path / "cube.stl")
    entries = [ManifestEntry(name, mesh=tmp_path / f"{name}.stl", texts=(f"a {name}",)) for name in FORMS]
    write(tmp_path / "things.jsonl", [*entries, ManifestEntry("word", texts=("a thing",))])
    return tmp_path / "things.jsonl"


FORMS = ("ball", "cube")
SAID = {"text": "a red ball"}


def stored(data: Path, bundle: Path, name: str) -> tuple[Observation, ...]:
    with Collection.open(data, open_encoder(bundle), read_only=True) as collection:
        item = collection.get(name)
    assert item is not None
    return item.observations


def test_features_in_bulk_hold_points(manifest: Path, bundle: Path, tmp_path: Path) -> None:
    extractor = FeatureExtractor(bundle)
    try:
        done = extract_features(
            ExtractionOrder(manifest, bundle, tmp_path / "out", 2), lambda parts: map(extractor, parts)
        )
    finally:
        extractor.close()
    assert done.problems == {}
    data = tmp_path / "data"
    assert main(["index", "import", str(tmp_path / "out"), "--data", str(data), "--bundle", str(bundle)]) == 0
    encoder = open_encoder(bundle)
    for name in FORMS:
        its = stored(data, bundle, name)
        assert Counter(one.kind for one in its) == {"caption": 1, "view": 6, "points": 1}
        sample = sample_points(load_model(tmp_path / f"{name}.stl"), tiny.POINTS.points, tiny.POINTS.seed)
        of = {one.kind: one.feature for one in its}
        np.testing.assert_allclose(of["points"], encoder.points([sample.rows()])[0], atol=1e-5)


def rows(folder: Path, encoder: Encoder, *sides: str) -> list[str]:
    """A file of vectors, one of each side of one thing, and the words that import it."""
    features = encoder.texts(["a red ball", "a green box", "a ball"]).features[: len(sides)]
    np.save(folder / "vectors.npy", features)
    lines = [json.dumps({"id": "thing", "side": side, "text": SAID.get(side)}) for side in sides]
    (folder / "ids.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    given = [str(folder / "vectors.npy"), "--ids", str(folder / "ids.jsonl"), "--data", str(folder / "data")]
    return ["index", "import", *given, "--bundle", str(encoder.bundle.folder)]


def test_a_file_may_name_points(bundle: Path, tmp_path: Path) -> None:
    encoder = open_encoder(bundle)
    assert main(rows(tmp_path, encoder, "shape", "points")) == 0
    its = stored(tmp_path / "data", bundle, "thing")
    assert {one.kind for one in its} == {"view", "points"}


def test_points_that_the_encoder_needs_are_missed(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(rows(tmp_path, open_encoder(bundle), "shape")) != 0
    said = capsys.readouterr().err
    assert "has views and no points of the item 'thing'" in said
    assert "multifold features" in said


def test_texts_alone_need_no_points(bundle: Path, tmp_path: Path) -> None:
    assert main(rows(tmp_path, open_encoder(bundle), "text")) == 0


@pytest.mark.parametrize("side", ["smell", "together"])
def test_an_unknown_side_is_refused(
    bundle: Path, tmp_path: Path, side: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(rows(tmp_path, open_encoder(bundle), side)) != 0
    assert "must be one of text, image, shape, points." in capsys.readouterr().err
