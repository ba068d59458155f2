"""A folder of one's own as a data set with splits; files that don't open are left out."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from multifold.bundle.preprocess import decode
from multifold.errors import MultifoldError
from multifold.files import folder
from multifold.machine import cores
from multifold.manifest import ManifestEntry
from renderers.contracts import MeshError
from renderers.mesh.formats.mesh_file import EXTENSIONS, find_companions
from renderers.sandbox import Sandbox
from training.data.sources.imported import ImportedDataset, split_of


def read_folder(root: Path, percentages: Sequence[int]) -> ImportedDataset:
    """Every item below a folder; those with the very same texts go into the same split."""
    read = folder.read(root, folder.FolderLayout(EXTENSIONS, find_companions))
    lonely = [path for path in read.others if path.suffix.lower() == ".txt"]
    silent = [entry.id for entry in read.entries if not entry.texts]
    problems = [
        *map(str, read.problems),
        *(f"left out {path}: it stands beside no mesh or picture of its name" for path in lonely),
        *(f"{name} has no captions: it can be searched, not learned from" for name in silent),
    ]
    keys = ["\n".join(sorted(entry.texts)) or entry.id for entry in read.entries]
    splits = [split_of(key, percentages) for key in keys]
    pairs = zip(read.entries, splits, strict=True)
    return ImportedDataset([replace(entry, split=entry.split or split) for entry, split in pairs], problems)


CHECK_SIZE = 32


def leave_out_broken(dataset: ImportedDataset) -> ImportedDataset:
    """Open every picture and draw every mesh once, small; items with a broken file are left out."""
    broken = {**_broken_meshes(dataset.entries), **_broken_pictures(dataset.entries)}
    whole = [entry for entry in dataset.entries if entry.id not in broken]
    problems = [f"left out {name}: {reason}" for name, reason in broken.items()]
    return ImportedDataset(whole, [*dataset.problems, *problems])


def _broken_pictures(entries: Sequence[ManifestEntry]) -> dict[str, str]:
    named = [(entry.id, path) for entry in entries for path in entry.images]
    with ThreadPoolExecutor(cores()) as pool:
        checks = pool.map(_problem_of, (path for _, path in named))
        problems = list(tqdm(checks, total=len(named), desc="pictures", unit="file", disable=None))
    return {
        name: f"{path}: {problem}" for (name, path), problem in zip(named, problems, strict=True) if problem
    }


def _problem_of(path: Path) -> str | None:
    try:
        decode(path.read_bytes())
    except (MultifoldError, OSError) as error:
        return str(error)
    return None


def _broken_meshes(entries: Sequence[ManifestEntry]) -> dict[str, str]:
    named = [(entry.id, entry.mesh) for entry in entries if entry.mesh is not None]
    if not named:
        return {}
    with Sandbox(cores()) as sandbox:
        drawn = sandbox.render_many([mesh for _, mesh in named], "ring1", CHECK_SIZE, "white", "auto")
        results = list(tqdm(drawn, total=len(named), desc="meshes", unit="file", disable=None))
    return {
        name: f"{mesh}: {result}"
        for (name, mesh), result in zip(named, results, strict=True)
        if isinstance(result, MeshError)
    }
