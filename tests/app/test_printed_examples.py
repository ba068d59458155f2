"""The examples of the README, of docs/api.md and of three other pages work as they are printed."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from app.runtime import rebuild
from multifold.cli import main
from tests.app.house import House, box, house, png
from tests.ports import free_ports

HOUSE = Path(__file__).parents[2]
README = (HOUSE / "README.md").read_text(encoding="utf-8")
API = (HOUSE / "docs" / "api.md").read_text(encoding="utf-8")
BUNDLE = HOUSE / "bundles" / "furniture"
ADDRESS = "http://127.0.0.1:8000"
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)
MAKE = re.compile(r"^    (make .*?)(?: +#.*)?$", re.MULTILINE)
PICTURE = re.compile(r"!\[.+\]\((\S+)\)")
SCRIPTS = [*MAKE.findall(README), *(text for language, text in BLOCK.findall(README) if language == "bash")]
SERVING = [script for script in SCRIPTS if "~/models" in script]
FURNITURE = "multifold data furniture --items 6 --seed 44 furniture"
PREPARED = {  # what the commands of a page begin with
    "explain.md": [],
    "index.md": [
        FURNITURE,
        "multifold ingest furniture/manifest.jsonl --data data/demo --bundle bundles/furniture",
        "multifold encode furniture/manifest.jsonl bundles/mine shards/",
    ],
    "ingest.md": [FURNITURE],
}
# What serves or watches for ever, and what needs a library, a database, a bucket or a checkpoint.
ELSEWHERE = re.compile(r"^multifold (serve|ingest .*--watch|ingest manyfold:|index migrate|explain runs/)")
OWN_ENCODER = next(script for script in SCRIPTS if "multifold train" in script)
SEARCHES = [block for block in BLOCK.findall(README) if ADDRESS in block[1]]


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
    code = dict(SEARCHES)
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


def test_every_command_of_the_readme_is_run() -> None:
    run = {*SERVING, OWN_ENCODER, *(text for _, text in SEARCHES)}
    elsewhere = {"make test", "make pull"}  # this run itself, and what asks a model hub
    assert {*SCRIPTS} <= run | elsewhere
    assert len(SERVING) == 3


@pytest.mark.slow
def test_an_encoder_of_ones_own_is_one_story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer pieces: each step takes what the one before has made."""
    monkeypatch.chdir(tmp_path)
    commands = [line for line in OWN_ENCODER.splitlines() if line.startswith("multifold")]
    for command in commands[:-1]:
        _, *words = shlex.split(command.replace("--items 2000", "--items 40"))
        assert main(words) == 0
    assert shlex.split(commands[-1])[1:] == ["serve", "--data", "data/mine", "--bundle", "bundles/mine"]
    with house(tmp_path / "data" / "mine", tmp_path / "bundles" / "mine") as opened:
        found = opened.client.post("/v1/search", json={"text": "a red chair", "limit": 3}).json()["hits"]
        assert len(found) == 3


@pytest.mark.slow
@pytest.mark.parametrize("script", SERVING, ids=["make", "make with a bundle", "without make"])
def test_ones_own_folder_is_served_by_one_command(tmp_path: Path, script: str) -> None:
    models = tmp_path / "models"  # the home of this test is that folder
    models.mkdir()
    (models / "box.glb").write_bytes(box("red"))
    (models / "photo.png").write_bytes(png("green"))
    (models / "photo.txt").write_text("a green wall")
    clone = installed_clone(tmp_path / "clone")
    port = str(free_ports(1)[0])
    ours = {"HOME": str(tmp_path), "PORT": port, "MULTIFOLD_PORT": port, "PYTHONPATH": str(HOUSE)}
    with subprocess.Popen(
        ["bash", "-euc", script], cwd=clone, env=os.environ | ours,
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        missing = {f"ready at http://127.0.0.1:{port}", "2 of 2 items are ingested"}
        for line in process.stdout:
            missing -= {one for one in missing if one in line}
            if not missing:
                break
        with suppress(ProcessLookupError):  # where it has ended by itself
            os.killpg(process.pid, signal.SIGTERM)
    assert not missing
    (store,) = (clone / "data").glob("models*/store.sqlite")
    assert store.is_file()


@pytest.mark.slow
@pytest.mark.parametrize("page", PREPARED)
def test_the_commands_of_a_page_run_in_their_order(tmp_path: Path, page: str) -> None:
    clone = installed_clone(tmp_path / "clone")
    text = (HOUSE / "docs" / page).read_text(encoding="utf-8")
    blocks = [block for language, block in BLOCK.findall(text) if language == "bash"]
    commands = [line for block in blocks for line in block.splitlines() if not ELSEWHERE.match(line)]
    assert len(commands) >= 2
    (clone / "my-things" / "chairs").mkdir(parents=True)
    for name, colour in (
        ("my-things/chairs/red", "red"),
        ("my-things/chairs/blue", "blue"),
        ("chair", "green"),
    ):
        (clone / f"{name}.glb").write_bytes(box(colour))
    (clone / "photo.jpg").write_bytes(png("red"))
    np.save(clone / "vectors.npy", np.eye(8, dtype=np.float32))
    (clone / "ids.txt").write_text("".join(f"vector-{number}\n" for number in range(8)))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ours = {"PATH": path, "PYTHONPATH": str(HOUSE), "OMP_NUM_THREADS": "1"}
    script = "\n".join(["set -x", *PREPARED[page], *commands])
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=clone,
        env=os.environ | ours,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def installed_clone(clone: Path) -> Path:
    """A clone as it is after an installation, with the demo bundle in the place of all others."""
    (clone / "bundles").mkdir(parents=True)
    for name in ("furniture", "siglip2-b16-small", "mine", "points"):
        (clone / "bundles" / name).symlink_to(BUNDLE)
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "install.py"):
        (clone / name).symlink_to(HOUSE / name)
    (clone / ".venv").mkdir()
    (clone / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    for name in ("pyvenv.cfg", ".serve"):
        (clone / ".venv" / name).touch()
    return clone


def test_its_pictures_are_there_and_small() -> None:
    pictures = PICTURE.findall(README)
    assert len(pictures) >= 2
    assert all(10_000 < (HOUSE / picture).stat().st_size < 150_000 for picture in pictures)
    assert shutil.which("make") is None or "\npictures:" in (HOUSE / "Makefile").read_text()
