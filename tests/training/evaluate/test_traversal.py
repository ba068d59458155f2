"""Traversals with cones against the plain algorithm in torch; pools, classes, and the command."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from multifold import manifest
from multifold.analysis.traversal import CaptionPool, distances_to_root, traverse
from multifold.bundle.bundle import Bundle
from multifold.bundle.encoder import Encoder
from multifold.cli import main
from multifold.manifest import ManifestEntry
from tests import tiny
from tests.training.export.test_graphs import dressed
from training.data import caption_pools
from training.evaluate.traversal import captions_met, histograms
from training.geometries import build
from training.geometries.base import EntailmentGeometry

STEPS, WIDTHS = 20, (None, 0.05, 0.4, 2.0)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return tiny.build(tmp_path_factory.mktemp("bundles") / "tiny")


@pytest.mark.parametrize("name", ["euclidean_squared", pytest.param("lorentz", marks=pytest.mark.slow)])
def test_paths_are_those_of_the_plain_algorithm(name: str, bundle: Bundle, tmp_path: Path) -> None:
    geometry = build(name, tiny.FEATURE)
    rootless = dressed(bundle.folder, tmp_path / name, geometry)
    origin = replace(rootless.geometry, root=(0.0,) * tiny.FEATURE)
    encoder = Encoder(replace(rootless, geometry=origin), threads=1)
    rng = np.random.default_rng(3)
    thing = rng.standard_normal(tiny.FEATURE).astype(np.float32)
    spread = rng.uniform(0.1, 1.2, (40, 1))
    features = (spread * (thing + rng.standard_normal((40, tiny.FEATURE)))).astype(np.float32)
    pool = CaptionPool(tuple(f"caption {i}" for i in range(40)), features)
    found = traverse(encoder, thing, pool, STEPS, WIDTHS)
    for path, k in zip(found, WIDTHS, strict=True):
        assert [int(met.text.split()[1]) for met in path.met] == plain(geometry, thing, features, k)
    assert len({len(path.met) for path in found}) > 1
    measured = distances_to_root(encoder, features)
    assert (np.argsort(measured) == np.argsort(np.linalg.norm(features, axis=1))).all()


def plain(geometry: object, thing: np.ndarray, captions: np.ndarray, k: float | None) -> list[int]:
    """Step by step, caption by caption, as MERU's and EuCLIP's scripts do it."""
    assert isinstance(geometry, EntailmentGeometry)
    pool, met = torch.tensor(captions), []
    root = torch.zeros(1, pool.shape[1])
    for share in torch.linspace(0, 1, STEPS):
        step = ((1 - share) * torch.tensor(thing))[None]
        scores = geometry.similarity(step, torch.cat([pool, root]))[0]  # type: ignore[attr-defined]
        if k is not None:
            energies = torch.stack([geometry.entail(one[None], step, k)[0, 0] for one in pool])
            scores[:-1][energies > 0] = -1e12
        met.append(int(scores.argmax()))
    return [place for place in dict.fromkeys(met) if place < len(captions)]


def test_how_many_are_met_is_a_mean(bundle: Bundle) -> None:
    encoder = Encoder(bundle, threads=1)
    pool = CaptionPool(texts := ("red", "blue", "black"), encoder.texts(texts).features)
    features = encoder.texts(["red box", "blue"]).features
    counts = [len(traverse(encoder, feature, pool)[0].met) for feature in features]
    assert captions_met(encoder, features, pool, [None]) == {None: counts}


def test_histograms_share_their_bins_and_lose_nothing(bundle: Bundle) -> None:
    encoder = Encoder(bundle, threads=1)
    sides = {"text": encoder.texts(["red", "blue"]).features, "other": encoder.texts(["white"]).features}
    far = histograms(encoder, sides, bins=8)
    assert far["text"].edges == far["other"].edges
    assert [sum(one.shares) for one in far.values()] == pytest.approx([1, 1])
    assert far["text"].mean == pytest.approx(distances_to_root(encoder, sides["text"]).mean())


def test_pools_name_no_caption_twice(tmp_path: Path) -> None:
    for name in ("furniture", "everyday"):
        texts = caption_pools.load_pool(name)
        assert len(texts) == len(set(texts)) > 200
        assert not any(re.search(r"\ba [aeio]|\ban [^aeiou]|_", text) for text in texts)
    (tmp_path / "mine.txt").write_text("one\n\ntwo\none\n", encoding="utf-8")
    assert caption_pools.load_pool(str(tmp_path / "mine.txt")) == ("one", "two")


def test_the_command_walks_one_and_many(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pool.txt").write_text("red\ngreen\nblack\n", encoding="utf-8")
    files = ["--captions", "pool.txt", "--json", "out.json", "--html", "out.html"]
    given = ["traverse", str(bundle.folder), *files]
    assert main([*given, "--text", "red <box>"]) == 0
    assert "0.00  red\n  1.00  [ROOT]" in capsys.readouterr().out
    assert "red &lt;box&gt;" in Path("out.html").read_text(encoding="utf-8")
    pictures = {colour: tmp_path / f"{colour}.png" for colour in ("red", "blue")}
    for colour, path in pictures.items():
        Image.fromarray(tiny.picture(colour)).save(path)
    items = [
        ManifestEntry(c, images=(p,), texts=(f"a {c} box",), meta={"kind": c}) for c, p in pictures.items()
    ]
    manifest.write(Path("m.jsonl"), items)
    assert main([*given, "--manifest", "m.jsonl"]) == 0
    told = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert told["items"] == 2
    assert set(told["distances"]) == set(told["mean"]["distances"]) == {"shape", "pool", "text"}
    far, near = (one["text"]["mean"] for one in (told["distances"], told["mean"]["distances"]))
    assert abs(far - near) <= told["mean"]["distance"]
    page = Path("out.html").read_text(encoding="utf-8")
    assert page.count("data:image/webp") == 2
    assert f"without cones: {told['met']['any']:.3g}" in page
    assert "http" not in page


def test_the_command_says_what_is_missing(bundle: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["traverse", str(bundle.folder), "--text", "red"]) == 2
    assert "--captions" in capsys.readouterr().err
