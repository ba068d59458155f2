"""The examples of the README and of docs/api.md work as they are printed."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.runtime import rebuild
from multifold.cli import main
from tests.app.house import House, box, house, png

HOUSE = Path(__file__).parents[2]
README = (HOUSE / "README.md").read_text(encoding="utf-8")
API = (HOUSE / "docs" / "api.md").read_text(encoding="utf-8")
BUNDLE = HOUSE / "bundles" / "furniture"
ADDRESS = "http://127.0.0.1:8000"
SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)
PICTURE = re.compile(r"!\[.+\]\((\S+)\)")


def examples(title: str) -> dict[str, str]:
    """The code of one section, by language."""
    return dict(BLOCK.findall(dict(SECTION.findall(README))[title]))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("demo")
    assert main(["data", "furniture", "--items", "6", "--seed", "44", str(folder / "furniture")]) == 0
    manifest = str(folder / "furniture" / "manifest.jsonl")
    assert main(["ingest", manifest, "--data", str(folder), "--bundle", str(BUNDLE), "--workers", "1"]) == 0
    with house(folder, BUNDLE) as opened:
        yield opened


@pytest.mark.slow
def test_the_snippets_search_a_running_demo(demo: House, capfd: pytest.CaptureFixture[str]) -> None:
    code = examples("From Python, or with curl")
    exec(compile(code["python"].replace(ADDRESS, demo.url), "README.md", "exec"), {})
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(re.fullmatch(r"furniture-44-\d+ \w+ \d+% /v1/items/\S+", line) for line in lines), lines
    done = subprocess.run(["bash", "-euc", code["bash"].replace(ADDRESS, demo.url)], capture_output=True)
    assert b'"hits":[{"id":"furniture-44-' in done.stdout


@pytest.mark.slow
def test_every_example_of_the_api_works_in_its_order(
    tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rebuild, "longest_request", lambda _: 1.0)
    Path("photo.png").write_bytes(png("red"))
    Path("box.glb").write_bytes(box("red"))
    blocks = [(language, text) for language, text in BLOCK.findall(API) if ADDRESS in text]
    assert len(blocks) >= 9
    with house(tmp_path / "data", bundle) as fresh:
        for language, text in blocks:
            asked = text.replace(ADDRESS, fresh.url)
            if language == "python":
                exec(compile(asked, "docs/api.md", "exec"), {})
                continue
            done = subprocess.run(["bash", "-euc", asked], capture_output=True, text=True, timeout=600)
            assert done.returncode == 0, f"{asked}\n{done.stdout}\n{done.stderr}"
            assert '"error":{"code":"internal"' not in done.stdout


@pytest.mark.slow
def test_ones_own_folder_is_served_by_one_command(tmp_path: Path) -> None:
    activate, serve = examples("A general encoder")["bash"].splitlines()
    assert activate == ". .venv/bin/activate"
    things = tmp_path / "things"
    things.mkdir()
    (things / "box.glb").write_bytes(box("red"))
    (things / "photo.png").write_bytes(png("green"))
    (things / "photo.txt").write_text("a green wall")
    script = f"{serve} --port 0".replace("~/models", str(things))
    script = script.replace("bundles/siglip2-b16-small", str(BUNDLE))
    binaries = f"PATH={Path(sys.executable).parent}:$PATH"
    with subprocess.Popen(
        ["bash", "-euc", f"{binaries}\n{script.replace('multifold serve', 'exec multifold serve')}"],
        cwd=tmp_path, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        missing = {"ready at http://127.0.0.1:", "2 of 2 items are ingested"}
        for line in process.stdout:
            missing -= {one for one in missing if one in line}
            if not missing:
                break
        process.terminate()
    assert not missing
    assert (tmp_path / "data" / "things" / "store.sqlite").is_file()


def test_its_pictures_are_there_and_small() -> None:
    pictures = PICTURE.findall(README)
    assert len(pictures) >= 2
    assert all(10_000 < (HOUSE / picture).stat().st_size < 150_000 for picture in pictures)
    assert shutil.which("make") is None or "\npictures:" in (HOUSE / "Makefile").read_text()
