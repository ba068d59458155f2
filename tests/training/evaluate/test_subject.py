"""Shapes that are measured by all that an encoder reads of them, as a service ranks them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

from multifold.bundle.canary import open_encoder
from multifold.bundle.encoder import Encoder
from multifold.cli import main
from multifold.manifest import ManifestEntry, read, write
from multifold.types import Observation, pool_side
from tests import tiny
from training.evaluate.subject import encode_test_set, evaluated_bundle
from training.retrieval import comparison, directions
from training.retrieval.features import NO_BANK, HeldOutFeatures

FORMS = {"ball": trimesh.creation.icosphere(), "box": trimesh.creation.box((1, 1, 1))}


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grey ball and a grey box, which only points tell apart, and a caption without a mesh."""
    folder, entries = tmp_path_factory.mktemp("forms"), []
    for name, mesh in FORMS.items():
        mesh.export(folder / f"{name}.stl")
        entries.append(ManifestEntry(name, mesh=folder / f"{name}.stl", texts=(f"a {name}",)))
    entries.append(ManifestEntry("word", texts=("a chair",)))
    write(folder / "things.jsonl", entries)
    return folder / "things.jsonl"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundles")
    tiny.build_with_points(folder / "points")
    tiny.build(folder / "plain")
    return folder / "points"


@pytest.fixture(scope="module")
def observed(bundle: Path, manifest: Path) -> HeldOutFeatures:
    return encode_test_set(evaluated_bundle(bundle), [*read(manifest)], manifest.parent / "cache").observed


@pytest.fixture(scope="module")
def encoder(bundle: Path) -> Encoder:
    return open_encoder(bundle)


def test_the_report_has_what_points_find(bundle: Path, manifest: Path, tmp_path: Path) -> None:
    given = [str(manifest), "--cache", str(manifest.parent / "cache"), "--out", str(tmp_path)]
    assert main(["eval", str(bundle), *given]) == 0
    told: dict[str, Any] = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["retrieval"]
    assert set(directions.POINT_DIRECTIONS) < set(told)
    assert told["text_to_points"]["mean"]["R@1"][0] == 1.0
    assert {one["mean"]["queries"] for one in (told[name] for name in directions.POINT_DIRECTIONS)} == {2}

    assert main(["eval", str(bundle.parent / "plain"), *given]) == 0
    plain = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["retrieval"]
    assert set(plain) == set(told) - set(directions.POINT_DIRECTIONS)


def test_what_is_served_is_what_is_compared(encoder: Encoder, observed: HeldOutFeatures) -> None:
    served = directions.served_directions(encoder, observed)
    by_all = directions.direction(encoder, observed, directions.BY_ALL, "mean")
    np.testing.assert_array_equal(served["text_to_shape"].scores, by_all.scores)
    views = directions.directions(encoder, observed)
    assert not np.allclose(served["shape_to_text"].scores, views["shape_to_text"].scores)
    blind = replace(observed, points=NO_BANK)
    same = directions.served_directions(encoder, blind)
    for name, one in views.items():
        np.testing.assert_array_equal(same[name].scores, one.scores)


def test_a_loss_of_points_alone_is_seen(encoder: Encoder, observed: HeldOutFeatures) -> None:
    """Points that say the opposite: the views, which know nothing here, are as before."""
    views = np.tile(observed.shape.features[:6], (2, 1))
    blank = replace(observed, shape=replace(observed.shape, features=views))
    worse = replace(blank, points=replace(blank.points, features=blank.points.features[::-1].copy()))
    new, old = (directions.served_directions(encoder, one) for one in (worse, blank))
    first = comparison.compare_recalls(new, old)[0]
    assert (first.direction, first.cut) == ("text_to_shape", 1)
    assert (first.new, first.old) == (0.0, 1.0)


def test_a_shape_asks_as_in_a_service(observed: HeldOutFeatures) -> None:
    whole = observed.whole_shapes
    for place, owner in enumerate(whole.owners):
        views = observed.shape.features[observed.shape.owners == owner]
        seen = [Observation("view", number, view) for number, view in enumerate(views)]
        points = Observation("points", 0, observed.points.features[place])
        pooled = pool_side([*seen, points], "shape")
        assert pooled is not None
        np.testing.assert_allclose(whole.features[place], pooled, atol=1e-6)
