"""What the serving container does at its start; `multifold` is a script that notes how it was called."""

import os
import subprocess
from pathlib import Path

import pytest

START = Path(__file__).resolve().parents[2] / "docker" / "start"
RECORDER = """#!/bin/sh
echo "$* in $MULTIFOLD_DATA" >>"$CALLS"
[ "$1" != "$BREAKS" ] || exit 1
case "$1" in
  data) mkdir -p "$MULTIFOLD_DATA/furniture"; touch "$MULTIFOLD_DATA/furniture/manifest.jsonl" ;;
  ingest) touch "$MULTIFOLD_DATA/store.sqlite" ;;
esac
"""


class Container:
    """A volume, and the commands that were run on it."""

    def __init__(self, folder: Path) -> None:
        self.data, self._calls, self._bin = folder / "data", folder / "calls", folder / "bin"
        self._bin.mkdir()
        (self._bin / "multifold").write_text(RECORDER)
        (self._bin / "multifold").chmod(0o755)

    def start(self, *words: str, breaks: str = "", items: int = 5, **more: str) -> list[str]:
        """The first words of the commands that this start ran."""
        environment = {
            "PATH": f"{self._bin}:{os.environ['PATH']}",
            "CALLS": str(self._calls),
            "BREAKS": breaks,
            "MULTIFOLD_DATA": str(self.data),
            "MULTIFOLD_BUNDLE": "bundle",
            "DEMO_ITEMS": str(items),
            "DEMO_SEED": "44",
            **more,
        }
        self._calls.write_text("")
        done = subprocess.run([str(START), *words], env=environment, check=False)
        assert (done.returncode != 0) == bool(breaks)
        return [line.split()[0] for line in self.calls()]

    def calls(self) -> list[str]:
        """The commands of the last start, each with its folder of collections."""
        return self._calls.read_text().splitlines()


@pytest.fixture
def container(tmp_path: Path) -> Container:
    return Container(tmp_path)


def test_the_demo_is_made_once(container: Container) -> None:
    assert container.start() == ["data", "ingest", "serve"]
    assert container.start() == ["serve"]


@pytest.mark.parametrize(("breaks", "again"), [("data", ["data", "ingest"]), ("ingest", ["ingest"])])
def test_what_was_interrupted_is_finished(container: Container, breaks: str, again: list[str]) -> None:
    assert container.start(breaks=breaks)[-1] == breaks
    (container.data / "store.sqlite").touch()  # an ingest that was cut short leaves a store
    assert container.start() == [*again, "serve"]
    assert container.start() == ["serve"]


def test_without_a_wish_for_it_or_beside_ones_own_there_is_no_demo(container: Container) -> None:
    assert container.start(items=0) == ["serve"]
    container.data.mkdir()
    (container.data / "store.sqlite").touch()
    assert container.start() == ["serve"]


def test_a_folder_is_followed_without_the_demo(container: Container) -> None:
    assert container.start(MULTIFOLD_FOLDER="/folder") == ["serve"]
    assert container.calls() == [f"serve in {container.data}"]
    container.start(MULTIFOLD_FOLDER="/folder", MULTIFOLD_DATA="/data/demo")
    assert container.calls() == ["serve in /data/own"]


def test_another_folder_has_another_collection(container: Container, tmp_path: Path) -> None:
    def collection(folder: str) -> str:
        container.start(
            MULTIFOLD_FOLDER="/folder",
            MULTIFOLD_DATA="/data/demo",
            HOST_FOLDER=folder,
            OWN=str(tmp_path / "own"),
        )
        return container.calls()[0].removeprefix("serve in ")

    first, second = collection("/home/ann/models"), collection("/home/ann/photos")
    assert first == str(tmp_path / "own")
    assert second.startswith(f"{first}-")
    assert [collection("/home/ann/models"), collection("/home/ann/photos")] == [first, second]


def test_words_are_run_instead(container: Container) -> None:
    assert container.start("multifold", "index", "stats") == ["index"]
    assert not container.data.exists()


def test_the_password_of_the_database_is_a_secret(tmp_path: Path) -> None:
    (tmp_path / "postgres").write_text("not told to anyone\n")
    told = ["sh", "-c", 'echo "$PGPASSWORD"']
    shown = subprocess.run(
        [str(START), *told],
        env={"PATH": os.environ["PATH"], "SECRETS": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == "not told to anyone\n"
