"""What a disk holds after a power cut: a shim keeps what was synced, and a folder is made of that alone."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("powerloss.c")


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The forgetful disk, compiled."""
    return compiled(SOURCE, tmp_path_factory.mktemp("shim"))


def compiled(source: Path, folder: Path) -> Path:
    """A library to preload."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs Linux and a C compiler, for what stands between a process and its system")
    library = folder / f"{source.stem}.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def key(path: Path) -> str:
    """How the shim calls a file: the time is that of its birth, which Python does not tell."""
    told = subprocess.run(["stat", "-c", "%i %W", path], capture_output=True, text=True, check=True)
    inode, birth = told.stdout.split()
    return f"{inode}-{birth}-"


def assemble(shadow: Path, start: str, target: Path) -> None:
    """A folder as it was synced, and what is in it likewise; what never was is empty."""
    target.mkdir()
    found = list(shadow.glob(f"{start}*"))
    for line in found[0].read_text().splitlines() if found else ():
        kind, name, called = line.split(" ", 2)
        if kind == "d":
            assemble(shadow, name, target / called)
        else:
            kept = shadow / name
            (target / called).write_bytes(kept.read_bytes() if kept.exists() else b"")
