"""`multifold bench shapes` at a tiny size: worlds, copies, ways, hits and tables."""

import argparse
import json
from pathlib import Path

import numpy as np
import pytest
import trimesh

from benches.shapes import runs, shapes, stages, tables
from benches.shapes.asking import SHARES, Answers, TaskScores, best_share
from benches.shapes.copies import GRID, remesh, turn
from benches.shapes.tables import ShapesRun, shapes_table
from benches.shapes.worlds import FEW_SIDES, KITS, furniture_world, kit_world, names_hidden
from multifold.errors import MultifoldError
from multifold.metrics import ranks
from renderers.mesh.load import load_model
from renderers.points import sample_points
from training.recipes.schema import Recipe

ITEMS = 24


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shapes")


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of kits, each with two models, one of which has the same name in all."""
    folder, lines = tmp_path_factory.mktemp("kits"), []
    for number, kit in enumerate(KITS):
        for name in ("box", f"thing {number}"):
            path = Path("models") / "maker" / kit / "Assets" / f"{name}.stl"
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            trimesh.creation.box((1, 1 + number, 2)).export(folder / path)
            one = {"id": str(path), "kind": "model", "file": str(path), "group": kit, "text": name}
            lines.append(json.dumps({**one, "split": "train"}))
    (folder / "items.jsonl").write_text("\n".join(lines))
    return folder


def test_the_grey_world_has_no_colour_in_meshes_or_captions(cache: Path) -> None:
    world = furniture_world("grey", ITEMS, 0, cache)
    held_out = world.held_out
    assert len(world.train) + len(world.weighed.entries) + len(held_out.entries) == ITEMS
    for entry in held_out.entries:
        assert entry.mesh is not None
        colors = sample_points(load_model(entry.mesh), 200).colors
        assert (colors == colors[0]).all()
        said = {fact.split("=")[0].rpartition(".")[2] for some in entry.meta["captions"] for fact in some}
        assert said.isdisjoint({"colour", "pattern", "material"})
    assert len(held_out.hidden) == sum(len(entry.texts) for entry in held_out.entries)


def test_no_item_is_learned_and_asked_for(cache: Path) -> None:
    world = furniture_world("grey", ITEMS, 0, cache)
    parts = [
        {one.id for one in some} for some in (world.train, world.weighed.entries, world.held_out.entries)
    ]
    assert len(set.union(*parts)) == sum(map(len, parts))
    assert all(parts)


def test_copies_are_turned_about_the_vertical(cache: Path) -> None:
    held_out = furniture_world("grey", ITEMS, 0, cache).held_out
    for entry, copy in zip(held_out.entries, held_out.turned, strict=True):
        assert entry.mesh is not None
        model = load_model(entry.mesh)
        changed = turn(model, entry)
        size = np.ptp(changed.vertices[:, 1]) / np.ptp(model.vertices[:, 1])
        radius, before = (np.hypot(*one.vertices[:, ::2].T) for one in (changed, model))
        assert np.allclose(radius, size * before, rtol=1e-3, atol=1e-3 * size)
        assert copy.id == entry.id
        assert copy.mesh != entry.mesh


def test_a_turned_copy_is_not_sampled_at_the_same_points(cache: Path) -> None:
    entry = furniture_world("grey", ITEMS, 0, cache).held_out.entries[0]
    assert entry.mesh is not None
    model = load_model(entry.mesh)
    heights = [sample_points(one, 64).positions[:, 1] for one in (model, turn(model, entry))]
    before, after = (one / np.ptp(one) for one in heights)
    assert not np.allclose(before, after, atol=1e-3)


def test_a_copy_meshed_anew_has_the_same_surface_and_other_faces(cache: Path) -> None:
    held_out = furniture_world("coloured", ITEMS, 0, cache).held_out
    for entry, copy in zip(held_out.entries, held_out.remeshed, strict=True):
        assert entry.mesh is not None
        assert copy.mesh is not None
        model, other = load_model(entry.mesh), load_model(copy.mesh)
        assert 2 * len(model.faces) < len(other.faces) <= 4 * len(model.faces)
        assert np.allclose(np.ptp(other.vertices, axis=0), np.ptp(model.vertices, axis=0), atol=4 * GRID)
        before, after = (sample_points(one, 4000).colors.mean(axis=0) for one in (model, other))
        assert np.allclose(before, after, atol=8)
    changed = remesh(model, entry)
    assert np.allclose(np.linalg.norm(changed.normals, axis=2), 1, atol=1e-5)
    assert np.allclose(changed.vertices / GRID, np.round(changed.vertices / GRID))


def test_a_caption_is_hidden_by_its_rarest_fact(cache: Path) -> None:
    entry = furniture_world("grey", ITEMS, 0, cache).held_out.entries[0]
    hidden_texts = names_hidden(entry, len(entry.texts))
    for hidden, facts in zip(hidden_texts, entry.meta["captions"], strict=True):
        sides = [len(entry.meta["facts"].get(fact, "everywhere")) for fact in facts]
        assert hidden == (min(sides, default=5) <= FEW_SIDES)


def test_a_seed_asks_for_a_kit_that_it_has_not_learned(kits: Path, cache: Path) -> None:
    for seed, kit in enumerate(KITS):
        world = kit_world(kits, seed, cache)
        learned = {entry.meta["kit"] for entry in (*world.train, *world.weighed.entries)}
        assert learned == set(KITS) - {kit}
        assert {entry.meta["kit"] for entry in world.held_out.entries} == {kit}
        assert world.held_out.keys == ["box", f"thing {seed}"]
        assert not world.held_out.hidden.any()
    with pytest.raises(MultifoldError, match="needs --data"):
        kit_world(None, 0, cache)


def test_every_way_learns_what_it_is_asked_by() -> None:
    last = {way: stages.stage_recipe(some[-1].changes, 0, 10) for way, some in stages.STAGES.items()}
    assert set(last) == set(shapes.WAYS)
    assert [way for way, one in last.items() if one.points] == ["points", "views + points"]
    assert [way for way, one in last.items() if not one.loss.sees] == ["points"]
    for some in stages.STAGES.values():
        assert sum(stage.share for stage in some) == pytest.approx(1)


def task(legs: int = 2) -> TaskScores:
    """Each leg knows half of the items."""
    rng = np.random.default_rng(0)
    relevant = np.eye(40, dtype=bool)
    scores = [rng.normal(size=(40, 40)).astype(np.float32) for _ in range(legs)]
    for place, leg in enumerate(scores):
        leg[relevant] += np.where(np.arange(40) % 2 == place, 6, 0)
    return TaskScores(scores, np.arange(40), relevant)


def test_the_share_of_the_points_is_fitted() -> None:
    both = task()
    share = best_share(both)
    assert 0 < share < 1
    found = {one: float((1 / both.ranks(one)).mean()) for one in SHARES}
    assert found[share] == pytest.approx(max(found.values()))
    blind = TaskScores([both.legs[0], np.zeros_like(both.legs[0])], both.owners, both.relevant)
    assert best_share(blind) < 1
    plain = ranks(0.5 * both.legs[0] + 0.5 * both.legs[1], both.relevant)
    assert np.array_equal(both.ranks(0.5), plain)
    assert np.array_equal(task(1).ranks(0.7), ranks(task(1).legs[0], both.relevant))


def made_run(way: str, seed: int, found: list[float], legs: dict[str, list[float]]) -> ShapesRun:
    def answers(hits: list[float]) -> Answers:
        return Answers(
            {"text → shape": {"R@1": hits, "R@10": [1.0] * len(hits)}}, {"text → shape": [0, 1, 2]}, {}
        )

    return ShapesRun(
        "grey", way, seed, [5], 1.0, {"": answers(found), **{k: answers(v) for k, v in legs.items()}}
    )


def test_leads_are_paired_by_seed() -> None:
    both = {"by views": [1.0, 0.0, 0.0], "by points": [1.0, 1.0, 0.0]}
    some = [made_run("views", 0, [1.0, 0.0, 0.0], {}), made_run("views + points", 0, [1.0, 1.0, 1.0], both)]
    table = shapes_table("grey", [*some, made_run("views + points", 1, [0.0, 0.0, 0.0], both)])
    assert "| views | 1 | 5 | 1 | 33.3 | 100.0 |" in table
    assert "| views + points | 2 | 5 | 1 | 50.0 | 100.0 |" in table
    assert "| … by points |  |  |  | 66.7 | 100.0 |" in table
    assert "| views + points over views | +66.7 [" in table
    assert "| views + points over its better leg | -16.7 [" in table


@pytest.mark.slow
def test_it_runs_resumes_and_tells(
    cache: Path,
    kits: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plain = stages.stage_recipe

    def small(changes: list[str], seed: int, steps: int, start: Path | None = None) -> Recipe:
        few = ("train.items=4", "points.points=64", "points.groups=6", "train.groups=3")
        return plain([*changes, *few], seed, steps, start)

    monkeypatch.setattr(stages, "stage_recipe", small)
    monkeypatch.setattr(stages, "TRIED", 1)
    parser = argparse.ArgumentParser()
    shapes.add_arguments(parser)
    words = ["--items", str(ITEMS), "--seconds", "0.01", "--seeds", "0", "--worlds", "grey", "kits"]
    args = parser.parse_args([*words, "--out", str(tmp_path), "--cache", str(cache), "--data", str(kits)])
    assert shapes.run(args) == 0
    table = capsys.readouterr().out
    for way in shapes.WAYS:
        assert table.count(f"| {way} | 1 |") == 2
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    results = runs.read_runs(tmp_path / "results.jsonl")
    assert len(results) == 2 * len(shapes.WAYS)
    for one in results:
        assert set(one.answers) == ({"", "by views", "by points"} if "+" in one.way else {""})
        for answers in one.answers.values():
            assert ("picture → shape" in answers.hits) == (one.way != "points")
            for name, hits in answers.hits.items():
                assert len(hits["R@1"]) == len(answers.items[name])
                assert np.mean(hits["R@10"]) >= np.mean(hits["R@1"])
    assert shapes.run(args) == 0
    assert (tmp_path / "results.jsonl").read_text().splitlines() == lines
    assert tables.shapes_table("coloured", []) == "\n### coloured: no run\n"
