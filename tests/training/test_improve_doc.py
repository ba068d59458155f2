"""The walk-through's own commands, from a folder of boxes to an encoder that has learned from searches."""

import re
import shlex
from pathlib import Path

import pytest

from app.runtime import rebuild
from multifold.bundle.bundle import load
from multifold.cli import main
from multifold.client import Client, Search
from tests.app.house import house
from tests.training.test_finetune_doc import COLOURS, SIZES, TOY, box

PAGE = Path(__file__).resolve().parents[2] / "docs" / "improve.md"
SHAPES = ("left", "right")
TOY_EPOCHS = "train.epochs=30 validation.every=60"
TOY_STEPS = "--set train.steps=200 train.items=16 train.rate=5e-3 --mix 1"
WAYS = ("i want something {}", "{}, please", "the {} one", "do you have it in {}?", "show me {}")


def commands() -> list[str]:
    blocks = re.findall(r"^```bash\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line for line in lines if line and "open_clip" not in line]


def fill(folder: Path) -> None:
    """Boxes whose captions tell their height, and nothing of their colour."""
    folder.mkdir()
    for place in SHAPES:
        for size, height in SIZES.items():
            for name, colour in COLOURS.items():
                path = folder / f"{place}-{size}-{name}.obj"
                path.write_text(box(height, colour), encoding="utf-8")
                path.with_suffix(".json").write_text(
                    f'{{"texts": ["a {size} box", "{size}, at the {place}"], "split": "train"}}',
                    encoding="utf-8",
                )
    for split in ("val", "test"):
        (folder / f"{split}.obj").write_text(box(1.0, "1 1 0"), encoding="utf-8")
        (folder / f"{split}.json").write_text(f'{{"text": "a {split} box", "split": "{split}"}}')


@pytest.mark.slow
def test_it_leads_from_a_folder_to_ones_own_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rebuild, "longest_request", lambda _: 1.0)
    fill(tmp_path / "things")
    before, after = commands()[:4], commands()[5:]
    for command in before:
        _, *words = shlex.split(f"{command} {TOY} {TOY_EPOCHS}" if " train " in command else command)
        assert main(words) == 0, (command, capsys.readouterr())
    with house(Path("data/things"), Path("bundles/first"), bundles=Path("bundles")) as shop:
        with Client(shop.url) as client:
            users(client)
        for command in after:
            told = command.replace("http://127.0.0.1:8000", shop.url)
            _, *words = shlex.split(f"{told} {TOY_STEPS}" if " improve " in told else told)
            assert main(words) == 0, (command, capsys.readouterr().out[-3000:])
        with Client(shop.url) as client:
            assert client.aliases()["default"].startswith("main-")
            assert len(list(client.judgements())) == 2 * len(COLOURS) * len(SIZES) * len(SHAPES) * len(WAYS)
            assert client.info()["bundle"]["vector_id"] == load(Path("bundles/second")).vector_id
            assert client.search(text="the red one").hits
    assert "It replaces the old encoder" in capsys.readouterr().out


def users(client: Client) -> None:
    """Each box is looked for in five ways, by its colour; a box of another colour is not what was meant."""
    boxes = sorted(item.id for item in client.items() if "-" in item.id)
    for number, name in enumerate(boxes):
        colour = name.split("-")[2].split(".")[0]
        for way in WAYS:
            text = f"{way.format(colour)} ({number})"
            client.judge(Search(text=text), name, "good", by=f"user {number}")
            other = next(one for one in boxes if colour not in one)
            client.judge(Search(text=text), other, "bad", by=f"user {number}")


def test_the_page_goes_all_the_way() -> None:
    rooms = [command.split()[1] for command in commands()]
    assert list(dict.fromkeys(rooms)) == ["data", "train", "export", "ingest", "serve", "feedback", "improve"]
