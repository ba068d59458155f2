"""Does every file open? Better asked before a long training than in the middle of it."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tqdm import tqdm

from multifold.errors import MultifoldError
from multifold.machine import cores
from multifold.manifest import Entry
from multifold.preprocess import decode
from renderers.errors import MeshError
from renderers.sandbox import Sandbox
from training.data.sources.found import Found

SIZE = 32


def without_broken(found: Found) -> Found:
    """Every picture is opened and every mesh drawn once, small; items with a broken file are left out."""
    wrong = {**_meshes(found.entries), **_pictures(found.entries)}
    kept = [entry for entry in found.entries if entry.id not in wrong]
    return Found(kept, [*found.problems, *(f"left out {name}: {why}" for name, why in wrong.items())])


def _pictures(entries: Sequence[Entry]) -> dict[str, str]:
    """Broken pictures: the item's id, and what is wrong."""
    named = [(entry.id, path) for entry in entries for path in entry.images]
    with ThreadPoolExecutor(cores()) as pool:
        told = pool.map(_wrong, (path for _, path in named))
        listed = list(tqdm(told, total=len(named), desc="pictures", unit="file", disable=None))
    return {name: f"{path}: {wrong}" for (name, path), wrong in zip(named, listed, strict=True) if wrong}


def _wrong(path: Path) -> str | None:
    try:
        decode(path.read_bytes())
    except (MultifoldError, OSError) as error:
        return str(error)
    return None


def _meshes(entries: Sequence[Entry]) -> dict[str, str]:
    named = [(entry.id, entry.mesh) for entry in entries if entry.mesh is not None]
    if not named:
        return {}
    with Sandbox(cores()) as sandbox:
        drawn = sandbox.render_many([mesh for _, mesh in named], "ring1", SIZE, "white", "auto")
        results = list(tqdm(drawn, total=len(named), desc="meshes", unit="file", disable=None))
    return {
        name: f"{mesh}: {result}"
        for (name, mesh), result in zip(named, results, strict=True)
        if isinstance(result, MeshError)
    }
