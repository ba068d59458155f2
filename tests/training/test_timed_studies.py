"""Studies at equal time on somebody's own items: steps of one length, choices on val, the report on test."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from benches.learning import kits, timed_runs
from benches.learning.ablation import TIMED, timed_study
from benches.learning.timed_runs import TimedStudy, timed_tables
from multifold import manifest
from multifold.cli import main
from multifold.manifest import ManifestEntry
from tests.training import small
from training.evaluate.ablation import AblationRun, measure_of, read_runs
from training.recipes.library import to_toml
from training.recipes.schema import Recipe

RUNS = ["one caption", "one caption, even", "sigmoid", "sigmoid, even"]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Coloured pictures with captions, tiny towers and steps of eight; the command that studies them."""
    entries = []
    for number in range(24):
        path = tmp_path / f"{number}.png"
        Image.new("RGB", (40, 40), (10 * number, 255 - 10 * number, 90)).save(path)
        split = ("train", "train", "val", "test")[number % 4]
        texts = (f"shade {number}", f"number {number} of a scale", f"a tint, {number}")
        entries.append(ManifestEntry(f"{split} {number}", images=(path,), texts=texts, split=split))
    manifest.write(tmp_path / "flickr8k.jsonl", entries)
    (tmp_path / "tiny.toml").write_text(to_toml(small.recipe()), encoding="utf-8")
    plan = timed_study("captions")
    plan["base"]["train"]["items"] = 8
    monkeypatch.setattr(timed_runs, "timed_study", lambda _: plan)
    named = {"manifest": "flickr8k.jsonl", "recipe": "tiny.toml", "out": "out", "cache": "cache"}
    places = [part for name, file in named.items() for part in (f"--{name}", str(tmp_path / file))]
    seeds = ["--seeds", "0", "1", "--seconds", "0.05"]
    return ["bench", "ablation", "--study", "captions", *places, *seeds, "--runs", *RUNS]


def test_one_command_studies_a_manifest(
    world: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[tuple[int, str, set[str]]] = []
    train = TimedStudy.train

    def recorded(study: TimedStudy, recipe: Recipe, entries: Sequence[ManifestEntry], views: Any) -> Any:  # noqa: ANN401
        made.append((recipe.train.seed, recipe.loss.name, {entry.id.split()[0] for entry in entries}))
        return train(study, recipe, entries, views)

    monkeypatch.setattr(TimedStudy, "train", recorded)
    assert main(world) == 0
    told = capsys.readouterr().out
    chosen, reported = made[:13], made[13:]
    assert {(seed, *splits) for seed, _, splits in chosen} == {(100, "val")}
    assert {(seed, *splits) for seed, _, splits in reported} == {(0, "test"), (1, "test")}
    assert len(reported) == len(RUNS) * 2
    table = [line for line in told.splitlines() if line.startswith("|")]
    assert [line.split(" | ")[0].strip("| ") for line in table if "| 2 |" in line] == [
        *("one caption", "sigmoid", "one caption, even", "sigmoid, even"),
        *("sigmoid", "sigmoid, even"),  # their leads
    ]
    found = read_runs(tmp_path / "out" / "results.jsonl")
    assert {run.study for run in found} == {"captions of flickr8k"}
    assert all(len(run.hits["text_to_shape"]["R@10"]) == 6 for run in found)
    assert all("text_to_image" not in run.hits for run in found)
    made.clear()
    assert main(world) == 0
    assert made == []  # what is there is not made again


def test_steps_take_equal_time_and_the_best_of_val_is_taken(world: list[str], tmp_path: Path) -> None:
    assert main(world) == 0
    told = json.loads((tmp_path / "out" / "steps.json").read_text(encoding="utf-8"))
    for name, steps in told["steps"].items():
        assert steps == max(1, round(0.05 / told["costs"][name]))
    lines = (tmp_path / "out" / "choices.jsonl").read_text(encoding="utf-8").splitlines()
    scores = [one["measure"] for one in map(json.loads, lines) if one["run"] == "one caption"]
    changes = [one["changes"] for one in map(json.loads, lines) if one["run"] == "one caption"]
    study = TimedStudy.__new__(TimedStudy)
    study.plan, study.names, study.out = timed_study("captions"), RUNS, tmp_path / "out"
    taken = study.choices(told["steps"])
    assert taken["one caption"] == [changes[scores.index(max(scores))]]
    assert taken["one caption, even"][0] == taken["one caption"][0]


def test_another_time_needs_another_folder(world: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(world) == 0
    assert main([*world, "--seconds", "0.1"]) == 2
    assert "is of captions of flickr8k, runs of 0.05 s; name another --out" in capsys.readouterr().err


@pytest.mark.parametrize("study", TIMED)
def test_without_a_manifest_the_world_is_furniture(study: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the recipe names a manifest of its own."""
    seen: list[Recipe] = []
    monkeypatch.setattr(timed_runs, "load_study", lambda recipe, _: seen.append(recipe))
    args = argparse.Namespace(manifest=None, recipe=None, seconds=None, seeds=None, runs=None)
    args.out = args.cache = Path()
    assert TimedStudy(study, args).name == study
    (recipe,) = seen
    assert recipe.data.manifest is None
    assert recipe.data.furniture_items == timed_study(study)["base"]["data"]["furniture_items"]


def run_of(name: str, seed: int, hits: Mapping[str, list[float]]) -> AblationRun:
    ways = dict.fromkeys(("text_to_shape", "shape_to_text"), hits)
    return AblationRun("captions", name, seed, 10, 1440, 60.0, ways)


def test_seeds_count_once_all_runs_of_an_addition_ended() -> None:
    names = [*RUNS, "MFH, hard term"]
    hits = {"R@1": [0.0, 1.0], "R@10": [0.5, 1.0]}
    assert measure_of(run_of("x", 0, hits).hits) == pytest.approx([0.25, 1.0])
    runs = [run_of(name, seed, hits) for seed in (0, 1) for name in names]
    runs = [run for run in runs if (run.name, run.seed) != ("MFH, hard term", 1)]
    rows = [
        line
        for line in timed_tables(timed_study("captions"), runs, names, [0, 1]).splitlines()
        if line.startswith("|")
    ]
    counts = {line.split(" | ")[0].strip("| "): line.split(" | ")[1] for line in rows[2:7]}
    assert counts == {
        "one caption": "1",
        "sigmoid": "1",
        "MFH, hard term": "1",
        "one caption, even": "2",
        "sigmoid, even": "2",
    }
    assert timed_tables(timed_study("captions"), [], names, [0, 1]) == "no seed has all of its runs yet"


def test_every_loss_of_the_controls_is_there() -> None:
    """All captions under four losses beside one caption, each plain, even and with a teacher."""
    plan = timed_study("captions")
    losses = {name: run["loss"]["name"] for name, run in plan["runs"].items()}
    bare = {losses[name] for name in losses if "," not in name.replace("MFH, hard term", "MFH")}
    assert bare == {"infonce_mask", "sigmoid", "hard"}
    assert len(losses) == 15
    ended = [[name for name in losses if name.endswith(end)] for end in (", even", ", teacher")]
    assert [len(some) for some in ended] == [5, 5]
    assert all(plan["runs"][name]["like"] == name.rsplit(", ", 1)[0] for some in ended for name in some)
    assert plan["protocol"]["choosing"] not in plan["protocol"]["seeds"]


def test_kits_have_an_item_for_each_object(tmp_path: Path) -> None:
    picture = {"kind": "image", "text": "door open", "group": "Castle Kit (1.0)", "split": "test"}
    lines = [
        {**picture, "id": f"i{side}", "file": f"images/x/kit/door_{side}.png", "object": "kit/door"}
        for side in ("NE", "SW")
    ]
    mesh = {"kind": "model", "id": "m", "text": "well", "group": "City-Bits-1.0", "split": "train"}
    lines.append({**mesh, "file": "models/x/bits/Assets/gltf/stone_ruins/well.gltf"})
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    door, well = kits.kit_entries(tmp_path)
    assert (door.id, len(door.images), door.mesh, door.split) == ("kit/door", 2, None, "test")
    assert door.texts == (
        "door open",
        "door open, castle kit",
        "castle kit door open",
        "castle, door, kit, open",
    )
    assert well.mesh == tmp_path / "models/x/bits/Assets/gltf/stone_ruins/well.gltf"
    assert well.texts == (
        "well",
        "well, city bits",
        "stone ruins well",
        "bits, city, ruins, stone, well",
    )


@pytest.mark.parametrize("study", TIMED)
def test_endings_name_the_runs_that_are_compared(study: str) -> None:
    plan = timed_study(study)
    first, endings = plan["protocol"]["first"], plan["protocol"]["endings"]
    assert endings[0] == ""
    assert {first + ending for ending in endings} <= set(plan["runs"])
    assert all(about.get("like", name) in plan["runs"] for name, about in plan["runs"].items())
    assert all(("choosing" in plan["protocol"]) >= ("choose" in about) for about in plan["runs"].values())


def test_a_run_may_have_a_time_of_its_own(
    world: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The towers are those of the plan, and long runs have as many steps as their own time takes."""
    plan = timed_study("towers")
    plan["base"] = {"train": {"items": 8}, "validation": {"every": 0, "items": 600}}
    runs = {"today": {}, "bag": {"text": {"depth": 0}}, "today, 60 s": {"seconds": 0.2}}
    plan["runs"] = {**runs, "bag, 60 s": {"seconds": 0.2, "text": {"depth": 0}}}
    monkeypatch.setattr(timed_runs, "timed_study", lambda _: plan)
    words = world[: world.index("--runs")]
    words[words.index("captions")] = "towers"
    assert main(words) == 0
    told = json.loads((tmp_path / "out" / "steps.json").read_text(encoding="utf-8"))
    for name, steps in told["steps"].items():
        assert steps == max(1, round((0.2 if "60" in name else 0.05) / told["costs"][name]))
    assert not (tmp_path / "out" / "choices.jsonl").exists()
    found = read_runs(tmp_path / "out" / "results.jsonl")
    assert {run.name for run in found} == set(plan["runs"])
    assert set(found[0].hits["text_to_shape"]) == {"R@1", "R@5", "R@10"}
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert [row.split(" | ")[0].strip("| ") for row in rows[2:6]] == [
        "today",
        "bag",
        "today, 60 s",
        "bag, 60 s",
    ]
    leads = rows[8:]
    assert [row.split(" | ")[0].strip("| ") for row in leads] == ["bag", "bag, 60 s"]
