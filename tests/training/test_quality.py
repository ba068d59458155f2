"""Geometries are trained alike, measured as `multifold eval` measures, and told in one table."""

import json
from pathlib import Path

import pytest
from PIL import Image

from benches.learning import quality_runs as quality
from multifold import manifest
from multifold.cli import main
from multifold.manifest import ManifestEntry

NAMES = ("clip", "oblique_geodesic, 8 spheres")
COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (30, 40, 220)}


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos of three colours in ever other shades, enough of them for a step."""
    folder = tmp_path_factory.mktemp("squares")
    entries = []
    for place in range(174):
        name, rgb = list(COLOURS.items())[place % 3]
        photo = folder / f"{place}.png"
        Image.new("RGB", (16, 16), tuple(min(255, part + place // 3) for part in rgb)).save(photo)
        split = "train" if place < 150 else "val" if place < 162 else "test"
        texts = (f"a {name} square, number {place}", f"square in {name}")
        entries.append(ManifestEntry(f"square {place}", (photo,), None, texts, split, {"colour": name}))
    manifest.write(folder / "squares.jsonl", entries)
    return folder / "squares.jsonl"


def test_every_geometry_is_trained_and_measured_once(
    squares: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["bench", "quality", str(squares), "--label", "colour", "--steps", "2"]
    words += ["--out", str(tmp_path / "out"), "--cache", str(tmp_path / "cache"), "--geometries", *NAMES]
    assert main(words) == 0
    told = capsys.readouterr().out
    for name in NAMES:
        path = quality.run_folder(tmp_path / "out", name) / "report.json"
        report = json.loads(path.read_text(encoding="utf-8"))
        assert report["data"]["items"] == 12
        assert report["command"].endswith("--split test --label colour --probe")
        middle, low, high = (100 * share for share in report["retrieval"]["text_to_image"]["each"]["R@10"])
        rows = [line for line in told.splitlines() if line.startswith(f"| {name} |")]
        assert f"{middle:.1f} [{low:.1f}, {high:.1f}]" in rows[0]
        accuracy = report["classes"]["linear probe, after"]["accuracy"]
        assert f"{100 * accuracy[0]:.1f} [" in rows[-1]
    heads = [line for line in told.splitlines() if line.startswith("| geometry |") and "R@" in line]
    assert "text → image, each, R@10" in heads[0]
    assert not any("→ shape" in head for head in heads)  # nothing here has a mesh
    monkeypatch.setattr(quality, "measure_geometry", lambda *_: pytest.fail("measured again"))
    assert main(words) == 0
    assert "| clip |" in capsys.readouterr().out
