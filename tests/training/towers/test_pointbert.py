"""PointBERT as OpenShape publishes it, against the plain computation on the published names."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from jaxtyping import Float
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from multifold.bundle.point_groups import PointSpec, group_points
from tests.training import small
from training.recipes.schema import PointBertSection, Recipe
from training.towers import build_model, point_spec
from training.towers.base import TowerError
from training.towers.pointbert import PointBertTower, load_published, published_weights


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
    named = {} if pretrained is None else {"pretrained": str(pretrained)}
    section = {"kind": "pointbert", "clip": clip, **named}
    return small.recipe({**small.POINTS_ALONE, "points": section, "geometry": {"dim": dim}})


@pytest.mark.parametrize(
    ("clip", "dim", "suffix"), [("vit-b-32", 512, ".pt"), ("vit-l-14", 768, ".safetensors")]
)
def test_pointbert_computes_what_is_published(tmp_path: Path, clip: str, dim: int, suffix: str) -> None:
    table, path = published(clip), tmp_path / f"model{suffix}"
    if suffix == ".pt":
        torch.save(table, path)
    else:
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
