"""TriCoLo's third side: a tower over coloured voxels, and its recipe."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import trimesh
from jaxtyping import Float
from torch import Tensor, nn

from multifold.errors import MultifoldError
from multifold.manifest import ManifestEntry
from renderers.mesh.load import load_model
from renderers.points import sample_points
from renderers.voxels import VOXEL_POINTS, voxels
from tests.training import small
from training import loop, prepare
from training.batches import TrainingItems
from training.checkpoint import load_checkpoint
from training.data.points import VoxelSpec, load_points
from training.objective import BatchComparison, Objective
from training.recipes.library import load_recipe
from training.recipes.schema import Recipe, VoxelsSection, parse_recipe
from training.sides import BatchFeatures, SideFeatures
from training.towers import build_model, point_spec, surface_spec
from training.towers.base import TowerError
from training.towers.heads import ProjectionHead, TowerHead
from training.towers.points import VoxelTower
from training.validation import ValidationSet

VOXELS = {"kind": "voxels", "side": 8, "stem": [4, 8], "width": 16}
PAIRS = {"name": "tricolo", "pool": "max", "agg_image": 1.0, "text_points": 1.0, "agg_points": 1.0}


def recipe(points: dict[str, Any] | None = None, **train: object) -> Recipe:
    raw = small.recipe(views=0, **train).model_dump(exclude_none=True)
    return parse_recipe({**raw, "points": points or VOXELS, "loss": PAIRS}, "voxels")


def cubes(count: int, seed: int = 0) -> torch.Tensor:
    """Random surfaces: a third of the cells filled."""
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 256, (count, 8, 8, 8, 4)).astype(np.uint8)
    filled = rng.random((count, 8, 8, 8, 1)) < 0.33
    cells[..., 3] = 255
    return torch.from_numpy(cells * filled)


def plain(tower: VoxelTower, cube: Tensor) -> Float[Tensor, " w"]:
    """One item cell by cell: sums over filled neighbours of filled cells, then the largest of eight."""
    x = {tuple(c): cube[tuple(c)][:3].double() / 255 for c in cube[..., 3].nonzero().tolist()}
    side = len(cube)
    for convolve, norm in zip(tower.stem, tower.stem_norms, strict=True):
        assert isinstance(convolve, nn.Conv3d)
        assert isinstance(norm, nn.LayerNorm)
        weight, new = convolve.weight.double(), {}
        for cell in x:
            total = torch.zeros(weight.shape[0], dtype=torch.float64)
            for offset in np.ndindex(3, 3, 3):
                near = tuple(c + o - 1 for c, o in zip(cell, offset, strict=True))
                if near in x:
                    total += weight[(slice(None), slice(None), *offset)] @ x[near]
            spread = ((total - total.mean()) ** 2).mean() + norm.eps
            new[cell] = ((total - total.mean()) / spread.sqrt() * norm.weight + norm.bias).relu()
        x = {}
        for cell, value in new.items():
            half = tuple(c // 2 for c in cell)
            x[half] = torch.maximum(x[half], value) if half in x else value
        side //= 2
    flat = torch.zeros(weight.shape[0], side, side, side, dtype=torch.float64)
    for cell, value in x.items():
        flat[(slice(None), *cell)] = value
    return (tower.widen.weight.double() @ flat.flatten() + tower.widen.bias).relu()


def test_the_tower_computes_filled_cells_only() -> None:
    torch.manual_seed(0)
    head = TowerHead(ProjectionHead(nn.Parameter(torch.randn(6, 16))), None)
    tower = VoxelTower(VoxelsSection.model_validate(VOXELS), head).eval()
    for norm in tower.stem_norms.parameters():
        nn.init.normal_(norm)
    items = cubes(3)
    with torch.no_grad():
        read, there = tower.tokens(items)
        assert there.all()
        for one, cube in zip(read[:, 0], items, strict=True):
            assert torch.allclose(one.double(), plain(tower, cube), atol=1e-5)


def test_a_side_that_cannot_be_halved_is_refused() -> None:
    with pytest.raises(TowerError, match="a side of 6 cells cannot be halved 2 times"):
        build_model(recipe({**VOXELS, "side": 6}), 300)


def test_voxels_do_not_spin_and_are_no_groups() -> None:
    for options in ({"augment": {"spin": 90.0}}, {"groups": 4}):
        wanted = recipe(**options)
        with pytest.raises(MultifoldError, match="voxels do not turn and have no groups"):
            Objective(wanted, build_model(wanted, 300))
    assert wanted.points is not None
    with pytest.raises(TowerError, match="no groups of points"):
        point_spec(wanted.points)


def test_voxels_of_meshes_are_kept(tmp_path: Path) -> None:
    trimesh.creation.box((1, 2, 3)).export(tmp_path / "box.stl")
    entries = [ManifestEntry("box", mesh=tmp_path / "box.stl")]
    found = load_points(entries, VoxelSpec(8), "auto", tmp_path / "cache")
    assert found.dtype == np.uint8
    wanted = voxels(sample_points(load_model(tmp_path / "box.stl"), VOXEL_POINTS), 8)
    assert np.array_equal(found[0], wanted)


def test_text_views_and_voxels_are_compared_two_by_two() -> None:
    wanted = load_recipe("tricolo-iv")
    assert wanted.points is not None
    assert surface_spec(wanted.points) == VoxelSpec(64)
    rng = torch.Generator().manual_seed(0)
    views, texts, cells = (torch.randn(count, 512, generator=rng) for count in (6, 4, 2))
    items = torch.tensor([0, 0, 0, 1, 1, 1]), torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1])
    sides = [SideFeatures(*both) for both in zip((views, texts, cells), items, strict=True)]
    model = build_model(recipe(), 300)
    compare = BatchComparison(Objective(recipe(), model).loss, model.geometry, wanted, 0.0)
    together = SideFeatures(torch.stack([views[:3].amax(0), views[3:].amax(0)]), items[2])
    pairs = [(together, sides[1]), (sides[2], sides[1]), (sides[2], together)]
    total = sum(compare(BatchFeatures(*pair), None) for pair in pairs)
    assert torch.allclose(compare.sum_all(BatchFeatures(*sides), None), torch.as_tensor(total))


def test_views_and_voxels_learn_together(tmp_path: Path) -> None:
    wanted = recipe(steps=60, captions=0)
    items, tokenizer = small.groups(wanted)
    assert isinstance(items, TrainingItems)
    colours = cubes(16, seed=1).numpy()
    with_voxels = TrainingItems(items.pixels, items.tokens, items.captions, points=colours)
    model = load_checkpoint(loop.train(wanted, with_voxels, tokenizer, tmp_path)).model
    views, captions = small.pictures()
    held_out = ValidationSet(
        views, captions, prepare.reader(wanted, tokenizer), colours, sees=True, pool="max"
    )
    assert held_out.measure(model)["text_to_shape/R@1"] > 0.8  # by chance 1/16
