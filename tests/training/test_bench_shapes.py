"""`multifold bench shapes` at a tiny size: worlds, ways, hits and tables."""

import argparse
import json
from pathlib import Path

import numpy as np
import pytest

from benches.shapes import runs, shapes
from benches.shapes.worlds import FEW_SIDES, make_world, names_hidden, turn
from renderers.mesh.load import load_model
from renderers.points import sample_points
from tests.training import small
from training import prepare
from training.recipes.schema import Recipe
from training.retrieval.encoder import TorchEncoder
from training.towers import build_model

ITEMS = 24


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shapes")


def test_the_grey_world_has_no_colour_in_meshes_or_captions(cache: Path) -> None:
    world = make_world("grey", ITEMS, cache)
    assert len(world.train) + len(world.held_out) == ITEMS
    for entry in world.held_out:
        assert entry.mesh is not None
        colors = sample_points(load_model(entry.mesh), 200).colors
        assert (colors == colors[0]).all()
        said = {fact.split("=")[0].rpartition(".")[2] for some in entry.meta["captions"] for fact in some}
        assert said.isdisjoint({"colour", "pattern", "material"})
    assert len(world.hidden) == sum(len(entry.texts) for entry in world.held_out)


def test_copies_are_turned_about_the_vertical(cache: Path) -> None:
    world = make_world("grey", ITEMS, cache)
    for entry, copy in zip(world.held_out, world.turned, strict=True):
        assert entry.mesh is not None
        model = load_model(entry.mesh)
        changed = turn(model, entry)
        size = np.ptp(changed.vertices[:, 1]) / np.ptp(model.vertices[:, 1])
        radius, before = (np.hypot(*one.vertices[:, ::2].T) for one in (changed, model))
        assert np.allclose(radius, size * before, rtol=1e-3, atol=1e-3 * size)
        assert copy.id == entry.id
        assert copy.mesh != entry.mesh


def test_a_caption_is_hidden_by_its_rarest_fact(cache: Path) -> None:
    world = make_world("grey", ITEMS, cache)
    entry = world.held_out[0]
    for hidden, facts in zip(names_hidden(entry), entry.meta["captions"], strict=True):
        sides = [len(entry.meta["facts"].get(fact, "everywhere")) for fact in facts]
        assert hidden == (min(sides, default=5) <= FEW_SIDES)


def test_every_way_learns_what_it_is_asked_by() -> None:
    seen = {way: runs.way_recipe(way, 0, 10) for way in shapes.WAYS}
    assert [way for way, one in seen.items() if one.loss.sees] == [
        way for way in shapes.WAYS if way != "points"
    ]
    assert [way for way, one in seen.items() if one.points is not None] == ["points", "views + points"]
    assert [way for way, one in seen.items() if one.together.on] == [
        "views, set encoder",
        "views, last block",
    ]


def test_scores_of_legs_are_standardised_and_added() -> None:
    wanted, (_, captions) = small.recipe(), small.pictures()
    encoder = TorchEncoder(build_model(wanted, 300), prepare.reader(wanted, small.tokenizer(captions)))
    rng = np.random.default_rng(0)
    legs = [rng.normal(size=(3, 16)).astype(np.float32) for _ in range(2)]
    total = runs.summed_scores(encoder, legs, legs)
    units = [leg / np.linalg.norm(leg, axis=1, keepdims=True) for leg in legs]
    plain = [unit @ unit.T for unit in units]
    wanted = sum((one - one.mean(1, keepdims=True)) / one.std(1, keepdims=True) for one in plain)
    assert np.allclose(total, wanted, atol=1e-4)


def test_it_runs_resumes_and_tells(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = runs.way_recipe

    def small(way: str, seed: int, steps: int) -> Recipe:
        recipe = plain(way, seed, steps)
        train = recipe.train.model_copy(update={"items": 6})
        return recipe.model_copy(update={"train": train})

    monkeypatch.setattr(runs, "way_recipe", small)
    parser = argparse.ArgumentParser()
    shapes.add_arguments(parser)
    words = ["--items", str(ITEMS), "--seconds", "0.1", "--seeds", "0", "--worlds", "grey"]
    args = parser.parse_args([*words, "--out", str(tmp_path), "--cache", str(cache)])
    assert shapes.run(args) == 0
    table = capsys.readouterr().out
    for way in shapes.WAYS:
        assert f"| {way} | 1 |" in table
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    assert len(lines) == len(shapes.WAYS)
    for line in lines:
        one = json.loads(line)
        assert set(one["hits"]) == set(runs.TASKS)
        for task, hits in one["hits"].items():
            assert len(hits["R@1"]) == len(one["items"][task])
            assert np.mean(hits["R@10"]) >= np.mean(hits["R@1"])
    assert shapes.run(args) == 0
    assert (tmp_path / "results.jsonl").read_text().splitlines() == lines
