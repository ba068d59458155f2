"""The tutorial's own commands, one after the other, on a folder of two dozen boxes."""

import json
import re
import shlex
from itertools import product
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from multifold.cli import main
from tests.training.data.sources.test_folder import CUBE

DOCS = Path(__file__).resolve().parents[2] / "docs"
TOY = (
    "--set train.items=4 train.epochs=2 train.warmup=2 validation.every=4 views.size=64 image.size=32"
    " image.stem=[8] image.width=16 image.depth=1 image.heads=2"
    " text.width=16 text.depth=1 text.heads=2 text.vocabulary=300"
)
SIZES = {"small": 0.5, "large": 2.0, "flat": 0.1}
PLACES = ("left", "right")
COLOURS = {"red": "1 0 0", "green": "0 1 0", "blue": "0 0 1", "white": "1 1 1"}


def commands(page: str) -> list[str]:
    """Those of a page, in order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines() if line]


def box(height: float, colour: str) -> str:
    """A cube of that height whose corners have that colour."""
    corners = [line.split()[1:] for line in CUBE.splitlines() if line.startswith("v ")]
    vertices = [f"v {x} {float(y) * height} {z} {colour}" for x, y, z in corners]
    return "\n".join([*vertices, *(line for line in CUBE.splitlines() if line.startswith("f "))])


def fill(folder: Path) -> None:
    """Boxes to learn from, with captions, and two that are held out."""
    folder.mkdir()
    for place, (size, height), (name, colour) in product(PLACES, SIZES.items(), COLOURS.items()):
        path = folder / f"{place}-{size}-{name}.obj"
        path.write_text(box(height, colour), encoding="utf-8")
        said = [f"a {size} {name} box", f"{name}, {place}"]
        path.with_suffix(".json").write_text(json.dumps({"texts": said, "split": "train"}), encoding="utf-8")
    for split in ("val", "test"):
        (folder / f"{split}.obj").write_text(box(1.0, "1 1 0"), encoding="utf-8")
        (folder / f"{split}.json").write_text(f'{{"text": "a {split} box", "split": "{split}"}}')


@pytest.mark.slow
def test_it_leads_from_a_folder_to_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All but three of its commands: two need weights of others, one serves for ever.

    `train own` is run in `tests/training/export/test_own.py`.
    """
    monkeypatch.chdir(tmp_path)
    fill(tmp_path / "things")
    for command in commands("finetune.md"):
        if any(word in command for word in ("finetune-folder", "train own", " serve ")):
            continue
        _, *words = shlex.split(f"{command} {TOY}" if " train " in command else command)
        assert main(words) == 0, (command, capsys.readouterr())
    assert "text to shape" in capsys.readouterr().out
    app = create_app(Settings(data=Path("data/things"), bundle=Path("bundles/things")))
    with TestClient(app, base_url="http://localhost") as client:
        found = client.post("/v1/search", json={"text": "a flat red box", "limit": 50}).json()
    assert len(found["hits"]) == 26


WAYS = ["data", "train", "export", "ingest", "serve"]


@pytest.mark.parametrize(
    ("page", "ways"), [("finetune.md", WAYS), ("improve.md", [*WAYS, "feedback", "train-on-feedback"])]
)
def test_the_pages_go_all_the_way(page: str, ways: list[str]) -> None:
    rooms = [command.split()[1] for command in commands(page) if "open_clip" not in command]
    assert list(dict.fromkeys(rooms)) == ways
