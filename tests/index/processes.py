"""Modules of these tests that run in processes of their own, most of them to be killed."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"


def started(module: str, *words: object, **environment: str) -> subprocess.Popen[str]:
    """Run `tests.index.MODULE`; what it prints is read by line."""
    return subprocess.Popen(
        [sys.executable, "-m", f"tests.index.{module}", *map(str, words)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
