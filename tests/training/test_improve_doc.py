"""The walk-through's own commands, from a folder of boxes to an encoder that has learned from searches."""

import shlex
from pathlib import Path

import pytest

from app.runtime import rebuild
from multifold.bundle.bundle import load
from multifold.cli import main
from multifold.client import Client, Search
from tests.app.house import house
from tests.training.test_finetune_doc import COLOURS, PLACES, SIZES, TOY, commands, fill

TOY_EPOCHS = "train.epochs=30 validation.every=60"
TOY_STEPS = "--set train.steps=200 train.items=16 train.rate=5e-3 --mix 1"
WAYS = ("i want something {}", "{}, please", "the {} one", "do you have it in {}?", "show me {}")


@pytest.mark.slow
def test_it_leads_from_a_folder_to_ones_own_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rebuild, "longest_request", lambda _: 1.0)
    fill(tmp_path / "things", ("a {size} box", "{size}, at the {place}"))  # nothing of their colours
    told = [command for command in commands("improve.md") if "open_clip" not in command]
    before, after = told[:4], told[5:]
    for command in before:
        _, *words = shlex.split(f"{command} {TOY} {TOY_EPOCHS}" if " train " in command else command)
        assert main(words) == 0, (command, capsys.readouterr())
    with house(Path("data/things"), Path("bundles/first"), bundles=Path("bundles")) as shop:
        with Client(shop.url) as client:
            users(client)
        for command in after:
            asked = command.replace("http://127.0.0.1:8000", shop.url)
            _, *words = shlex.split(f"{asked} {TOY_STEPS}" if " improve " in asked else asked)
            assert main(words) == 0, (command, capsys.readouterr().out[-3000:])
        with Client(shop.url) as client:
            assert client.aliases()["default"].startswith("main-")
            assert len(list(client.judgements())) == 2 * len(COLOURS) * len(SIZES) * len(PLACES) * len(WAYS)
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
