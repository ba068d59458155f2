"""The examples of docs/api.md work as they are printed, in their order."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.runtime import rebuild
from tests.app.house import House, box, house, png

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)
ADDRESS = "http://127.0.0.1:8000"


@pytest.fixture
def fresh(tmp_path: Path, bundle: Path) -> Iterator[House]:
    with house(tmp_path / "data", bundle) as opened:
        yield opened


@pytest.mark.slow
def test_every_example_works(fresh: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rebuild, "longest_request", lambda _: 1.0)
    Path("photo.png").write_bytes(png("red"))
    Path("box.glb").write_bytes(box("red"))
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) >= 9
    for language, text in blocks:
        if ADDRESS in text:
            run(language, text.replace(ADDRESS, fresh.url))


def run(language: str, text: str) -> None:
    if language == "python":
        exec(compile(text, "docs/api.md", "exec"), {})
        return
    done = subprocess.run(["bash", "-euc", text], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    assert '"error":{"code":"internal"' not in done.stdout
