"""A training from its recipe: what is left out, and what is said before it starts."""

from pathlib import Path

import pytest
from PIL import Image

from multifold import manifest
from multifold.errors import MultifoldError
from multifold.manifest import ManifestEntry
from tests.training import small
from training.distributed import SINGLE_PROCESS
from training.recipes.schema import Recipe
from training.train import RunPlace, train_recipe


def test_bad_files_are_left_out_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def write_set(bad: int) -> Recipe:
        for number in range(20):
            Image.new("RGB", (40, 32), (10 * number, 0, 0)).save(tmp_path / f"{number}.png")
        for number in range(bad):
            (tmp_path / f"{number}.png").write_bytes(b"no picture")
        paths = {f"item {n}": tmp_path / f"{n}.png" for n in range(20)}
        entries = [ManifestEntry(n, images=(p,), texts=(f"a {n}",), split="train") for n, p in paths.items()]
        manifest.write(tmp_path / "set.jsonl", entries)
        data = {"manifest": str(tmp_path / "set.jsonl")}
        return small.recipe({"data": data, "text": {"context": 4}}, steps=1)

    def train(wanted: Recipe, strict: bool = False) -> None:
        (tmp_path / "run").mkdir(exist_ok=True)
        place = RunPlace(tmp_path / "run", tmp_path / "cache", "cpu", SINGLE_PROCESS)
        train_recipe(wanted, place, strict=strict)

    train(write_set(2))
    told, progress = capsys.readouterr()
    assert "run: " in progress  # which run it is, not only by which recipe
    assert "18 items, 18 texts to learn from" in told
    assert "18 texts are longer than [text] context = 4 tokens, and are cut there" in told
    assert "left out 2 items whose files cannot be read" in told
    named = (tmp_path / "run" / "problems.txt").read_text(encoding="utf-8").splitlines()
    assert [Path(line.split(":")[0]).name for line in named] == ["0.png", "1.png"]
    for bad, strict in ((3, False), (1, True)):
        with pytest.raises(MultifoldError, match=f"{bad} of 20 items cannot be read. The first: .*0.png"):
            train(write_set(bad), strict)
