"""What the docs show as a command is a command, and what they link to exists."""

import argparse
import re
import shlex
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from multifold.cli import GROUP

HOUSE = Path(__file__).resolve().parent.parent
PAGES = sorted([*HOUSE.glob("*.md"), *(HOUSE / "docs").rglob("*.md")])
COMMAND = re.compile(r"^\s*(?:\$ )?(multifold [a-z].*?)(?:\s+#.*)?$", re.MULTILINE)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)[^)]*\)")
TARGET = re.compile(r"^\s+make ([a-z-]+)", re.MULTILINE)


def commands() -> list[str]:
    blocks = [block for page in PAGES for block in BLOCK.findall(page.read_text(encoding="utf-8"))]
    shell = [block for language, block in blocks if language == "bash"]
    return sorted({command for block in shell for command in COMMAND.findall(block)})


def test_there_are_commands_to_test() -> None:
    assert len(commands()) >= 6


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_docs_parses(command: str) -> None:
    _, name, *words = shlex.split(command)
    module = next(point for point in entry_points(group=GROUP) if point.name == name).load()
    parser = argparse.ArgumentParser(exit_on_error=False)
    module.add_arguments(parser)
    parser.parse_args(words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HOUSE)))
def test_a_link_leads_somewhere(page: Path) -> None:
    missing = [
        link for link in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HOUSE)))
def test_a_make_target_exists(page: Path) -> None:
    makefile = (HOUSE / "Makefile").read_text(encoding="utf-8")
    targets = TARGET.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if f"\n{target}:" not in makefile] == []
