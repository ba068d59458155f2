"""Each example of examples/README.md runs as it is printed, and finds what it should."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.ports import free_ports

HOUSE = Path(__file__).resolve().parents[2]
PAGE = (HOUSE / "examples" / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^## ([^\n]+)\n.*?^```bash\n(.*?)^```", re.DOTALL | re.MULTILINE)
EXAMPLES = dict(BLOCK.findall(PAGE))
PORT = "8000"
SECONDS = 1500


def run(title: str, folder: Path, **settings: str) -> str:
    """What an example prints; a service that it starts, with these settings, is stopped."""
    folder.mkdir(exist_ok=True)
    (folder / "examples").symlink_to(HOUSE / "examples")
    (folder / "bundles").mkdir()
    (folder / "bundles" / "furniture").symlink_to(HOUSE / "bundles" / "furniture")
    port = str(free_ports(1)[0])
    text = EXAMPLES[title].replace(f":{PORT}", f":{port}")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ours = {"PATH": path, "PYTHONPATH": str(HOUSE), "MULTIFOLD_PORT": port}
    ours |= {"MULTIFOLD_URL": f"http://127.0.0.1:{port}", "MULTIFOLD_RENDER_SECONDS": "200"}
    ours |= {"PYTHONUNBUFFERED": ""}  # a line is written at once, so those of two processes stay whole
    ours |= {f"MULTIFOLD_{name.upper()}": value for name, value in settings.items()}
    with (folder / "log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=folder,
            env=os.environ | ours,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            status = -1  # what it printed says what it waits for
        finally:
            with suppress(ProcessLookupError):  # where nothing of it is left
                os.killpg(process.pid, signal.SIGTERM)
    said = (folder / "log").read_text(encoding="utf-8")
    assert status == 0, said[-3000:]
    return said


def found(said: str, name: str) -> list[str]:
    """The hits of a search: each has a line."""
    return re.findall(rf"^({name}) (?:\d+%)? ", said, re.MULTILINE)


def test_there_are_six_and_each_is_short() -> None:
    assert len(EXAMPLES) == len(re.findall(r"^## ", PAGE, re.MULTILINE)) == 6
    assert max(block.count("\n") for block in EXAMPLES.values()) < 10


def test_every_file_is_used() -> None:
    files = {path.name for path in (HOUSE / "examples").iterdir() if path.is_file()} - {"README.md"}
    used = set(re.findall(r"examples/([\w.]+)", "".join(EXAMPLES.values())))
    assert files == used


@pytest.mark.slow
def test_stl_files_are_found_by_their_shape(tmp_path: Path) -> None:
    hits = found(run("A folder of STL files", tmp_path / "a"), r"part-\d\d")
    manifest = (tmp_path / "a" / "parts" / "furniture" / "manifest.jsonl").read_text(encoding="utf-8")
    kinds = [json.loads(line)["meta"]["kind"] for line in manifest.splitlines()]
    assert len(hits) == 3
    assert kinds[int(hits[0].removeprefix("part-"))] == "stool"


@pytest.mark.slow
def test_products_are_found_below_a_price(tmp_path: Path) -> None:
    hits = found(run("Product photos with a CSV", tmp_path / "a"), r"F-\d\d")
    assert len(hits) == 3
    assert all(20 + 10 * int(sku.removeprefix("F-")) < 150 for sku in hits)


@pytest.mark.slow
def test_photos_are_found_by_words_and_captions_by_photos(tmp_path: Path) -> None:
    hits = found(run("Captions of photos", tmp_path / "a"), r"\d\d")
    assert len(hits) == 6
    assert "00" in hits[:3]  # a black bookcase
    assert "00" in hits[3:]  # its own captions


@pytest.mark.slow
def test_own_vectors_need_no_encoder(tmp_path: Path) -> None:
    hits = run("Own vectors from elsewhere", tmp_path / "a").splitlines()[-3:]
    assert hits[0] == "00 1.000"


@pytest.mark.slow
def test_an_agent_finds_and_sees(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="mcp is not installed (extra 'mcp')")
    said = run("An agent over MCP", tmp_path / "a")
    assert "tools: search similar" in said
    assert re.search(r"^found: .*furniture-44-00000", said, re.MULTILINE)  # a black bookcase
    assert (tmp_path / "a" / "seen.webp").read_bytes()[8:12] == b"WEBP"


@pytest.mark.slow
def test_a_night_of_training_takes_over(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed (extra 'train')")
    # A rebuild follows what the former collection is written for as long as a request may take.
    said = run("Nightly retraining from judgements", tmp_path / "a", request_timeout="15")
    assert "240 verdicts" in said
    assert "It replaces the old encoder" in said
    assert "default points to main-" in said
    assert "answers now" in said
