"""`multifold pull`, as a user runs it: from a hub or a folder to a collection that answers."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from app.commands.run_pull import WEIGHTS_FILE
from app.main import create_app
from app.pull import catalogue
from app.pull.catalogue import format_catalogue
from app.settings import Settings
from multifold.bundle import bundle as bundles
from multifold.cli import main
from tests.app.pull import published
from tests.app.pull.by_hand import graphs, images_by_hand, pictures, texts_by_hand
from tests.app.pull.hub import COMMIT, Hub, serving

OTHER = "dead" + "0" * 36


def test_a_pulled_encoder_finds_what_the_published_towers_would(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = published.siglip(tmp_path / "published")
    things, bundle, data = tmp_path / "things", tmp_path / "bundle", tmp_path / "data"
    things.mkdir()
    for number, picture in enumerate(pictures()):
        picture.save(things / f"{number}.png")
    with serving(Hub(folder)) as hub:
        assert main(["pull", "own/tiny", str(bundle), "--hub", hub.url, "--licence", "CC0-1.0"]) == 0
    assert "licence: CC0-1.0" in capsys.readouterr().out
    assert not bundle.with_name("bundle.download").exists()
    source = bundles.load(bundle).provenance["source"]
    assert (source["repository"], source["licence"]) == ("own/tiny", "apache-2.0")
    assert main(["ingest", str(things), "--data", str(data), "--bundle", str(bundle), "--no-names"]) == 0
    texts, images = (
        by(folder, graph)
        for by, graph in zip((texts_by_hand, images_by_hand), reversed(graphs(folder, "fp32")), strict=True)
    )
    expected = np.argsort(-(images / np.linalg.norm(images, axis=1, keepdims=True)) @ texts[0])
    asked = {"text": "a red chair", "target": "image", "limit": 9, "lexical": "off"}
    app = create_app(Settings(data=data, bundle=bundle))
    with TestClient(app, base_url="http://localhost") as client:
        found = client.post("/v1/search", json=asked).json()
        assert [hit["id"] for hit in found["hits"]] == [str(number) for number in expected]
        cosines = (images @ texts[0]) / np.linalg.norm(images, axis=1) / np.linalg.norm(texts[0])
        scores = [hit["score"] for hit in found["hits"]]
        np.testing.assert_allclose(scores, cosines[expected], atol=1e-5)


def test_a_branch_that_moved_is_refused_until_it_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, bundle = published.clip(tmp_path / "published"), tmp_path / "bundles" / "tiny"
    words = ["pull", "own/tiny", str(bundle)]
    with serving(Hub(folder)) as hub:
        assert main([*words, "--hub", hub.url]) == 0
        assert main([*words, "--hub", hub.url]) == 0
    before = bundles.load(bundle)
    assert before.provenance["source"]["revision"] == COMMIT
    with serving(Hub(folder, commit=OTHER)) as hub:
        assert main([*words, "--hub", hub.url]) == 2
        assert f"is at {OTHER} now, and was pulled at {COMMIT} before" in capsys.readouterr().err
        assert hub.asked == []
        assert bundles.load(bundle).bundle_id == before.bundle_id
        assert main([*words, "--hub", hub.url, "--revision", OTHER]) == 0
    assert bundles.load(bundle).provenance["source"]["revision"] == OTHER


def test_a_folder_will_do_and_a_failure_keeps_the_old_bundle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, bundle = published.immich(tmp_path / "published"), str(tmp_path / "bundle")
    assert main(["pull", "mine", bundle, "--from", str(folder), "--rig", "hero4"]) == 0
    views = bundles.load(Path(bundle)).views
    assert (views.rig, views.views, views.size) == ("hero4", 4, published.SIZE)
    assert "licence: unknown (see what the publisher says)" in capsys.readouterr().out
    before = bundles.load(Path(bundle)).bundle_id
    (folder / "textual/model.onnx").write_bytes(b"broken")
    assert main(["pull", "mine", bundle, "--from", str(folder)]) == 2
    assert "no whole ONNX graph" in capsys.readouterr().err
    assert bundles.load(Path(bundle)).bundle_id == before
    assert main(["pull", "--list"]) == 0
    assert capsys.readouterr().out == f"{format_catalogue()}\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "say which encoder"),
        (["clip-b-32"], "is not in `multifold pull --list`, and no OWNER/REPOSITORY either"),
        (["own/../tiny"], "no OWNER/REPOSITORY either"),
        (["mine", "bundle", "--from", "nowhere"], "there is no folder nowhere"),
        (["mine", "--language", "xx"], "'xx' is no language that we know"),
        (["mine", "--from", ".", "--prefixes", "a"], "--prefixes takes numbers"),
    ],
)
def test_mistakes_are_told(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pull", *words]) == 2
    assert sentence in capsys.readouterr().err


@pytest.fixture
def weights_folder(tmp_path: Path) -> Path:
    """A point encoder as the hub has it: with more files than are needed."""
    folder = tmp_path / "published"
    folder.mkdir()
    (folder / WEIGHTS_FILE).write_bytes(b"weights")
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# Points\n")
    return folder


def test_weights_of_a_point_encoder_come_from_a_hub(
    weights_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target, repository = tmp_path / "weights" / "points", "own/tiny"
    monkeypatch.setattr(catalogue, "POINTS", (replace(catalogue.POINTS[0], repository=repository),))
    with serving(Hub(weights_folder)) as hub:
        assert main(["pull", "openshape-b32", str(target), "--hub", hub.url]) == 0
    weights = target / WEIGHTS_FILE
    assert weights.read_bytes() == b"weights"
    assert f"multifold export openshape:{weights} --beside" in capsys.readouterr().out
    assert json.loads((target / "origin.json").read_text())["revision"] == COMMIT
    (weights_folder / WEIGHTS_FILE).unlink()
    words = ["pull", "openshape-b32", str(tmp_path / "others"), "--from", str(weights_folder)]
    assert main(words) == 2
    assert f"lacks its file {WEIGHTS_FILE}" in capsys.readouterr().err
