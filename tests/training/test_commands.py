"""Without the libraries of training, the commands print their help and name the extra to install."""

import subprocess
import sys

import pytest

from multifold.types import STEPS_TO_ROOT
from training import improvement
from training.commands import eval as evaluation
from training.commands import export, improve, traverse
from training.evaluate import protocols
from training.export import variants

TRAINING = "torch torchvision open_clip timm onnx onnxscript pydantic regex"
EVERYTHING = f"{TRAINING} trimesh faiss onnxruntime numba fastapi sqlalchemy scipy selenium"
SCRIPT = """
import sys
from importlib.abc import MetaPathFinder

class MissingLibraries(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in sys.argv[1].split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, MissingLibraries())
from multifold.cli import main

commands = sys.argv[2:]
for command in commands:
    try:
        status = main(command.split())
    except SystemExit as stopped:  # argparse, after --help
        status = stopped.code
    print("status", status, file=sys.stderr if status else sys.stdout)
"""


def run_without(libraries: str, *commands: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", SCRIPT, libraries, *commands]
    return subprocess.run(words, capture_output=True, text=True, check=True)


def test_every_help_needs_no_library() -> None:
    names = [
        "train",
        "export",
        "improve",
        "eval",
        "equip",
        "traverse",
        "explain",
        "features",
        "data",
        "bench",
    ]
    commands = [f"{name} --help" for name in (*names, "data furniture", "data folder", "data text2shape")]
    answer = run_without(EVERYTHING, *commands)
    assert answer.stderr == ""
    assert answer.stdout.count("usage: multifold") == answer.stdout.count("status 0") == len(commands)


@pytest.mark.parametrize("command", ["train demo", "train --list", "export a b", "improve default --to new"])
def test_a_missing_extra_is_named_in_one_line(command: str) -> None:
    answer = run_without(TRAINING, command)
    line, status = answer.stderr.splitlines()
    assert line.endswith("pip install 'multifold[train]', or pip install -e '.[train]' in a checkout.")
    assert status == "status 2"


def test_choices_and_defaults_are_those_of_the_modules() -> None:
    assert export.VARIANTS == variants.VARIANTS
    assert improve.MIX == improvement.MIX
    assert traverse.STEPS == STEPS_TO_ROOT
    assert tuple(protocols.PROTOCOLS) == evaluation.PROTOCOLS
