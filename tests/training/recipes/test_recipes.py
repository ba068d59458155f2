"""The published recipes: as the papers' tables have them, and each takes a step when it is made small."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.towers import kinds as towers
from training.batches import TrainingBatch
from training.objective import Objective
from training.recipes import library
from training.recipes.schema import Recipe, RecipeError, parse_recipe, with_steps_for
from training.towers import build_model, point_spec

pytestmark = pytest.mark.usefixtures("tiny_models")

TABLES = {  # MXM-CLR's: items a step (six views each, or one), rate, decay
    "mxm-shape": {"rn101": (70, 1e-5, 0.01), "vit-b32": (70, 1e-6, 0.04), "vit-b16": (70, 1e-6, 0.04)},
    "mxm-image": {"rn101": (70, 1e-5, 0.01), "vit-b32": (70, 1e-6, 0.04), "vit-b16": (70, 1e-6, 0.04)},
    "mxm-aggtext": {"rn101": (40, 1e-5, 0.01), "vit-b32": (40, 1e-6, 0.04), "vit-b16": (40, 1e-6, 0.04)},
    "mxm-flickr30k": {"rn101": (80, 1e-5, 0.01), "vit-b32": (80, 1e-6, 0.01), "vit-b16": (80, 1e-6, 0.01)},
}
PAIRS = {  # its baselines': images and texts a step, and the pairs of the training split
    "xm-shape": (600, 100, 59_777),
    "xm-image": (420, 420, 6 * 59_777),
    "xm-aggtext": (256, 1280, 6 * 11_921),
    "xm-flickr30k": (400, 400, 5 * 29_000),
}
IMAGES: dict[str, dict[str, Any]] = {
    "small": towers.SMALL_IMAGE,
    "openclip": towers.VIT_IMAGE,
    "resnet": towers.RESNET_IMAGE,
}
TEXTS: dict[str, dict[str, Any]] = {
    "small": towers.SMALL_TEXT,
    "openclip": towers.VIT_TEXT,
    "bert": towers.BERT,
}
WAYS = {"mxm-shape": "agg_image", "mxm-aggtext": "agg_text", "mxm-image": "text_image"}


def toy(recipe: Recipe) -> Recipe:
    """The same recipe with towers that fit into a test."""
    raw: dict[str, Any] = recipe.model_dump()
    raw["geometry"]["dim"] = towers.DIM
    if "frequencies" in raw["geometry"]["params"]:
        raw["geometry"]["params"]["frequencies"] = 8
    image = "resnet" if "RN" in raw["image"].get("model", "") else raw["image"]["kind"]
    for side, tiny in (("image", IMAGES[image]), ("text", TEXTS[raw["text"]["kind"]])):
        raw[side] |= {**tiny, "pretrained": None} if "pretrained" in raw[side] else tiny
    for side in ("image", "text"):
        if isinstance(raw[side]["trainable"], int):
            raw[side]["trainable"] = 1
    return parse_recipe(raw, recipe.name)


OWN = [name for name in library.shipped_names() if library.load_recipe(name).image.kind != "bundle"]


@pytest.mark.parametrize("name", OWN)
def test_it_takes_a_step_when_it_is_small(name: str) -> None:
    recipe = toy(library.load_recipe(name))
    torch.manual_seed(0)
    model = build_model(recipe, towers.VOCABULARY)
    items = torch.tensor([0, 0, 1, 1])
    assert recipe.image.kind != "bundle"
    batch = TrainingBatch(towers.pixels(recipe.image.size), items, towers.tokens(), items)
    if recipe.points is not None:
        spec = point_spec(recipe.points)
        points = 2 * torch.rand(2, spec.groups, spec.neighbours, spec.columns)
        batch = replace(batch, points=points, point_items=torch.tensor([0, 1]))
    loss = Objective(recipe, model)(model, batch, 0.5)
    loss.backward()
    assert torch.isfinite(loss)
    slopes = [p.grad.abs().max() for p in model.image.parameters() if p.grad is not None]
    assert slopes
    assert all(torch.isfinite(slope) for slope in slopes)
    assert max(slopes) > 0


@pytest.mark.parametrize(
    ("task", "encoder"), [(task, encoder) for task in TABLES for encoder in TABLES[task]]
)
def test_mxm_clr_is_as_its_tables_say(task: str, encoder: str) -> None:
    recipe = library.load_recipe(f"{task}-{encoder}")
    train, flickr = recipe.train, task == "mxm-flickr30k"
    assert (train.items, train.rate, train.weight_decay) == TABLES[task][encoder]
    assert (train.views, train.captions) == (1 if flickr else 6, 5)
    assert (train.optimizer, train.betas, train.eps) == ("adam", (0.9, 0.999), 1e-4)
    assert (train.epochs, train.seed, train.warmup) == (10, 2022, 0)
    assert recipe.geometry.params == {"scale": pytest.approx(1 / 0.03), "scale_learned": 0}
    assert (recipe.loss.name, recipe.loss.params) == ("mfh", {"alpha": 0.6, "draws": 10})
    ways = {way: getattr(recipe.loss, way) for way in ("text_image", "agg_image", "agg_text", "agg_both")}
    assert ways == {way: float(way == WAYS.get(task, "text_image")) for way in ways}
    image = recipe.model_dump()["image"]
    assert image["model"].lower() == f"{encoder.replace('-b', '-b-')}-quickgelu"
    assert image["still"] == (encoder == "rn101")
    assert recipe.model_dump()["text"]["model"] == image["model"]
    items = 29_000 if flickr else 11_921
    assert with_steps_for(recipe, items).train.steps // 10 == pytest.approx(recipe.validation.every, abs=1)


@pytest.mark.parametrize("encoder", ["rn101", "vit-b32", "vit-b16"])
@pytest.mark.parametrize("task", PAIRS)
def test_baselines_take_as_many_pairs_as_the_tables_say(task: str, encoder: str) -> None:
    images, texts, pairs = PAIRS[task]
    recipe, whole = (library.load_recipe(f"{name}-{encoder}") for name in (task, f"m{task}"))
    train = recipe.train
    assert train.pairs
    assert (train.items * train.views, train.items * train.captions) == (images, texts)
    assert recipe.loss.name == "infonce_mask"
    assert with_steps_for(recipe, pairs).train.steps // 10 == pytest.approx(recipe.validation.every, abs=1)
    assert (recipe.image, recipe.text) == (whole.image, whole.text)
    seen = with_steps_for(recipe, pairs).train.steps * images
    group = whole.train.items * whole.train.views
    items = 29_000 if "flickr" in task else 11_921
    assert seen == pytest.approx(with_steps_for(whole, items).train.steps * group, rel=0.01)
    assert (train.rate, train.weight_decay) == (whole.train.rate, whole.train.weight_decay)


def test_names_are_files_and_of_one_kind() -> None:
    for name in library.shipped_names():
        assert library.load_recipe(name).name == {"demo": "furniture"}.get(name, name)


def test_nothing_is_written_beyond_a_line() -> None:
    for path in Path(library.SHIPPED).glob("*.toml"):
        assert max(map(len, path.read_text(encoding="utf-8").splitlines())) <= 110, path


def test_keys_of_earlier_runs_are_left_out_where_they_did_nothing() -> None:
    raw = library.load_recipe("points").model_dump()
    loss = {**raw["loss"], "memory": 0, "normalised": False}
    teacher = {**raw["teacher"], "buffers": "copy", "mode": "eval"}
    data = {**raw["data"], "furniture_unsaid": []}
    former = {**raw, "together": {"blocks": 0, "heads": 4, "last": 0}}
    former |= {"loss": loss, "teacher": teacher, "data": data}
    assert parse_recipe(former, "former") == parse_recipe(raw, "now")
    for section, key, value in (
        ("together", "blocks", 2),
        ("loss", "memory", 8),
        ("teacher", "mode", "train"),
    ):
        with pytest.raises(RecipeError, match=rf"former: nothing reads {section}\.{key} any more: train"):
            parse_recipe({**former, section: {**former[section], key: value}}, "former")
