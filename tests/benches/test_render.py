"""The benchmark of the engines: its meshes, one turn, and the table."""

import argparse
import math
from pathlib import Path

import pytest

from benches.render import render
from benches.render.meshes import write_meshes
from renderers.mesh.load import load_model


@pytest.fixture(scope="module")
def meshes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_meshes(tmp_path_factory.mktemp("meshes"), texture_side=32)


def test_the_meshes_are_what_their_names_say(meshes: dict[str, Path]) -> None:
    models = {name: load_model(path) for name, path in meshes.items()}
    for name, model in models.items():
        thousands = next(int(word[:-1]) for word in name.split() if word[:-1].isdigit())
        assert len(model.faces) == pytest.approx(1000 * thousands, rel=0.1)
        assert not model.notes
    helmet = models["helmet, five maps, 15k faces"].materials[0]
    assert None not in (helmet.base_texture, helmet.normal_texture, helmet.emissive_texture)
    assert len(models["truck, four materials, 3k faces"].materials) == 4
    assert models["glass sphere, 20k faces"].materials[0].alpha_mode == "BLEND"


def test_one_turn_measures_loading_and_drawing(meshes: dict[str, Path]) -> None:
    ((load, draw),) = render.time_engine("numba", [meshes["helmet, five maps, 15k faces"]], "ring2", 224, 1)
    assert load > 0
    assert draw > 0


def test_the_table_has_means_ratios_and_a_projection() -> None:
    found = {"numba": {"a": (0.5, 0.1), "b": (1.0, 0.4)}, "osmesa": {"a": (0.5, 0.4), "b": (1.0, 0.4)}}
    table = render.report(found, argparse.Namespace(rig="ring2", size=224, rounds=1))
    assert f"| **geometric mean** | {math.sqrt(20 * 5):.1f} | {math.sqrt(5 * 5):.1f} |" in table
    assert "| × osmesa | 2.00 | 1.00 |" in table
    assert "| × at worst | 1.00 | 1.00 |" in table
    assert "the 89,394 views of Text2Shape" in table
