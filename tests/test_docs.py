"""Commands, links, make targets and paths of the docs exist; pages, sentences and cells are short."""

import argparse
import re
import shlex
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from multifold import benches, cli

HOUSE = Path(__file__).resolve().parent.parent
PAGES = sorted([*HOUSE.glob("*.md"), *(HOUSE / "docs").rglob("*.md"), *(HOUSE / "examples").glob("*.md")])
COMMAND = re.compile(r"^\s*(?:\$ )?(multifold [a-z].*?)(?:\s+&)?(?:\s+#.*)?$", re.MULTILINE)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)[^)]*\)")
ANCHOR_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)#([\w-]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
ANCHOR = re.compile(r'<a id="([\w-]+)">')
NOT_PROSE = re.compile(
    r"^```.*?^```|^\s*\|.*?$|^#.*?$|<!--.*?-->|(?<=\n\n)(?:    \S.*\n)+", re.DOTALL | re.MULTILINE
)
BLOCK_START = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )")
SENTENCE_END = re.compile(r'(?<=[.!?:])\s+(?=[A-Z\[(`*"0-9])')
MOST_WORDS, MEAN_WORDS, MOST_IN_A_CELL = 40, 20, 200
MOST_WORDS_IN_ALL = 60_000  # of the README and docs, as `wc -w` counts them; who adds a page cuts others
PATH = re.compile(
    r"`((?:app|benches|docker|index|multifold|renderers|tests|training)/[\w./-]+|pyproject\.toml|[A-Z]+\.md)`"
)
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
    group = cli.GROUP
    if name == "bench":
        group, name, *words = benches.GROUP, *words
    project = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    parser = argparse.ArgumentParser(exit_on_error=False)
    import_module(project["entry-points"][group][name]).add_arguments(parser)
    parser.parse_args(words)


def sentences(text: str) -> list[str]:
    """The sentences of a page without code blocks, tables and headings; code in a line counts as a word."""
    prose = re.sub(r"`[^`]*`", "CODE", re.sub(r"\]\([^)]*\)", "]", NOT_PROSE.sub("\n\n", text)))
    blocks = (re.sub(r"^\s*(?:[-*]|\d+\.) ", "", block) for block in BLOCK_START.split(prose))
    return [one for block in blocks for one in SENTENCE_END.split(" ".join(block.split())) if words(one)]


def words(sentence: str) -> int:
    return len(re.findall(r"\S*\w\S*", sentence))


def test_a_stranger_soon_knows_what_to_read() -> None:
    text = (HOUSE / "README.md").read_text(encoding="utf-8")
    before, found, after = text.partition("## Who should read what")
    table = after.partition("\n## ")[0]
    assert found
    assert len(re.findall(r"\]\(", before + table)) < 20


def test_the_list_of_pages_names_them_all() -> None:
    folder = HOUSE / "docs"
    named = {(folder / link).resolve() for link in LINK.findall((folder / "README.md").read_text())}
    assert sorted(page.name for page in folder.glob("[!R]*.md") if page.resolve() not in named) == []


def test_the_docs_are_short() -> None:
    pages = [HOUSE / "README.md", *(HOUSE / "docs").rglob("*.md")]
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= MOST_WORDS_IN_ALL


def anchors(page: Path) -> set[str]:
    """What a link to a place of that page may name, as GitHub makes it of headings."""
    text = page.read_text(encoding="utf-8")
    headings = HEADING.findall(BLOCK.sub("", text))
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain} | {*ANCHOR.findall(text)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HOUSE)))
def test_a_link_to_a_place_finds_it(page: Path) -> None:
    for target, anchor in ANCHOR_LINK.findall(page.read_text(encoding="utf-8")):
        other = page.parent / target if target else page
        assert other.suffix != ".md" or anchor in anchors(other), f"{target}#{anchor}"


def test_the_changelog_is_a_list() -> None:
    text = (HOUSE / "CHANGELOG.md").read_text(encoding="utf-8")
    _, *versions = re.split(r"^## ", text, flags=re.MULTILINE)
    for version in versions:
        titles = re.findall(r"^### (.+)$", version, re.MULTILINE)
        assert set(titles) <= {"Added", "Changed", "Fixed", "Removed"}
        assert titles == sorted(titles)
        body = version.partition("\n")[2]
        loose = [line for line in body.splitlines() if line and not re.match(r"#{3,4} |- |  \S", line)]
        assert loose == []


@pytest.mark.parametrize("page", ["adding.md", "architecture.md"])
def test_paths_exist(page: str) -> None:
    text = (HOUSE / "docs" / page).read_text(encoding="utf-8")
    paths = set(PATH.findall(text))
    assert len(paths) >= 40
    assert sorted(path for path in paths if not (HOUSE / path).exists()) == []


def test_adding_names_one_path_and_one_test_for_each_of_twenty_tasks() -> None:
    text = (HOUSE / "docs" / "adding.md").read_text(encoding="utf-8")
    rows = [row for row in re.findall(r"^\| (.*) \|$", text, re.MULTILINE) if not row.startswith("to add")]
    assert len(rows) >= 20
    for row in rows:
        task, first, _, test = row.split(" | ")
        assert (HOUSE / first.strip("`")).exists(), task
        assert (HOUSE / test.strip("`")).exists(), task


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HOUSE)))
def test_a_page_leads_somewhere_and_is_plain(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [link for link in LINK.findall(text) if not (page.parent / link).exists()] == []
    makefile = (HOUSE / "Makefile").read_text(encoding="utf-8")
    assert [target for target in TARGET.findall(text) if f"\n{target}:" not in makefile] == []
    found = sentences(text)
    assert [one for one in found if words(one) > MOST_WORDS] == []
    assert not found or sum(map(words, found)) / len(found) < MEAN_WORDS
    rows = re.findall(r"^\|(.*)\|$", text, re.MULTILINE)
    cells = [re.sub(r"\]\([^)]*\)", "]", cell) for row in rows for cell in row.split("|")]
    assert [cell for cell in cells if len(cell) > MOST_IN_A_CELL] == []
