"""Compiled functions: kept on disk, and a word where they have to be made."""

import runpy
from pathlib import Path

import pytest
from numba.core import event

from multifold.compiling import CompilingNotice

SOURCE = """
from multifold.compiling import compile_function

@compile_function("int64(int64)")
def double(number):
    return 2 * number

@compile_function("int64(int64)")
def triple(number):
    return 3 * number
"""


def test_a_process_says_once_that_it_compiles_and_the_next_finds_the_code(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said = []
    for name in ("other.py", "made.py", "made.py"):  # with the first, the process itself has had its say
        path = tmp_path / name
        if not path.exists():
            path.write_text(SOURCE, encoding="utf-8")
        caplog.clear()
        with event.install_listener("numba:compile", CompilingNotice()):
            found = runpy.run_path(str(path))
        assert (found["double"](4), found["triple"](4)) == (8, 12)
        said.append([record.getMessage() for record in caplog.records])
    assert len(said[1]) == 1
    assert "compiling for this machine" in said[1][0]
    assert said[2] == []
