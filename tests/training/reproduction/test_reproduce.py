"""`multifold reproduce`: rows are trained and measured once, and the paper's table stands beside ours."""

import argparse
import json
from pathlib import Path

import pytest
from PIL import Image

from multifold import manifest
from multifold.errors import MultifoldError
from multifold.manifest import ManifestEntry
from tests.training import small
from training.commands.reproduce import add_arguments
from training.data.furniture.dataset import FurnitureOrder, write_furniture
from training.evaluate import linear_probe
from training.reproduction import reproduce
from training.reproduction.runs import content
from training.reproduction.tables import load_table, table_names

TINY = ["--small", "--set", "train.items=4", "text.vocabulary=290", "image.width=16", "text.width=16"]
FLICKR = "mxm:2-flickr30k"


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Coloured squares, three captions each, half of them for the test."""
    folder = tmp_path_factory.mktemp("photos")
    entries = []
    for place, (views, texts) in enumerate(zip(*small.pictures(), strict=True)):
        path = folder / f"{place}.png"
        Image.fromarray(views[0]).save(path)
        split = "test" if place % 2 else "train"
        entries.append(ManifestEntry(str(place), (path,), None, tuple(texts), split, {"colour": place // 4}))
    manifest.write(folder / "photos.jsonl", entries)
    return folder / "photos.jsonl"


def reproduced(folder: Path, *words: str) -> int:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return reproduce.run(
        parser.parse_args([*words, "--out", str(folder / "out"), "--cache", str(folder / "cache")])
    )


def test_a_table_is_made_once_and_goes_on(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [FLICKR, "--manifest", str(photos), *TINY, "--steps", "2"]
    assert reproduced(tmp_path, *words, "--rows", "MXM-CLR, RN101") == 0
    assert capsys.readouterr().out.count("$ multifold train") == 1
    assert reproduced(tmp_path, *words, "--rows", "1", "2", "--seeds", "0", "1") == 0
    told = capsys.readouterr().out
    assert told.count("$ multifold train") == told.count("$ multifold eval") == 3
    assert "run 4 of 4: MXM-CLR, RN101, seed 1" in told
    text = (tmp_path / "out" / "mxm-2-flickr30k.md").read_text(encoding="utf-8")
    assert text in told
    assert "| MXM-CLR, RN101 | paper | 66.6 | 89.56 | 94.52 | 83.1 | 96.8 | 98.6 |" in text
    assert text.count("ours, 2 seeds") == 2
    assert "8 items where the protocol has 1,000" in text
    assert "only the order of rows can be compared" in text
    found = json.loads((tmp_path / "out" / "mxm-2-flickr30k.json").read_text(encoding="utf-8"))
    assert found["columns"][:3] == ["T → I R@1", "T → I R@5", "T → I R@10"]
    assert set(found["rows"]) == {"Info+Mask, RN101", "MXM-CLR, RN101"}
    for columns in found["rows"].values():
        *shares, images, texts, memory = columns
        assert all(low <= mean <= high for mean, low, high in shares)
        assert (images, texts, memory[0] > 0) == (None, None, True)  # batches are the paper's alone
        assert columns[2][0] == 1  # of eight
    runs = sorted((tmp_path / "out" / "runs").iterdir())
    assert [run.name[:-11] for run in runs] == [
        f"{recipe}-flickr30k-rn101-{seed}" for recipe in ("mxm", "xm") for seed in (0, 1)
    ]
    assert reproduced(tmp_path, *words, "--rows", "1", "2", "--seeds", "0", "1") == 0
    assert "$ multifold" not in capsys.readouterr().out


def test_what_is_missing_is_told_before_anything_is_trained(photos: Path, tmp_path: Path) -> None:
    given = ["--manifest", str(photos)]
    for words, sentence in (
        ([FLICKR], "needs Flickr30K .* name its --manifest, or try --small"),
        (
            [FLICKR, *given, "--rows", "CLIP"],
            "no row 'CLIP'; there are: 1 Info[+]Mask, RN101; 2 MXM-CLR, RN101",
        ),
        ([FLICKR, *given, "--test", "imagenet=x"], "knows no sets beside its manifest"),
        (["euclip:1", *given], "measured on imagenet, shifts/[*].*: name some by --test"),
        (
            ["euclip:1", *given, "--small", "--label", "colour", "--prompts", "inet=x"],
            "--prompts inet=x: euclip:1",
        ),
        (["euclip:1", *given, "--test", "inet=x"], "--test inet=x: euclip:1 knows imagenet"),
        (["euclip:1", *given, "--test", f"imagenet={photos}"], "1 has no 'label' in its metadata"),
        (["mxm:99", *given], "no table mxm:99"),
    ):
        with pytest.raises(MultifoldError, match=sentence):
            reproduced(tmp_path, *words)
    assert not (tmp_path / "out").exists()


def test_the_list_needs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduced(tmp_path, "--list") == 0
    assert "mxm:5  Table 5" in capsys.readouterr().out


@pytest.mark.slow
def test_classes_have_prompts_of_their_own(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "my prompts.txt"
    lines.write_text("number {}\n", encoding="utf-8")
    words = [
        "euclip:1",
        "--manifest",
        str(photos),
        "--label",
        "colour",
        *TINY,
        "--steps",
        "1",
        "--rows",
        "CLIP",
    ]
    assert reproduced(tmp_path, *words) == 0
    assert "--prompts" not in capsys.readouterr().out
    for text, runs in (("number {}", 1), ("number {}", 0), ("a {} square", 1)):
        lines.write_text(f"{text}\n", encoding="utf-8")
        content.cache_clear()
        assert reproduced(tmp_path, *words, "--prompts", f"imagenet={lines}") == 0
        assert capsys.readouterr().out.count(f"--prompts '{lines}' --device") == runs


@pytest.mark.slow
def test_a_run_takes_as_many_steps_as_its_time_allows(photos: Path, tmp_path: Path) -> None:
    words = [FLICKR, "--manifest", str(photos), *TINY, "--rows", "1", "--seconds", "1"]
    assert reproduced(tmp_path, *words) == 0
    (run,) = (tmp_path / "out" / "runs").iterdir()
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[-1])["step"] > 1
    assert reproduced(tmp_path, *words) == 0
    assert [run] == [*(tmp_path / "out" / "runs").iterdir()]


@pytest.fixture(scope="module")
def furniture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small set, its views, and runs that tables share."""
    folder = tmp_path_factory.mktemp("furniture")
    write_furniture(FurnitureOrder(folder / "set", 0), 40)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", table_names())
def test_every_table_runs_to_its_end(
    name: str, furniture: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear_probe, "PROBE_STEPS", 10)  # what forty pieces tell is not looked at
    learned = ["--manifest", str(furniture / "set" / "manifest.jsonl"), "--label", "kind"]
    assert reproduced(furniture, name, *learned, *TINY, "--steps", "1") == 0
    capsys.readouterr()
    table = load_table(name)
    page = (furniture / "out" / f"{name.replace(':', '-')}.html").read_text(encoding="utf-8")
    shown = [title for title in table.figures if f"<h2>{title}</h2><figure>" in page]
    assert shown == [title for title in table.figures if "pictures" not in title]  # there are no photos
    assert ("<h2>Curves</h2><figure>" in page) == bool(table.curve)
    assert ("<h2>Chart</h2><figure>" in page) == bool(table.chart)
    assert page.count(", ours</text>") == len(table.chart)
    found = json.loads((furniture / "out" / f"{name.replace(':', '-')}.json").read_text(encoding="utf-8"))
    assert set(found["rows"]) == {row.name for row in table.ours}
    for columns in found["rows"].values():
        missing = {title for title, one in zip(found["columns"], columns, strict=True) if one is None}
        alone = {title for title, place in table.columns.items() if not place}
        assert alone <= missing <= alone | {"shifts", "VTAB"}  # sets of any name, for which nothing stands
