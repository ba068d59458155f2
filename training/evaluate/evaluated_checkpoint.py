"""A checkpoint as something to be evaluated. Needs torch, as bundles do not."""

from functools import partial
from pathlib import Path

import torch

from multifold.bundle.bundle import file_hash
from training import checkpoint, prepare, towers
from training.distributed import choose_device
from training.evaluate.grad_cam import GradientExplainer
from training.evaluate.linear_probe import features_before_projection
from training.evaluate.subject import EvaluatedEncoder
from training.geometries.pointcloud import KernelCloud
from training.retrieval.encoder import TorchEncoder


def evaluated_checkpoint(path: Path, device: str = "cpu") -> EvaluatedEncoder:
    """On a device, of which `auto` is a GPU if there is one."""
    trained = checkpoint.load_checkpoint(path)
    recipe = trained.recipe
    geometry = trained.model.geometry
    encoder = TorchEncoder(trained.model.to(choose_device(device)), prepare.reader(recipe, trained.tokenizer))
    return EvaluatedEncoder(
        encoder=encoder,
        image=towers.image_spec(recipe.image),
        views=prepare.view_spec(recipe),
        geometry=geometry.name,
        about={"checkpoint": path.name, "sha256": file_hash(path), "recipe": recipe.name},
        points=prepare.points_of(recipe),
        explainer=partial(GradientExplainer, encoder),
        before_projection=partial(features_before_projection, encoder),
        redraw=partial(_redraw, geometry) if isinstance(geometry, KernelCloud) else None,
    )


def _redraw(geometry: KernelCloud, frequencies: int | None, seed: int) -> int:
    """Draw so many random features, or as many as there were; how many there are."""
    count = len(geometry.phases) if frequencies is None else frequencies
    geometry.redraw(count, torch.Generator().manual_seed(seed))
    return count
