"""Training with points: their tower, PointBERT in its published layout, one group with views and captions."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import trimesh
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from multifold.bundle.point_groups import PointSpec, group_points
from multifold.manifest import ManifestEntry
from renderers.mesh.load import load_model
from renderers.points import sample_points
from tests.training import small
from training import loop, prepare, sides
from training.batches import BatchStream, TrainingItems
from training.checkpoint import load_checkpoint
from training.data.points import PointsError, load_points, spun_points
from training.objective import BatchComparison, Objective
from training.recipes.library import load_recipe
from training.recipes.schema import PointBertSection, Recipe, RecipeError, SmallPointsSection, parse_recipe
from training.retrieval.encoder import TorchEncoder
from training.sides import BatchFeatures, SideFeatures
from training.towers import build_model, point_spec
from training.towers.base import TowerError
from training.towers.pointbert import PointBertTower, load_published, published_weights
from training.towers.tokenizers import TrainedTokenizer
from training.validation import ValidationSet

POINTS = {"points": 64, "groups": 6, "neighbours": 8, "stem": [16], "width": 32, "depth": 1, "heads": 2}
ALONE = {"name": "mfh_even", "agg_image": 0.0, "text_points": 1.0}
GROUP = {"name": "mfh_even", "agg_image": 0.0, "text_image": 1.0, "text_points": 1.0, "image_points": 0.5}


def recipe(loss: Mapping[str, Any], points: Mapping[str, Any] | None = None, **train: object) -> Recipe:
    raw = small.recipe(**train).model_dump(exclude_none=True)
    return parse_recipe({**raw, "points": points or POINTS, "loss": dict(loss)}, "points")


def shapes(count: int, seed: int = 0) -> Float[np.ndarray, "i n 9"]:
    """Clouds that differ in colour and in form: boxes of a few proportions."""
    rows = np.random.default_rng(seed).uniform(-1, 1, (count, 64, 9)).astype(np.float32)
    for item in range(count):
        rows[item, :, item % 3] *= 0.2
        rows[item, :, 6:] = np.array([item // 8, item // 4 % 2, item % 4 / 3], np.float32)
    rows[..., :3] /= np.linalg.norm(rows[..., :3], axis=2).max(axis=1)[:, None, None]
    return rows


def grouped(count: int, spec: PointSpec) -> Float[np.ndarray, "i g k c"]:
    return np.stack([group_points(one, spec) for one in shapes(count)])


def spec() -> PointSpec:
    return point_spec(SmallPointsSection.model_validate(POINTS))


def data(wanted: Recipe) -> tuple[TrainingItems, TrainedTokenizer]:
    items, tokenizer = small.groups(wanted)
    return replace(items, points=grouped(16, spec()), directions=spec().directions), tokenizer


@pytest.mark.parametrize("depth", [0, 2])
def test_the_order_of_points_and_groups_does_not_matter(depth: int) -> None:
    torch.manual_seed(0)
    wanted = recipe(ALONE, {**POINTS, "depth": depth})
    tower = build_model(wanted, 300).eval().points
    assert tower is not None
    groups = torch.from_numpy(grouped(3, spec()))
    with torch.inference_mode():
        features = tower(groups)
        assert features.shape == (3, wanted.geometry.dim)
        assert torch.allclose(features, tower(groups[:, torch.randperm(6)]), atol=1e-5)
        assert torch.allclose(features, tower(groups[:, :, torch.randperm(8)]), atol=1e-5)
        assert not torch.allclose(features, tower(groups * 0.5), atol=1e-2)


def test_a_point_tower_learns_alone(tmp_path: Path) -> None:
    wanted = recipe(ALONE, steps=80, captions=0)
    items, tokenizer = data(wanted)
    model = load_checkpoint(loop.train(wanted, items, tokenizer, tmp_path)).model
    views, captions = small.pictures()
    held_out = ValidationSet(views, captions, prepare.reader(wanted, tokenizer), items.points)
    numbers = held_out.measure(model)
    assert numbers["text_to_shape/R@1"] > 0.8  # by chance 1/16
    assert numbers["shape_to_text/R@1"] > 0.8


def test_views_points_and_captions_learn_as_one_group(tmp_path: Path) -> None:
    wanted = recipe(GROUP, steps=80, captions=0)
    items, tokenizer = data(wanted)
    trained = load_checkpoint(loop.train(wanted, items, tokenizer, tmp_path))
    encoder = TorchEncoder(trained.model, prepare.reader(wanted, tokenizer))
    views, captions = small.pictures()
    assert items.points is not None
    by_points = functional.normalize(torch.from_numpy(encoder.grouped_points(items.points)), dim=1)
    by_views = functional.normalize(torch.from_numpy(encoder.pixels(views[:, 0])), dim=1)
    found = (by_points @ by_views.T).argmax(1)
    assert (found == torch.arange(16)).float().mean() > 0.8
    held_out = ValidationSet(views, captions, encoder.tokenizer, items.points, sees=True, pool="max")
    assert held_out.measure(trained.model)["text_to_shape/R@1"] > 0.8  # by chance 1/16


def test_text_views_and_points_are_compared_two_by_two() -> None:
    wanted = recipe({"name": "tricolo", "pool": "max", "text_points": 1.0, "agg_points": 1.0})
    model = build_model(wanted, 300)
    rng = torch.Generator().manual_seed(0)
    views, texts, points = (torch.randn(count, 16, generator=rng) for count in (6, 4, 2))
    seen = SideFeatures(views, torch.tensor([0, 0, 0, 1, 1, 1]))
    read = SideFeatures(texts, torch.tensor([0, 0, 1, 1]))
    sampled = SideFeatures(points, torch.tensor([0, 1]))
    shapes = SideFeatures(torch.stack([views[:3].amax(0), views[3:].amax(0)]), sampled.items)
    compare = BatchComparison(Objective(wanted, model).loss, model.geometry, wanted, 0.0)
    pairs = [(shapes, read), (sampled, read), (sampled, shapes)]
    total = sum(compare(BatchFeatures(*pair), None) for pair in pairs)
    assert torch.allclose(compare.sum_all(BatchFeatures(seen, read, sampled), None), torch.as_tensor(total))


def test_without_points_a_batch_is_what_it_was() -> None:
    plain, other = small.recipe(), recipe(GROUP)
    bare, _ = small.groups(plain)
    items, _ = data(other)
    for first, second in zip(BatchStream(bare, plain.train), BatchStream(items, plain.train), strict=False):
        assert (first.pixels == second.pixels).all()
        assert (first.tokens == second.tokens).all()
        assert first.points is None
        assert second.points is not None
        assert second.points.shape[0] == plain.train.items
        break


def test_where_no_view_is_compared_none_is_encoded() -> None:
    wanted = recipe(ALONE)
    items, _ = data(wanted)
    model = build_model(wanted, 300)
    batch = next(BatchStream(items, wanted.train))
    Objective(wanted, model)(model, batch, 0.0).backward()
    assert all(parameter.grad is None for parameter in model.image.parameters())
    assert model.points is not None
    assert all(parameter.grad is not None for parameter in model.points.parameters())


def test_chunks_of_points_give_the_same_features() -> None:
    wanted = recipe(GROUP)
    items, _ = data(wanted)
    model = build_model(wanted, 300)
    batch = next(BatchStream(items, wanted.train))
    whole, parts = (sides.encode_batch(model, batch, chunk=chunk).points for chunk in (0, 3))
    assert whole is not None
    assert parts is not None
    assert torch.allclose(whole.features, parts.features, atol=1e-6)


def test_a_point_tower_has_one_token() -> None:
    wanted = recipe(ALONE, {**POINTS, "tokens": 2})
    with pytest.raises(TowerError, match="set tokens = 'class'"):
        build_model(wanted, 300)


def test_an_unknown_key_names_its_neighbour() -> None:
    raw = small.recipe().model_dump(exclude_none=True)
    with pytest.raises(RecipeError, match=r"points\.neighbors; did you mean 'neighbours'"):
        parse_recipe({**raw, "points": {**POINTS, "neighbors": 3}}, "typo")


def test_the_recipe_of_the_repository_builds() -> None:
    wanted = load_recipe("points")
    model = build_model(wanted, 300)
    assert wanted.points is not None
    groups = torch.zeros(2, *grouped_shape(point_spec(wanted.points)))
    assert model.points is not None
    assert model.points(groups).shape == (2, wanted.geometry.dim)


def grouped_shape(wanted: PointSpec) -> tuple[int, int, int]:
    return wanted.groups, wanted.neighbours, wanted.columns


def test_items_are_sampled_once_and_kept(tmp_path: Path) -> None:
    for number in range(3):
        trimesh.creation.box((1, 2, 1 + number)).export(tmp_path / f"{number}.stl")
    entries = [ManifestEntry(str(number), mesh=tmp_path / f"{number}.stl") for number in range(3)]
    found = load_points(entries, spec(), "auto", tmp_path / "cache")
    for entry, groups in zip(entries, found, strict=True):
        assert entry.mesh is not None
        sample = sample_points(load_model(entry.mesh), 64)
        assert np.array_equal(groups, group_points(sample.rows(), spec()))
    kept = next((tmp_path / "cache").glob("points-*.npy"))
    before = kept.stat().st_mtime_ns
    assert np.array_equal(load_points(entries, spec(), "auto", tmp_path / "cache"), found)
    assert kept.stat().st_mtime_ns == before
    load_points(entries, spec(), "y", tmp_path / "cache")
    assert len(list((tmp_path / "cache").glob("points-*.npy"))) == 2


def test_items_without_a_surface_are_named(tmp_path: Path) -> None:
    with pytest.raises(PointsError, match="item seen has no mesh"):
        load_points([ManifestEntry("seen", images=(tmp_path / "a.png",))], spec(), "auto", tmp_path)
    (tmp_path / "bad.glb").write_bytes(b"junk")
    with pytest.raises(PointsError, match=r"bad\.glb: this is not a GLB file"):
        load_points([ManifestEntry("bad", mesh=tmp_path / "bad.glb")], spec(), "auto", tmp_path / "cache")


def test_a_spin_turns_directions_and_leaves_colours() -> None:
    groups = grouped(5, spec())
    turned = spun_points(groups, 3, 180.0, np.random.default_rng(0))
    assert np.array_equal(turned[..., 9:], groups[..., 9:])
    for first in (0, 3, 6):
        old, new = groups[..., first : first + 3], turned[..., first : first + 3]
        assert np.allclose(np.linalg.norm(old, axis=-1), np.linalg.norm(new, axis=-1), atol=1e-5)
        assert np.array_equal(old[..., 1], new[..., 1])
    assert not np.allclose(turned[..., :3], groups[..., :3], atol=1e-2)
    assert np.array_equal(spun_points(groups, 3, 0.0, np.random.default_rng(0)), groups)


# PointBERT as OpenShape publishes it, against the plain computation on the published names.


def published(clip: str, seed: int = 0) -> dict[str, Tensor]:
    """Random weights in the published layout, written from its description."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator) * (shape[1] ** -0.5 if len(shape) > 1 else 0.1)

    inner = "pc_encoder." if clip == "vit-b-32" else "pc_encoder.ppat."
    table: dict[str, Tensor] = {"logit_scale": torch.tensor(1.0), f"{inner}cls_token": random(512)}
    for layer, (wide_in, wide_out) in enumerate(((9, 64), (64, 64), (64, 128))):
        table[f"{inner}sa.mlp_convs.{layer}.weight"] = random(wide_out, wide_in, 1, 1)
        table[f"{inner}sa.mlp_convs.{layer}.bias"] = random(wide_out)
        table[f"{inner}sa.mlp_bns.{layer}.weight"] = 1 + random(wide_out)
        table[f"{inner}sa.mlp_bns.{layer}.bias"] = random(wide_out)
        table[f"{inner}sa.mlp_bns.{layer}.running_mean"] = random(wide_out)
        table[f"{inner}sa.mlp_bns.{layer}.running_var"] = 1 + random(wide_out).abs()
        table[f"{inner}sa.mlp_bns.{layer}.num_batches_tracked"] = torch.tensor(7)
    table |= {f"{inner}lift.0.weight": random(512, 131, 1), f"{inner}lift.0.bias": random(512)}
    table |= {f"{inner}lift.2.weight": 1 + random(512), f"{inner}lift.2.bias": random(512)}
    for block in range(12):
        at = f"{inner}transformer.layers.{block}"
        for part in ("0", "1"):
            table |= {f"{at}.{part}.norm.weight": 1 + random(512), f"{at}.{part}.norm.bias": random(512)}
        table[f"{at}.0.fn.to_qkv.weight"] = random(1536, 512)
        table |= {f"{at}.0.fn.to_out.0.weight": random(512, 512), f"{at}.0.fn.to_out.0.bias": random(512)}
        table |= {f"{at}.1.fn.net.0.weight": random(1024, 512), f"{at}.1.fn.net.0.bias": random(1024)}
        table |= {f"{at}.1.fn.net.3.weight": random(512, 1024), f"{at}.1.fn.net.3.bias": random(512)}
    if clip == "vit-l-14":
        table |= {"pc_encoder.proj.weight": random(768, 512), "pc_encoder.proj.bias": random(768)}
    return table


def plain_pointbert(table: Mapping[str, Tensor], clip: str, points: Float[Tensor, "n 6"]) -> Tensor:
    """One cloud of coordinates and colours through the published network, all steps written out."""
    inner = "pc_encoder." if clip == "vit-b-32" else "pc_encoder.ppat."
    at = {name.removeprefix(inner): weight for name, weight in table.items() if name.startswith(inner)}
    xyz = points[:, :3]
    chosen, distance, farthest = [], torch.full((len(xyz),), 1e10), 0
    for _ in range(64):
        chosen.append(farthest)
        distance = torch.minimum(distance, ((xyz - xyz[farthest]) ** 2).sum(1))
        farthest = int(distance.argmax())
    tokens = []
    for middle in chosen:
        near = (((xyz - xyz[middle]) ** 2).sum(1) <= 0.4**2).nonzero()[:256, 0]
        x = torch.cat([xyz[near] - xyz[middle], points[near]], dim=1)
        for layer in range(3):
            x = x @ at[f"sa.mlp_convs.{layer}.weight"][:, :, 0, 0].T + at[f"sa.mlp_convs.{layer}.bias"]
            mean, var = (at[f"sa.mlp_bns.{layer}.running_{one}"] for one in ("mean", "var"))
            scale, shift = (at[f"sa.mlp_bns.{layer}.{one}"] for one in ("weight", "bias"))
            x = ((x - mean) / (var + 1e-5).sqrt() * scale + shift).relu()
        tokens.append(torch.cat([xyz[middle], x.amax(0)]))
    x = torch.stack(tokens) @ at["lift.0.weight"][:, :, 0].T + at["lift.0.bias"]
    x = functional.layer_norm(x, (512,), at["lift.2.weight"], at["lift.2.bias"])
    x = torch.cat([at["cls_token"][None], x])
    for block in range(12):
        name = f"transformer.layers.{block}"
        y = functional.layer_norm(x, (512,), at[f"{name}.0.norm.weight"], at[f"{name}.0.norm.bias"])
        q, k, v = (y @ at[f"{name}.0.fn.to_qkv.weight"].T).view(65, 3, 8, 64).permute(1, 2, 0, 3)
        mixed = ((q @ k.transpose(1, 2)) / 8).softmax(-1) @ v
        y = mixed.transpose(0, 1).reshape(65, 512)
        x = x + y @ at[f"{name}.0.fn.to_out.0.weight"].T + at[f"{name}.0.fn.to_out.0.bias"]
        y = functional.layer_norm(x, (512,), at[f"{name}.1.norm.weight"], at[f"{name}.1.norm.bias"])
        y = functional.gelu(y @ at[f"{name}.1.fn.net.0.weight"].T + at[f"{name}.1.fn.net.0.bias"])
        x = x + y @ at[f"{name}.1.fn.net.3.weight"].T + at[f"{name}.1.fn.net.3.bias"]
    if clip == "vit-b-32":
        return x[0]
    return x[0] @ table["pc_encoder.proj.weight"].T + table["pc_encoder.proj.bias"]


def pointbert_recipe(clip: str, pretrained: Path | None, dim: int) -> Recipe:
    raw = small.recipe().model_dump(exclude_none=True)
    named = {} if pretrained is None else {"pretrained": str(pretrained)}
    section = {"kind": "pointbert", "clip": clip, **named}
    return parse_recipe({**raw, "points": section, "geometry": {"dim": dim}, "loss": ALONE}, "pointbert")


@pytest.mark.parametrize(("clip", "dim"), [("vit-b-32", 512), ("vit-l-14", 768)])
@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_pointbert_computes_what_is_published(tmp_path: Path, clip: str, dim: int, suffix: str) -> None:
    table, path = published(clip), tmp_path / f"model{suffix}"
    if suffix == ".pt":
        torch.save(table, path)
    else:
        from safetensors.torch import save_file

        save_file(table, path)
    tower = build_model(pointbert_recipe(clip, path, dim), 300).points
    assert isinstance(tower, PointBertTower)
    rows = np.random.default_rng(0).normal(size=(600, 9)).astype(np.float32)
    rows[:, 6:] = np.random.default_rng(1).random((600, 3))
    wanted = PointSpec(**{**vars(point_spec(PointBertSection(clip="vit-b-32"))), "points": 600})
    groups = group_points(rows, wanted)
    places = rows[:, :3] - rows[:, :3].mean(0)
    places /= np.linalg.norm(places, axis=1).max()
    plain = plain_pointbert(table, clip, torch.from_numpy(np.concatenate([places, rows[:, 6:]], 1)))
    with torch.inference_mode():
        found = tower.train()(torch.from_numpy(groups)[None])[0]  # its statistics do not follow a batch
    assert found.shape == (dim,)
    torch.testing.assert_close(found, plain, atol=1e-4, rtol=1e-4)


def test_every_weight_of_pointbert_is_named() -> None:
    for clip, dim in (("vit-b-32", 512), ("vit-l-14", 768)):
        tower = build_model(pointbert_recipe(clip, None, dim), 300).points
        assert isinstance(tower, PointBertTower)
        ours = {name for name in tower.state_dict() if not name.endswith("num_batches_tracked")}
        table = published_weights(tower, clip)
        assert set(table) == ours
        theirs = {weight.name: weight.shape for weight in table.values()}
        counters = ("num_batches_tracked", "logit_scale")
        wanted = {name: tuple(weight.shape) for name, weight in published(clip).items()}
        assert theirs == {name: shape for name, shape in wanted.items() if not name.endswith(counters)}


def test_published_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    table = published("vit-b-32")
    tower = build_model(pointbert_recipe("vit-b-32", None, 512), 300).points
    assert isinstance(tower, PointBertTower)

    def refused(stored: object, said: str) -> None:
        torch.save(stored, path)
        with pytest.raises(TowerError, match=said):
            load_published(tower, path, "vit-b-32")

    lacking = {name: weight for name, weight in table.items() if name != "pc_encoder.lift.0.bias"}
    refused(lacking, r"it lacks pc_encoder\.lift\.0\.bias")
    refused({**table, "pc_encoder.more": torch.zeros(1)}, r"pc_encoder\.more is unknown there")
    refused({**table, "pc_encoder.cls_token": torch.zeros(3)}, r"has the shape \(3,\), and not \(512,\)")
    refused({**table, "pc_encoder.cls_token": torch.full((512,), float("nan"))}, "not finite")
    refused([1, 2], "no table of weights")
    refused({"pc_encoder.cls_token": Path("/")}, "cannot be read as weights")  # an object: never built
    path.write_bytes(b"junk")
    with pytest.raises(TowerError, match="cannot be read as weights"):
        load_published(tower, path, "vit-b-32")
    with pytest.raises(TowerError, match="there is no file"):
        build_model(pointbert_recipe("vit-b-32", tmp_path / "none.pt", 512), 300)
    torch.save(table, path)
    with pytest.raises(TowerError, match=r"it lacks pc_encoder\.ppat"):
        build_model(pointbert_recipe("vit-l-14", path, 768), 300)
    with pytest.raises(TowerError, match="set dim = 512"):
        build_model(pointbert_recipe("vit-b-32", None, 64), 300)
