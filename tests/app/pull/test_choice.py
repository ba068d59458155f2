"""`multifold pull --for`: several encoders on one's own captioned pictures."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from app.pull.choice import CaptionedPictures, caption_ranks, choose_encoder, mean_recall, read_captioned
from app.pull.published_files import PullError
from multifold.bundle.canary import open_encoder
from multifold.cli import main
from tests import tiny
from tests.app.pull import published


def write_things(folder: Path, count: int = 12) -> Path:
    draw = np.random.default_rng(3)
    folder.mkdir()
    for number in range(count):
        colour = [*tiny.COLOURS][number % len(tiny.COLOURS)]
        Image.fromarray(tiny.picture(colour)).save(folder / f"{number:02}.png")
        said = " ".join(draw.choice(published.WORDS, 3))
        (folder / f"{number:02}.txt").write_text(f"a {colour} {said}\n", encoding="utf-8")
    return folder


def test_captions_are_ranked_by_the_encoder(tmp_path: Path) -> None:
    tiny.build(tmp_path / "tiny")
    things = read_captioned(write_things(tmp_path / "things"))
    assert (len(things.pictures), len(things.captions)) == (12, 12)
    places = caption_ranks(open_encoder(tmp_path / "tiny"), things)
    assert places.max() <= 3 * len(tiny.COLOURS)  # others of the same colour alone stand before it
    assert mean_recall(np.array([1, 5, 6, 11])) == pytest.approx([1, 2 / 3, 1 / 3, 0])


def test_the_best_is_told_apart_with_paired_intervals() -> None:
    draw = np.random.default_rng(0)
    owners = np.repeat(np.arange(60), 2)
    hard = draw.integers(1, 40, 120)
    easy = np.maximum(hard // 8, 1)
    choice = choose_encoder({"far": hard, "near": easy, "twin": easy}, owners)
    assert choice.best in ("near", "twin")
    assert not choice.clear
    clear = choose_encoder({"far": hard, "near": easy}, owners)
    assert (clear.best, clear.clear) == ("near", True)
    assert clear.lines[-1] == "best: near"
    assert "near finds" in clear.lines[2]


def test_two_encoders_are_pulled_and_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    things = write_things(tmp_path / "things")
    for build, name in ((published.clip, "one"), (published.siglip2, "two"), (published.nllb, "my-nllb")):
        build(tmp_path / "published" / name)
    asked = ["pull", "--for", str(things), "--language", "cs", "--from", "published"]
    assert main([*asked, "--candidates", "one,two, my-nllb"]) == 0
    told = capsys.readouterr().out
    assert "12 captions of 12 items" in told
    best = next(line for line in told.splitlines() if line.startswith("best: ")).removeprefix("best: ")
    name = best.partition(";")[0]
    assert f"serve it: make serve BUNDLE=bundles/{name}{'-cs' if 'nllb' in name else ''}" in told
    assert {one.name for one in (tmp_path / "bundles").iterdir()} == {"one", "two", "my-nllb-cs"}
    assert main([*asked, "--candidates", "one,two"]) == 0  # what is there is not pulled again
    assert "wrapping" not in capsys.readouterr().out


def test_too_few_captions_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    things = write_things(tmp_path / "things", count=9)
    (things / "10.png").write_bytes(b"no picture")
    (things / "10.txt").write_text("a red chair")
    with pytest.raises(PullError, match="has 9 pictures with captions"):
        read_captioned(things)
    assert main(["pull", "clip-b32", "--for", str(things)]) == 2
    assert "not both" in capsys.readouterr().err


def test_a_manifest_will_do_and_many_items_are_thinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.pull.choice.COMPARED_ITEMS", 12)
    things: CaptionedPictures = read_captioned(write_things(tmp_path / "things", count=30))
    assert len(things.pictures) == 10
    lines = [f'{{"id": "{n}", "images": ["things/{n:02}.png"], "texts": ["a", "b"]}}' for n in range(11)]
    (tmp_path / "things.jsonl").write_text("\n".join(lines))
    assert read_captioned(tmp_path / "things.jsonl").owners.tolist() == [n for n in range(11) for _ in "ab"]
