"""Learning from one's own captions: what is added to a bundle, when it is refused, and what is read once."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from multifold import manifest
from multifold.bundle import bundle as bundles
from multifold.bundle.bundle import BundleError
from multifold.bundle.canary import open_encoder
from multifold.bundle.looks import LOOKS_FILE, Looks, write_looks
from multifold.cli import main
from multifold.errors import MultifoldError
from multifold.manifest import ManifestEntry
from tests.training import small
from training import rules
from training.checkpoint import Checkpoint
from training.distributed import SINGLE_PROCESS
from training.export import own
from training.export.bundle import export_bundle
from training.export.bundle_heads import NotBetterError
from training.recipes import library
from training.towers import bundled
from training.train import RunPlace


@pytest.fixture(scope="module")
def random_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Towers that know nothing."""
    views, captions = small.pictures()
    recipe = small.recipe()
    unlearned = Checkpoint(recipe, small.tokenizer(captions), small.model(recipe, seed=5))
    folder = tmp_path_factory.mktemp("random") / "random"
    export_bundle(unlearned, views, captions, folder, {"code": "test"})
    return folder


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The squares three times, each time a little other, a time for each split."""
    folder = tmp_path_factory.mktemp("things")
    views, captions = small.pictures()
    entries = []
    for shade, split in enumerate(("train", "val", "test")):
        for number, (pictures, texts) in enumerate(zip(views, captions, strict=True)):
            paths = []
            for view, picture in enumerate(pictures):
                paths.append(folder / f"{split}-{number}-{view}.png")
                Image.fromarray(np.maximum(picture, 8 * shade).astype(np.uint8)).save(paths[-1])
            name = f"{split} {number}"
            entries.append(ManifestEntry(name, images=tuple(paths), texts=tuple(texts), split=split))
    manifest.write(folder / "things.jsonl", entries)
    return folder / "things.jsonl"


def learn(bundle: Path, things: Path, out: Path, *changes: str) -> Path:
    options = [f"image.bundle={bundle}", f"text.bundle={bundle}", "train.steps=60", "validation.every=20"]
    options += ["train.items=8", "heads.width=12", "heads.rates=[0.01]", f"data.manifest={things}", *changes]
    place = RunPlace(out, out.parent / "cache", "cpu", SINGLE_PROCESS)
    return own.learn_own(library.load_recipe("own", options), place).folder


def test_what_was_learned_is_added_to_what_the_bundle_finds(
    random_bundle: Path, things: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path.name: path.read_bytes() for path in random_bundle.iterdir()}
    folder = learn(random_bundle, things, tmp_path / "own")
    assert {path.name: path.read_bytes() for path in random_bundle.iterdir()} == before
    new, old = open_encoder(folder), open_encoder(random_bundle)
    assert new.vector_id != old.vector_id
    heads = bundles.load(folder).provenance["heads"]
    assert heads["score"] > heads["alone"]
    assert "48 texts to learn from" in capsys.readouterr().out
    texts = ["a red square top", "bottom: blue square"]
    ours, theirs = new.texts(texts).features, old.texts(texts).features
    units = theirs / np.linalg.norm(theirs, axis=1, keepdims=True)
    assert ours[:, : old.dim] == pytest.approx(units, abs=1e-5)
    assert np.linalg.norm(ours[:, old.dim :], axis=1) == pytest.approx(heads["share"], abs=1e-4)
    report = (folder / "report.md").read_text(encoding="utf-8")
    assert f"Beside {old.bundle.name} alone" in report
    assert "the differences lean upwards" in report
    with pytest.raises(BundleError, match="has learned already"):
        learn(folder, things, tmp_path / "again")


def test_what_finds_no_more_is_refused_with_both_figures(
    trained_bundle: Path, things: Path, tmp_path: Path
) -> None:
    said = r"finds no more: MRR \d\.\d+ on val, where small alone has \d\.\d+"
    with pytest.raises(NotBetterError, match=said):
        learn(trained_bundle, things, tmp_path / "own", "train.steps=1", "heads.rates=[1e-9]")
    assert not (tmp_path / "own" / own.BUNDLE).exists()


def test_items_are_read_once(
    random_bundle: Path, things: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn(random_bundle, things, tmp_path / "one")
    encoder = bundled.opened(str(random_bundle))
    monkeypatch.setattr(encoder, "pixels", None)
    learn(random_bundle, things, tmp_path / "other", "train.seed=1")


def test_a_manifest_without_splits_gets_some(things: Path, tmp_path: Path) -> None:
    plain = [ManifestEntry(one.id, one.images, texts=one.texts) for one in manifest.read(things)]
    manifest.write(tmp_path / "plain.jsonl", plain)
    divided = list(manifest.read(own.own_manifest(tmp_path / "plain.jsonl", tmp_path)))
    assert all(one.split for one in divided)
    by_texts: dict[tuple[str, ...], set[str | None]] = {}
    for one in divided:
        by_texts.setdefault(tuple(sorted(one.texts)), set()).add(one.split)
    assert all(len(splits) == 1 for splits in by_texts.values())
    assert own.own_manifest(things, tmp_path) == things


def test_items_without_a_split_get_one_beside_others_that_have_theirs(things: Path, tmp_path: Path) -> None:
    whole = list(manifest.read(things))
    some = [replace(one, split=None) if place % 2 else one for place, one in enumerate(whole)]
    manifest.write(tmp_path / "some.jsonl", some)
    divided = list(manifest.read(own.own_manifest(tmp_path / "some.jsonl", tmp_path)))
    assert all(one.split for one in divided)
    assert [one.split for one in divided[::2]] == [one.split for one in whole[::2]]


def test_a_folder_becomes_a_manifest(things: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for one in list(manifest.read(things, "train"))[:4]:
        shutil.copyfile(one.images[0], folder / f"{one.id}.png")
        (folder / f"{one.id}.txt").write_text("\n".join(one.texts), encoding="utf-8")
    entries = list(manifest.read(own.own_manifest(folder, tmp_path)))
    assert [len(one.texts) for one in entries] == [3] * 4
    assert all(one.split for one in entries)
    shutil.copyfile(things.parent / "val-0-0.png", folder / "nobody described this.png")
    entries = list(manifest.read(own.own_manifest(folder, tmp_path)))
    assert sorted(len(one.texts) for one in entries) == [0, 3, 3, 3, 3]  # a name is no caption of one's own


def test_names_of_pictures_fit_as_before(random_bundle: Path, things: Path, tmp_path: Path) -> None:
    named = tmp_path / "named"
    shutil.copytree(random_bundle, named)
    old = open_encoder(named)
    texts = ["a red square", "a blue square", "a green square"]
    write_looks(named / LOOKS_FILE, Looks(texts, old.texts(texts).features, 0.1))
    bundles.save(old.bundle)
    old, new = open_encoder(named), open_encoder(learn(named, things, tmp_path / "own"))
    pictures = [Image.open(one.images[0]) for one in manifest.read(things, "test")]
    before = old.name_pictures(old.pictures(pictures))
    assert any(before)
    assert not all(len(names) == len(texts) for names in before)  # some do not fit
    assert new.name_pictures(new.pictures(pictures)) == before


def test_heads_need_a_bundle() -> None:
    with pytest.raises(MultifoldError, match=r"\[heads\] are for the towers of a bundle"):
        rules.check_recipe(library.load_recipe("folder-small", ["heads.width=8"]))


def test_the_command_learns(
    random_bundle: Path, things: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = [f"image.bundle={random_bundle}", f"text.bundle={random_bundle}", "heads.width=12"]
    place = ["--manifest", str(things), "--out", str(tmp_path / "run"), "--cache", str(tmp_path)]
    assert main(["train", "own", *place, "--set", *changes, "train.steps=60", "validation.every=30"]) == 0
    assert f"in {tmp_path / 'run' / own.BUNDLE}" in capsys.readouterr().out
