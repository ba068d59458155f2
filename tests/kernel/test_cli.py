"""The command line finds its commands, and says what is missing."""

import argparse
import gc
import importlib
import io
import os
import sys
import tomllib
import warnings
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from textwrap import dedent

import pytest
from PIL import Image

from multifold import cli
from multifold.errors import MissingExtraError, MultifoldError, needs_extra

GREET = '''
"""Greet somebody.

More about greeting.
"""

import argparse
import gc

WATCHED = gc.isenabled()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name")


def run(args: argparse.Namespace) -> int:
    print(f"hello {args.name}")
    return 3
'''
FAILS = '''
"""Fail in the way that is asked for."""

import argparse

from multifold.errors import MultifoldError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("how")


def run(args: argparse.Namespace) -> int:
    faults = {"mistake": MultifoldError("mend this"), "stop": KeyboardInterrupt(), "pipe": BrokenPipeError()}
    faults["file"] = FileNotFoundError(2, "No such file or directory", "none/report.json")
    raise faults[args.how]
'''
PLAN = '''
"""Plan something that another module does."""

import argparse

WORK = "greetings.commands.greet"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(name="planner")
'''
NEEDY = '''
"""Need a library that is not there."""

from multifold.errors import needs_extra

with needs_extra("cluster"):
    import no_such_library_anywhere
'''


@pytest.fixture(autouse=True)
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package of our own with three commands, beside one that is not installed."""
    package = tmp_path / "greetings"
    (package / "commands" / "plan").mkdir(parents=True)
    for name, source in (("greet", GREET), ("fails", FAILS), ("needy", NEEDY), ("plan/__init__", PLAN)):
        (package / "commands" / f"{name}.py").write_text(dedent(source).lstrip())
    (package / "__init__.py").touch()
    (package / "commands" / "__init__.py").touch()
    ours = ("greet", "fails", "needy", "plan", "later")
    points = [EntryPoint(name, f"greetings.commands.{name}", cli.GROUP) for name in ours]
    points.append(EntryPoint("fly", "absent.commands.fly", cli.GROUP))
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setattr(cli, "entry_points", lambda group: points)
    yield
    for name in [name for name in sys.modules if name.startswith("greetings")]:
        del sys.modules[name]
    importlib.invalidate_caches()


@pytest.mark.parametrize("words", [[], ["-h"], ["--help"]])
def test_help_lists_all_without_importing_any(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["usage: multifold COMMAND [-h] …", "", "Others:"]
    assert [line.split(maxsplit=1) for line in lines[3:]] == [
        ["fails", "Fail in the way that is asked for."],
        ["fly", "(needs the package 'absent', which is not in the wheel)"],
        ["greet", "Greet somebody."],
        ["later", "(not in this version)"],
        ["needy", "Need a library that is not there."],
        ["plan", "Plan something that another module does."],
    ]
    assert not any(name.startswith("greetings.") for name in sys.modules)


def test_commands_stand_in_groups_by_the_names_that_they_have_now(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("reader", "serve", "generalise", "greet")
    points = [EntryPoint(name, "greetings.commands.greet", cli.GROUP) for name in names]
    monkeypatch.setattr(cli, "entry_points", lambda group: points)
    cli.main([])
    shown = [line.split(maxsplit=1)[0] for line in capsys.readouterr().out.splitlines()[2:] if line]
    assert shown == ["Search", "serve", "Make", "train-reader", "Look", "generalise", "Others:", "greet"]
    for name in ("reader", "train-reader", "traverse", "generalise"):
        assert cli.main([name, "world"]) == 3


def test_every_command_stands_in_one_group() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    named = set(tomllib.loads(text)["project"]["entry-points"][cli.GROUP])
    grouped = [name for names in cli.HEADINGS.values() for name in names]
    assert (len(cli.HEADINGS), sorted(grouped)) == (4, sorted(named))
    assert set(cli.RENAMED.values()) <= named
    assert not set(cli.RENAMED) & named


def test_a_command_runs_and_may_name_the_module_of_its_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["greet", "world"]) == cli.main(["plan"]) == 3
    assert capsys.readouterr().out == "hello world\nhello planner\n"
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("multifold 0.")
    with pytest.raises(SystemExit, match="0"):
        cli.main(["greet", "--help"])
    assert "More about greeting." in capsys.readouterr().out
    assert not sys.modules["greetings.commands.greet"].WATCHED
    assert gc.isenabled()
    assert not gc.get_freeze_count()  # when a process ends, what is left is no leak


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["gret"], 2, "no command 'gret'; there are: fails, fly, greet, later, needy, plan\n"),
        (
            ["fly"],
            2,
            "`multifold fly` needs the package 'absent', which is not in the wheel; run it from a clone.\n",
        ),
        (["needy"], 2, "pip install 'multifold[cluster]'"),
        (["fails", "mistake"], 2, "mend this\n"),
        (["fails", "stop"], 130, "stopped\n"),
        (["fails", "file"], 2, "none/report.json: No such file or directory"),
    ],
)
def test_trouble_is_one_line_without_traceback(
    words: list[str], status: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == status
    told = capsys.readouterr().err
    assert told.startswith("multifold: ")
    assert sentence in told
    assert told.count("\n") == 1


@pytest.mark.parametrize("text", ["0", "-3", "many", "1.5", ""])
def test_less_than_one_worker_is_refused(text: str) -> None:
    assert cli.at_least_one(" 12") == 12
    with pytest.raises(argparse.ArgumentTypeError, match="at least 1"):
        cli.at_least_one(text)


@pytest.mark.parametrize("words", [["greet", "world"], ["--help"]])
def test_a_reader_that_has_seen_enough_is_no_trouble(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after `| head`."""
    read, written = os.pipe()
    os.close(read)
    with open(written, "w", encoding="utf-8") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert cli.main(words) == 141


def test_another_pipe_that_breaks_is_a_fault() -> None:
    with pytest.raises(BrokenPipeError):
        cli.main(["fails", "pipe"])


def test_lines_appear_when_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    read, written = os.pipe()
    with open(written, "w", encoding="utf-8") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert cli.main(["greet", "world"]) == 3
        assert os.read(read, 100) == b"hello world\n"
    os.close(read)


def test_the_warning_of_pillow_of_a_large_picture_is_not_printed() -> None:
    with warnings.catch_warnings(record=True) as printed:
        warnings.simplefilter("always")
        cli.main(["--version"])
        assert Image.open(io.BytesIO(b"P6 10000 9000 255\n")).size == (10_000, 9_000)
    assert printed == []


def test_an_extra_that_is_missing_is_a_mistake_that_its_reader_can_mend() -> None:
    with pytest.raises(MissingExtraError, match=r"multifold\[cpu\]") as caught, needs_extra("cpu"):
        importlib.import_module("no_such_library_anywhere")
    assert isinstance(caught.value, MultifoldError)
    with pytest.raises(ZeroDivisionError), needs_extra("cpu"):
        raise ZeroDivisionError
