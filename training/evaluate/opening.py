"""Opens what is to be evaluated by its path: a bundle without torch, a checkpoint with it."""

from pathlib import Path

from multifold.errors import MultifoldError, needs_extra
from training.evaluate.subject import EvaluatedEncoder, evaluated_bundle


def open_evaluated(path: Path, device: str = "cpu") -> EvaluatedEncoder:
    """A checkpoint runs on the device; a bundle on the CPU."""
    if path.is_dir():
        return evaluated_bundle(path)
    if not path.is_file():
        raise MultifoldError(f"there is neither a bundle nor a checkpoint at {path}")
    with needs_extra("train"):
        from training.evaluate.evaluated_checkpoint import evaluated_checkpoint
    return evaluated_checkpoint(path, device)
