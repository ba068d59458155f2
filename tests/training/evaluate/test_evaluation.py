"""`multifold eval`: a bundle and the service that runs it give the same numbers, and a report of them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from multifold.bundle import bundle as bundles
from multifold.bundle import canary
from multifold.bundle.encoder import Encoder
from multifold.cli import main
from multifold.manifest import ManifestEntry, read, write
from tests import tiny
from tests.app.house import box, house, png
from tests.training import small
from tests.training.export.test_graphs import dressed
from training.evaluate.report import page_section
from training.geometries import build
from training.retrieval.directions import BY_CHANCE

COLOURS = ("red", "green", "blue", "yellow", "black")
DIRECTIONS = {"text_to_shape", "shape_to_text", "text_to_image", "image_to_text", "image_to_shape"}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundles") / "tiny"
    tiny.build(folder)
    return folder


@pytest.fixture(scope="module")
def geodesic(bundle: Path) -> Path:
    """The same towers, compared by a geometry that no index has."""
    geometry = build("oblique_geodesic", tiny.FEATURE, m=4).requires_grad_(False)
    made = dressed(bundle, bundle.parent / "geodesic", geometry)
    texts, pictures = [f"a {colour} box" for colour in COLOURS], [tiny.picture(colour) for colour in COLOURS]
    canary.record(Encoder(made, threads=1), texts, pictures)
    return bundles.save(made).folder


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Boxes with two photos each, the second of another's colour: not everything is found."""
    folder = tmp_path_factory.mktemp("boxes")
    entries = []
    for place, colour in enumerate(COLOURS):
        photos = (folder / f"{colour}-0.png", folder / f"{colour}-1.png")
        photos[0].write_bytes(png(colour))
        photos[1].write_bytes(png(COLOURS[place - 1]))
        (folder / f"{colour}.glb").write_bytes(box(colour))
        texts = (f"a {colour} box", f"a {COLOURS[place - 1]} thing")
        meta = {"dark": colour in ("black", "blue")}
        entries.append(ManifestEntry(f"{colour}-box", photos, folder / f"{colour}.glb", texts, "test", meta))
    path = folder / "boxes.jsonl"
    write(path, entries)
    return path


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a point cloud with a kernel."""
    sides = {side: {"tokens": "all"} for side in ("image", "text")}
    geometry = {"name": "cloud_gaussian", "params": {"frequencies": 32}}
    wanted = small.recipe({"geometry": geometry, **sides}, steps=2, warmup=0)
    return small.train(wanted, tmp_path_factory.mktemp("cloud"))


def test_a_set_without_captions_is_classified(bundle: Path, cloud: Path, tmp_path: Path) -> None:
    """As ImageNet and its like are: labels, and no text."""
    entries = [replace(entry, texts=()) for entry in photos_by_colour(tmp_path)]
    write(tmp_path / "labelled.jsonl", entries)
    for encoder in (bundle, cloud):
        words = ("--split", "test", "--label", "colour")
        told = measured(encoder, tmp_path / "labelled.jsonl", tmp_path / "out", *words)
        assert told["data"]["texts"] == 0
        assert told["retrieval"] == {}
        assert told["classes"]["zero-shot"]["items"] == 2


def photos_by_colour(folder: Path, colours: tuple[str, ...] = ("red", "blue")) -> list[ManifestEntry]:
    """One photo of each colour in each split."""
    entries = []
    for split in ("train", "val", "test"):
        for colour in colours:
            photo = folder / f"{split}-{colour}.png"
            photo.write_bytes(png(colour))
            texts, meta = (f"a {colour} box",), {"colour": colour}
            entries.append(ManifestEntry(photo.stem, (photo,), None, texts, split, meta))
    return entries


def measured(encoder: str | Path, manifest: Path, out: Path, *more: str) -> dict[str, Any]:
    words = [
        "eval",
        str(encoder),
        str(manifest),
        "--out",
        str(out),
        "--cache",
        str(manifest.parent / "cache"),
        *more,
    ]
    assert main(words) == 0
    told: dict[str, Any] = json.loads((out / "report.json").read_text(encoding="utf-8"))
    return told


def shown(page: str, title: str) -> str:
    """The section of a report, as it is in HTML."""
    section = page_section(page, title)
    assert section is not None
    return section


@pytest.mark.parametrize("name", ["bundle", "geodesic"])
def test_a_bundle_and_its_service_give_the_same_numbers(
    name: str, manifest: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    bundle: Path = request.getfixturevalue(name)
    with house(tmp_path / "data", bundle) as shop:
        texts = {entry.id.removesuffix("-box"): list(entry.texts) for entry in read(manifest)}
        for colour in COLOURS:
            files: list[Any] = [("mesh", ("box.glb", box(colour)))]
            files += [
                ("images", (name, (manifest.parent / name).read_bytes()))
                for name in (f"{colour}-0.png", f"{colour}-1.png")
            ]
            answer = shop.client.put(f"/v1/items/{colour}-box", data={"texts": texts[colour]}, files=files)
            assert answer.status_code == 200
        asked = measured(shop.url, manifest, tmp_path / "service")["retrieval"]
        assert shop.client.get("/readyz").status_code == 200
    ours = measured(bundle, manifest, tmp_path / "bundle")["retrieval"]
    assert set(asked) == DIRECTIONS
    for name, pools in asked.items():
        assert set(pools) == {"mean", "max"}
        assert pools == {pool: ours[name][pool] for pool in pools}
    assert any(one["R@1"][0] < 1 for one in asked["text_to_shape"].values())


def test_a_report_says_where_its_numbers_come_from(
    bundle: Path, manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = measured(bundle, manifest, tmp_path, "--split", "test", "--label", "dark")
    assert told["encoder"]["bundle"] == "tiny"
    assert told["data"]["items"] == 5
    assert told["command"] == f"multifold eval {bundle} {manifest} --split test --label dark"
    shares = told["retrieval"]["text_to_shape"]["mean"]["categories"]
    assert {kind: one["queries"] for kind, one in shares.items()} == {"True": 4, "False": 6}
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert text in capsys.readouterr().out
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert told["data"]["sha256"] in page
    assert "<svg" in page
    assert all(title in page for title in ("Why they match", "Similarities"))
    for title in ("What captions find", "What shapes find", "What captions find among pictures"):
        assert title not in text
        assert "✓" in shown(page, title)
    for title, said in (("What shapes find", 5), ("What pictures find", 8)):
        assert shown(page, title).count("<tr>") == said
        assert shown(page, title).count("<q>") == 5 * said  # the five best captions of each
        assert shown(page, title).count("<img") == said
    pictures = shown(page, "What captions find among pictures")
    assert pictures.count("<img") == 5 * pictures.count("<q>") == 5 * 8
    assert told["classes"]["zero-shot"]["items"] == 5
    assert 'src="http' not in page


def test_a_report_says_what_chance_finds(bundle: Path, manifest: Path, tmp_path: Path) -> None:
    """Of five items all are among the first ten, whatever the encoder knows."""
    told = measured(bundle, manifest, tmp_path)["retrieval"]
    assert told["text_to_shape"]["mean"]["chance of R@10"] == 1.0
    assert BY_CHANCE in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_a_gallery_that_is_not_the_published_one_is_told(
    bundle: Path, manifest: Path, tmp_path: Path
) -> None:
    told = measured(bundle, manifest, tmp_path, "--protocol", "text2shape-1492")
    assert set(told["retrieval"]) == {"text_to_shape", "shape_to_text"}
    assert "5 items where the protocol has 1,492" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_what_cannot_be_measured_is_said(
    bundle: Path, manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, reason in (
        ([str(tmp_path / "nothing"), str(manifest)], "neither a bundle nor a checkpoint"),
        ([str(bundle), str(manifest), "--protocol", "mine"], "no protocol 'mine'"),
        ([str(bundle), str(manifest), "--split", "none"], "no such item"),
        ([str(bundle), str(manifest), "--probe", "--label", "dark"], "another --split"),
        ([str(bundle), str(manifest), "--prompts", str(manifest)], "--prompts are of classes"),
        ([str(bundle), str(manifest), "--prompts", str(manifest), "--label", "dark"], "has no {}"),
        ([str(bundle), str(manifest), str(manifest)], "several manifests are classified"),
        ([str(bundle), str(manifest), str(manifest), "--label", "dark"], "file names that differ"),
        ([str(bundle), str(manifest), "--draws", "2"], "--draws is for checkpoints of cloud_gaussian"),
        (["http://127.0.0.1:1", str(manifest), "--draws", "2"], "--draws is for checkpoints: a service"),
        ([str(bundle), str(manifest), "--draws", "1"], "a deviation needs 2 --draws"),
        ([str(bundle), str(manifest), "--frequencies", "8"], "of each of the --draws"),
        ([str(bundle), str(manifest), "--draws", "2", "--frequencies", "0"], "a positive number"),
    ):
        assert main(["eval", *words]) == 2
        assert reason in capsys.readouterr().err


def test_a_probe_learns_from_the_other_splits(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Photos alone, one colour each: what is learned of a colour holds for the same colour."""
    entries = photos_by_colour(tmp_path)
    write(tmp_path / "all.jsonl", entries)
    words = ("--split", "test", "--label", "colour", "--probe")
    told = measured(bundle, tmp_path / "all.jsonl", tmp_path / "out", *words)["classes"]
    assert told["linear probe, after"]["accuracy"] == [1.0, 1.0, 1.0]
    assert told["linear probe, after"]["train"] == 4
    assert "linear probe, before" not in told  # a bundle does not say what its head reads
    write(tmp_path / "all.jsonl", [entry for entry in entries if entry.split != "val"])
    assert main(["eval", str(bundle), str(tmp_path / "all.jsonl"), *words]) == 2
    assert "split 'val'" in capsys.readouterr().err


def test_what_the_head_reads_of_photos_is_probed_too(cloud: Path, tmp_path: Path) -> None:
    write(tmp_path / "all.jsonl", photos_by_colour(tmp_path))
    words = ("--split", "test", "--label", "colour", "--probe")
    told = measured(cloud, tmp_path / "all.jsonl", tmp_path / "out", *words)["classes"]
    assert told["linear probe, before"]["accuracy"] == [1.0, 1.0, 1.0]
    assert told["linear probe, before"]["train"] == 4


def test_prompts_of_a_file(bundle: Path, tmp_path: Path) -> None:
    """They name the other colour: every photo is called by it."""
    photos = photos_by_colour(tmp_path, ("blue", "red"))
    swapped = {"blue": "red", "red": "blue"}
    entries = [
        replace(one, meta={"seen": one.meta["colour"], "colour": swapped[one.meta["colour"]]})
        for one in photos
    ]
    write(tmp_path / "all.jsonl", entries)
    (tmp_path / "prompts.txt").write_text("a {} box\n\n{}\n", encoding="utf-8")
    prompts = ("--split", "test", "--prompts", str(tmp_path / "prompts.txt"))
    for label, accuracy in (("seen", 1.0), ("colour", 0.0)):
        told = measured(bundle, tmp_path / "all.jsonl", tmp_path / "out", "--label", label, *prompts)
        assert told["classes"]["zero-shot"]["accuracy"][0] == accuracy
        assert told["classes"]["zero-shot"]["prompts"] == 2


def test_several_manifests_and_their_mean(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = []
    for name, colours in (("right", ("red", "blue")), ("wrong", ("blue", "red"))):
        (tmp_path / name).mkdir()
        entries = photos_by_colour(tmp_path / name)
        called = dict(zip(("red", "blue"), colours, strict=True))
        paths.append(tmp_path / f"{name}.jsonl")
        write(paths[-1], [replace(one, meta={"colour": called[one.meta["colour"]]}) for one in entries])
    words = ["--split", "test", "--label", "colour", "--out", str(tmp_path / "out")]
    assert main(["eval", str(bundle), *map(str, paths), *words]) == 0
    assert "| mean | 0.500 | 0.500 |" in capsys.readouterr().out
    told = json.loads((tmp_path / "out" / "classes.json").read_text(encoding="utf-8"))
    assert told["mean"] == {"zero-shot": {"accuracy": 0.5, "per_class": 0.5}}
    own = json.loads((tmp_path / "out" / "right" / "report.json").read_text(encoding="utf-8"))
    assert own["classes"] == told["manifests"]["right"]
    assert own["command"] == f"multifold eval {bundle} {paths[0]} --split test --label colour"


def test_draws_of_random_features(cloud: Path, manifest: Path, tmp_path: Path) -> None:
    words = ("--label", "dark", "--draws", "3", "--frequencies", "5")
    told = measured(cloud, manifest, tmp_path, *words)["random features"]
    assert (told["draws"], told["frequencies"]) == (3, 5)
    recalls = told["measures"]["text_to_shape, mean"]
    assert set(recalls) == {"R@1", "R@5", "R@10"}
    assert recalls["R@5"] == [1.0, 0.0]  # of five items, whatever is drawn
    assert set(told["measures"]["zero-shot"]) == {"accuracy", "per_class"}
    assert "3 draws of 5 random features" in (tmp_path / "report.md").read_text(encoding="utf-8")
    trained = measured(cloud, manifest, tmp_path, "--draws", "2")["random features"]
    assert trained["frequencies"] == 32


def test_right_pairs_beside_wrong_ones(bundle: Path, manifest: Path, tmp_path: Path) -> None:
    told = measured(bundle, manifest, tmp_path)["similarities"]["text_to_shape, mean"]
    assert told["right"]["edges"] == told["wrong"]["edges"]
    assert [sum(told[side]["shares"]) for side in ("right", "wrong")] == pytest.approx([1, 1])
    assert told["right"]["mean"] > told["wrong"]["mean"]
    shown = f"| {told['right']['mean']:.3f} ± {told['right']['deviation']:.3f} |"
    assert shown in (tmp_path / "report.md").read_text(encoding="utf-8")
